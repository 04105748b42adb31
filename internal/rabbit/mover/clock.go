package mover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/retry"
)

// tick does the periodic work of a pass: it acknowledges, retries, checks the queues and reports the progress.
func (p *pass) tick(now time.Time) error {
	if err := p.flush(now); err != nil {
		return err
	}
	p.pace.set(p.Settings().Rate)
	if !p.notBefore.IsZero() && now.After(p.notBefore) {
		p.notBefore = time.Time{}
	}
	switch {
	case p.DeliveryLimited && len(p.waiting) > 0 && p.state != DestinationBusy && now.Sub(p.takenAt) > passLimit:
		p.stop(ErrWaitedTooLong)
	case !p.DeliveryLimited && !p.blocked && now.Sub(p.began) > p.holdLimit() && (p.held > 0 || len(p.waiting) > 0):
		p.stop(p.whyOver(now))
	}
	if p.stopping && now.Sub(p.stoppedAt) > settleLimit {
		if len(p.outlet.inFlight) > 0 {
			return errNoAnswer
		}
		p.holdWaiting()
	}
	p.noticeNothingConfirmed(now)
	if !p.blocked && p.mayPublish() {
		if err := p.checkQueues(now); err != nil {
			return err
		}
	}
	if now.Sub(p.lastReport) >= reportInterval {
		p.lastReport = now
		p.report(p.currentProgress())
	}
	return errors.Join(p.publish(), p.refillFull())
}

// refillFull cancels the consumer of a full channel if the pass needs another channel, because held messages fill this one.
func (p *pass) refillFull() error {
	if p.blocked || p.stopping || !p.intake.current().isFull() {
		return nil
	}
	return p.intake.refill(p.prefetch())
}

// flush acknowledges the confirmed messages if mayAcknowledge permits it.
func (p *pass) flush(now time.Time) error {
	if !p.mayAcknowledge() {
		return nil
	}
	p.unflushed = 0
	return p.intake.flush(now.Sub(p.idleSince) > 10*tick)
}

// mayAcknowledge reports whether the pass may acknowledge messages. Each acknowledgement lets the broker deliver another message, which a
// paused pass must not receive. With Config.DeliveryLimited, the broker delivers only messages that the pass requests.
func (p *pass) mayAcknowledge() bool { return p.DeliveryLimited || !p.isPaused() }

// holdLimit is the maximum time for which the pass may hold messages.
func (p *pass) holdLimit() time.Duration {
	switch {
	case p.browse != nil:
		return cmp.Or(p.browse.limit, passLimit)
	case p.DryRun:
		return dryRunLimit
	}
	return passLimit
}

// whyOver returns the error that ends a pass at its holdLimit. It returns ErrTooSlow if the pass only examined messages, because the next
// pass would get no further.
func (p *pass) whyOver(now time.Time) error {
	hasWaited := len(p.waiting) > 0 || len(p.inFlight()) > 0 || now.Sub(p.takenAt) > idleLimit
	if p.browse != nil || p.moved > p.movedBefore || hasWaited {
		return errPassOver
	}
	return fmt.Errorf("%w: Warren examined %d messages in %v", ErrTooSlow, p.taken, p.holdLimit())
}

// checkQueues counts the removed messages, the ready messages of the destination, and the messages left in the source, each at its own
// interval.
func (p *pass) checkQueues(now time.Time) error {
	if err := p.countRemoved(now); err != nil {
		return err
	}
	if p.watchesDepth() && (p.room <= 0 && now.Sub(p.lastDepth) >= 10*tick || now.Sub(p.lastDepth) >= depthInterval) {
		if err := p.checkDestination(now); err != nil {
			return err
		}
	}
	if !p.mayTake() {
		p.idleSince = now
	}
	idle := now.Sub(p.idleSince)
	if p.EndBelow > 0 && !p.ending && now.Sub(p.checkedAt) >= endInterval {
		p.checkedAt = now
		return p.endIfBelow(idle)
	}
	if !p.ending && idle >= idleLimit && now.Sub(p.checkedAt) >= idleLimit {
		p.checkedAt = now
		return p.checkSource(idle)
	}
	return nil
}

// endIfBelow ends the pass if the queue has fewer ready messages than Config.EndBelow.
func (p *pass) endIfBelow(idle time.Duration) error {
	switch declared, exists, err := p.declared(p.Queue); {
	case err != nil || !exists || isUncounted(declared):
		return err
	case declared.Messages < p.EndBelow:
		return p.end()
	}
	p.noticeNothingDelivered(idle)
	return nil
}

// noticeNothingDelivered changes the state if the broker has delivered none of the ready messages for long. The broker does not count
// waiting consumers, so the number of consumers does not show whether another one is the single active consumer. RabbitMQ also delivers no
// message through a node on which the member of the queue does not run (4.3.6). The next connection may lead to another node, so the pass
// ends later if it holds no messages.
func (p *pass) noticeNothingDelivered(idle time.Duration) {
	if idle < stalled {
		return
	}
	p.setState(NothingDelivered, fmt.Sprintf(
		"queue %q has ready messages, but the broker has delivered none for %v. If the queue has x-single-active-consumer, "+
			"stop the active consumer", p.Queue, stalled))
	if idle >= unnoticed && p.connection.Unsettled() == 0 {
		p.stop(errPassOver)
	}
}

// noticeNothingConfirmed changes the state if the broker has confirmed none of the published messages for long.
func (p *pass) noticeNothingConfirmed(now time.Time) {
	if len(p.outlet.inFlight) == 0 || p.blocked {
		p.answeredAt = now
	}
	if now.Sub(p.answeredAt) < stalled {
		return
	}
	destination := "a destination queue"
	if p.Destination != "" {
		destination = fmt.Sprintf("queue %q", p.Destination)
	}
	p.setState(NothingConfirmed, fmt.Sprintf(
		"the broker has confirmed no message for %v, perhaps because %s has no leader", stalled, destination))
}

// end cancels the consumer, if there is one. The pass still moves the messages that were already delivered.
func (p *pass) end() error {
	if p.DeliveryLimited {
		p.drained = true
		return nil
	}
	p.ending = true
	return p.intake.current().cancel()
}

// checkSource checks whether the queue is empty. It waits for consumers that may return messages: a cut connection, even of this
// move, holds messages until the broker detects the cut. The queue counts as empty after two counts of zero messages without a
// delivery in between. At the first count, a busy broker may still be sending messages that it has taken out of the queue. These
// messages arrive before the broker answers on their channel. At the second count, the pass must have taken all of them.
func (p *pass) checkSource(idle time.Duration) error {
	declared, exists, err := p.declared(p.Queue)
	if err != nil {
		return err
	}
	if isUncounted(declared) && p.intake.consumers() > 0 {
		return nil
	}
	heldByOthers := p.browse == nil && declared.Consumers > p.intake.consumers() && idle < unnoticed
	arrived := p.connection.Unsettled() - p.intake.unsettled() // and not yet taken
	isEmpty := exists && declared.Messages == 0 && arrived == 0 && !heldByOthers && p.takenWhenEmpty == p.taken
	p.drained = isEmpty
	p.takenWhenEmpty = never
	if declared.Messages == 0 {
		p.takenWhenEmpty = p.taken
		return p.intake.askOn(p.intake.current()) // the earlier channels are full
	}
	p.noticeNothingDelivered(idle)
	return nil
}

// countOthers counts the other consumers of the queue at the end of a move. It waits for a browse, which pauses the move
// and returns its messages, and for the broker to detect a cut connection of this move. Consumers may also leave within endLimit.
func (p *pass) countOthers(ctx context.Context) error {
	if p.stopping || p.EndBelow > 0 { // the caller counts again
		return nil
	}
	holdUntil, until := p.began.Add(p.holdLimit()), time.Now().Add(endLimit)
	if detected := p.cutAt.Add(unnoticed); detected.After(until) {
		until = detected
	}
	for ctx.Err() == nil {
		browsed := p.isPaused()
		declared, exists, err := p.declared(p.Queue)
		if err != nil {
			return p.Errs.OfOperation(err)
		}
		wasBusy, err := p.wasBusy(declared, exists)
		if err != nil {
			return p.Errs.OfOperation(err)
		}
		own := p.intake.consumers()
		if !wasBusy {
			p.others = max(0, declared.Consumers-own)
		}
		isKnown := !wasBusy && p.others == 0 && (own == 0 || !isUncounted(declared))
		now := time.Now()
		if browsed || p.isPaused() || wasBusy {
			until = now.Add(endLimit)
		}
		if isKnown || now.After(until) || now.After(holdUntil) {
			return nil
		}
		_ = retry.Sleep(ctx, p.Errs, maxAskPause)
	}
	return nil
}

// withinLimit calls ask, and cuts the connection if the broker takes longer than answerLimit to answer.
func withinLimit(connection *amqpconn.Conn, ask func() error) error {
	watchdog := time.AfterFunc(answerLimit, connection.CloseSocket)
	defer watchdog.Stop()
	return ask()
}

// giveBack closes the channels of the intake one by one, and waits after each until the queue has its messages back. If it returns an
// error, the broker may have lost acknowledgements.
func (p *pass) giveBack(ctx context.Context) error {
	if !p.DeliveryLimited && !p.blocked {
		err := p.intake.sweep(cleanupLimit(ctx, sweepLimit), func() (int, error) {
			source, exists, err := p.declared(p.Queue)
			if exists && isUncounted(source) { // the held messages make this intake a consumer
				return firstSweep, nil
			}
			return source.Messages, err
		})
		if err != nil {
			p.Log.Info("Messages may be out of order", "queue", p.Queue, "reason", err.Error())
		}
	}
	before, _, err := p.declared(p.Queue)
	before.Consumers = max(before.Consumers, p.intake.consumers())
	until := time.Now().Add(cleanupLimit(ctx, settleLimit))
	return p.intake.close(func() {
		if err == nil {
			before, err = p.awaitFewerConsumers(before, until)
		}
	})
}

// cleanupLimit returns the time limit of one cleanup step of a pass. If the move was stopped, all steps together must end before cutAfter
// closes the socket.
func cleanupLimit(ctx context.Context, limit time.Duration) time.Duration {
	if ctx.Err() != nil {
		return settleLimit / 5
	}
	return limit
}

// awaitFewerConsumers returns the counts of the queue once it has fewer consumers than before, or when the time is over. The broker
// counts each channel that holds messages as a consumer, so fewer consumers show that the queue has processed the end of a channel.
func (p *pass) awaitFewerConsumers(before amqp.Queue, until time.Time) (fewer amqp.Queue, err error) {
	fewer = before
	askUntil(until, func() bool {
		now, exists, failed := p.declared(p.Queue)
		if failed == nil && exists && (now.Consumers >= before.Consumers || isUncounted(now)) {
			return false
		}
		fewer, err = now, failed
		return true
	})
	return fewer, err
}

// maxAskPause is the longest pause between two questions to a busy broker.
const maxAskPause = 50 * time.Millisecond

// askUntil calls ask until it returns true or the time is over. The pauses between the calls double up to maxAskPause.
func askUntil(until time.Time, ask func() bool) {
	for pause := time.Millisecond; time.Now().Before(until) && !ask(); pause = min(2*pause, maxAskPause) {
		time.Sleep(pause)
	}
}

// isUncounted reports whether a queue that is known to have messages or consumers was too busy to count them. Such a quorum queue
// reports zero for both.
func isUncounted(queue amqp.Queue) bool { return queue.Messages == 0 && queue.Consumers == 0 }

// declared returns the ready messages and the consumers of a queue. It returns false if the queue does not exist.
func (p *pass) declared(queue string) (counted amqp.Queue, exists bool, err error) {
	err = withinLimit(p.connection, func() (err error) {
		if p.questions == nil {
			if p.questions, err = p.connection.Connection.Channel(); err != nil {
				return err
			}
		}
		asked := time.Now()
		counted, err = p.questions.QueueDeclarePassive(queue, true, false, false, false, nil)
		p.recordAnswer(asked)
		return err
	})
	if reply, ok := errors.AsType[*amqp.Error](err); ok && reply.Code == amqp.NotFound {
		p.questions = nil // the broker has closed the channel
		return counted, false, nil
	}
	return counted, err == nil, err
}

func (p *pass) recordAnswer(asked time.Time) {
	p.took = time.Since(asked)
	p.quickest = min(p.quickest, p.took)
}

func (p *pass) setBlocked(blocking amqp.Blocking) {
	p.blocked = blocking.Active
	if p.blocked {
		p.setState(Blocked, blocking.Reason)
		return
	}
	p.setState(Moving, "")
}

// setState reports a changed state immediately. While the broker blocks the connection, the state remains Blocked, although
// confirms of earlier messages still arrive.
func (p *pass) setState(state State, detail string) {
	if p.blocked && state != Blocked || p.state == state && p.detail == detail {
		return
	}
	p.state, p.detail = state, detail
	p.report(p.currentProgress())
}

// currentProgress returns the progress. Each pass counts the skipped messages from zero. Until a pass has skipped as many messages as the
// previous pass, Skipped has the counts of the previous pass.
func (p *pass) currentProgress() Progress {
	progress := Progress{
		State: p.state, Detail: p.detail, Moved: p.moved, Apart: p.apart, Failures: p.failures, InFlight: len(p.inFlight()),
		Held: p.unsettled(), Unsure: p.unsure, Pending: p.uncertain(), Consumers: p.others,
		Failed: max(p.failing, len(p.failures), p.progress.Failed), Skipped: map[string]int{},
	}
	counted := p.skipped
	if sum(counted) < sum(p.progress.Skipped) {
		counted = p.progress.Skipped
	}
	maps.Copy(progress.Skipped, counted)
	if p.DryRun {
		progress.Moved, progress.Apart = max(p.matched, p.progress.Moved), max(p.matchedApart, p.progress.Apart)
	}
	return progress
}

func (p *pass) unsettled() int {
	if p.connection == nil {
		return 0
	}
	return p.connection.Unsettled()
}

func (p *pass) inFlight() map[uint64]*item {
	if p.outlet == nil {
		return nil
	}
	return p.outlet.inFlight
}

func sum(counts map[string]int) int {
	total := 0
	for _, count := range counts {
		total += count
	}
	return total
}
