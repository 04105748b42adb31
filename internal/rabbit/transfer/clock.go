package transfer

import (
	"errors"
	"fmt"
	"maps"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// tick does what the clock asks for: it acknowledges, has another try, looks at queues, and reports.
func (p *pass) tick(now time.Time) error {
	if err := p.flush(now); err != nil {
		return err
	}
	p.pace.set(p.Settings().Rate)
	if !p.until.IsZero() && now.After(p.until) {
		p.until = time.Time{}
	}
	switch {
	case p.Limited && len(p.waiting) > 0 && p.state != DestinationBusy && now.Sub(p.takenAt) > passLimit:
		p.stop(ErrWaitedTooLong)
	case !p.Limited && !p.blocked && now.Sub(p.began) > p.holdLimit() && (p.held > 0 || len(p.waiting) > 0):
		p.stop(p.whyOver(now))
	}
	if p.stopping && now.Sub(p.stoppedAt) > settleLimit {
		if len(p.outlet.inFlight) > 0 {
			return errNoAnswer
		}
		p.holdWaiting()
	}
	if !p.blocked && p.mayPublish() {
		if err := p.lookAtQueues(now); err != nil {
			return err
		}
	}
	if now.Sub(p.lastReport) >= reportInterval {
		p.lastReport = now
		p.report(p.now())
	}
	return p.publish()
}

// flush acknowledges what was confirmed, unless the transfer pauses: each acknowledgement brings another message.
func (p *pass) flush(now time.Time) error {
	if p.isPaused() {
		return nil
	}
	p.unflushed = 0
	return p.intake.flush(now.Sub(p.idleSince) > 10*tick)
}

// holdLimit is how long the pass may hold messages.
func (p *pass) holdLimit() time.Duration {
	if p.DryRun && p.look == nil {
		return dryRunLimit
	}
	return passLimit
}

// whyOver is why a pass ends that has held messages for long enough. The next one comes as far as this one if nothing was moved, and all
// the time went into looking at messages.
func (p *pass) whyOver(now time.Time) error {
	hasWaited := len(p.waiting) > 0 || len(p.inFlight()) > 0 || now.Sub(p.takenAt) > idleLimit
	if p.look != nil || p.moved > p.movedBefore || hasWaited {
		return errPassOver
	}
	return fmt.Errorf("%w: %d were looked at in %v", ErrTooSlow, p.taken, p.holdLimit())
}

// lookAtQueues asks how many messages are removed, how deep the destination is, and whether the source is empty.
func (p *pass) lookAtQueues(now time.Time) error {
	if err := p.makeSure(now); err != nil {
		return err
	}
	if p.watchesDepth() && (p.room <= 0 && now.Sub(p.lastDepth) >= 10*tick || now.Sub(p.lastDepth) >= depthInterval) {
		if err := p.lookAtDestination(now); err != nil {
			return err
		}
	}
	if !p.mayTake() {
		p.idleSince = now
	}
	if p.EndBelow > 0 && !p.ending && now.Sub(p.lastLook) >= endInterval {
		p.lastLook = now
		return p.endIfBelow()
	}
	if idle := now.Sub(p.idleSince); idle >= idleLimit && now.Sub(p.lastLook) >= idleLimit {
		p.lastLook = now
		return p.lookAtSource(idle)
	}
	return nil
}

// endIfBelow ends deliveries if the queue has few messages left. Those that were delivered are still moved.
func (p *pass) endIfBelow() error {
	declared, exists, err := p.declared(p.Queue)
	if err != nil || !exists || isUncounted(declared) || declared.Messages >= p.EndBelow {
		return err
	}
	p.ending = true
	return p.withinLimit(p.intake.current().cancel)
}

// lookAtSource finds out whether the queue has no more messages. What others hold may come back: a connection that was cut, this
// transfer's own included, holds messages until the broker notices. A queue counts as empty when it says so twice and no message has come
// in between. Messages that a busy broker has taken out of the queue may still be on their way when it says so the first time. They come
// before the broker answers on their channel.
func (p *pass) lookAtSource(idle time.Duration) error {
	declared, exists, err := p.declared(p.Queue)
	if err != nil {
		return err
	}
	if isUncounted(declared) && p.intake.consumers() > 0 {
		return nil
	}
	heldByOthers := p.look == nil && declared.Consumers > p.intake.consumers() && idle < unnoticed
	p.drained = exists && declared.Messages == 0 && !heldByOthers && p.emptySince == p.taken
	p.emptySince = never
	if declared.Messages == 0 {
		p.emptySince = p.taken
		return p.awaitDeliveries()
	}
	if idle >= undelivered { // consumers that wait for their turn are not counted, so their number tells nothing
		p.setState(NothingDelivered, fmt.Sprintf(
			"queue %q has ready messages, and the broker has delivered none for %v: where x-single-active-consumer is set, it delivers to "+
				"one consumer only", p.Queue, undelivered))
	}
	return nil
}

// awaitDeliveries returns when all messages have come that the broker had taken out of the queue. Channels before the current one are full.
func (p *pass) awaitDeliveries() error {
	return p.withinLimit(func() error { return p.intake.askOn(p.intake.current()) })
}

// withinLimit asks the broker, and cuts the connection if the answer takes longer than answerLimit.
func (p *pass) withinLimit(ask func() error) error {
	watchdog := time.AfterFunc(answerLimit, p.connection.CloseSocket)
	defer watchdog.Stop()
	return ask()
}

func (p *pass) watchesDepth() bool {
	return p.Destination != "" && p.Settings().MaxDepth >= 0 && !p.DryRun && (p.taken < p.bound || len(p.waiting) > 0)
}

// lookAtDestination finds out how many messages the destination may get. One that is missing is found by the next copy as well.
func (p *pass) lookAtDestination(now time.Time) error {
	p.lastDepth = now
	depth, exists, err := p.depth()
	if err != nil {
		return err
	}
	limit := p.Settings().MaxDepth
	p.room = max(0, limit-depth-len(p.outlet.inFlight))
	if p.state == DestinationBusy && 10*p.room < limit { // with each message that leaves, the transfer would begin and stop again
		p.room = 0
	}
	switch {
	case exists && p.room == 0:
		p.setState(DestinationBusy, p.whyBusy(limit))
	case p.state == DestinationBusy:
		p.setState(Moving, "")
	}
	return nil
}

// hasRoom says whether the destination may get another message.
func (p *pass) hasRoom() bool {
	return p.Destination == "" || p.Settings().MaxDepth < 0 || p.room > 0 || p.Limited && (p.stopping || time.Since(p.takenAt) > passLimit)
}

// depth is how many messages the destination and the queue behind it have ready; false if there is no destination.
func (p *pass) depth() (ready int, exists bool, err error) {
	destination, exists, err := p.declared(p.Destination)
	if err != nil || p.Behind == "" {
		return destination.Messages, exists, err
	}
	behind, _, err := p.declared(p.Behind)
	return destination.Messages + behind.Messages, exists, err
}

func (p *pass) whyBusy(limit int) string {
	if p.Behind == "" {
		return fmt.Sprintf("queue %q has %d ready messages or about as many", p.Destination, limit)
	}
	return fmt.Sprintf("queues %q and %q have %d ready messages together or about as many", p.Destination, p.Behind, limit)
}

// giveBack ends the intake, channel by channel. Whoever holds messages counts as a consumer, so the count tells when a queue has heard of
// the end of a channel. The error says that the broker may not know of each acknowledgement.
func (p *pass) giveBack() error {
	if !p.Limited && !p.blocked {
		err := p.intake.sweep(func() (int, error) {
			source, exists, err := p.declared(p.Queue)
			if exists && isUncounted(source) { // what is held makes this a consumer
				return firstSweep, nil
			}
			return source.Messages, err
		})
		if err != nil {
			p.Log.V(1).Info("Messages may have lost their places", "queue", p.Queue, "reason", err.Error())
		}
	}
	before, _, err := p.declared(p.Queue)
	before.Consumers = max(before.Consumers, p.intake.consumers())
	until := time.Now().Add(settleLimit)
	return p.intake.close(func() {
		askUntil(until, func() bool {
			if err != nil {
				return true
			}
			now, exists, failed := p.declared(p.Queue)
			if failed == nil && exists && (now.Consumers >= before.Consumers || isUncounted(now)) {
				return false
			}
			before, err = now, failed
			return true
		})
	})
}

// lastAskPause is the longest pause between two questions to a busy broker.
const lastAskPause = 50 * time.Millisecond

// askUntil asks until the answer is yes, or the time is over: quickly at first, and less often where the broker is busy.
func askUntil(until time.Time, ask func() bool) {
	for pause := time.Millisecond; time.Now().Before(until) && !ask(); pause = min(2*pause, lastAskPause) {
		time.Sleep(pause)
	}
}

// isUncounted says whether the numbers of a queue that has messages or consumers tell nothing: a quorum queue that is too busy to count
// says zero for both.
func isUncounted(queue amqp.Queue) bool { return queue.Messages == 0 && queue.Consumers == 0 }

// declared counts the messages of a queue that wait for a consumer, and the consumers; false if there is no such queue.
func (p *pass) declared(queue string) (counted amqp.Queue, exists bool, err error) {
	if p.questions == nil {
		if p.questions, err = p.connection.Connection.Channel(); err != nil {
			return counted, false, err
		}
	}
	err = p.withinLimit(func() (err error) {
		counted, err = p.questions.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	})
	if reply, ok := errors.AsType[*amqp.Error](err); ok && reply.Code == amqp.NotFound {
		p.questions = nil // the broker has closed the channel
		return counted, false, nil
	}
	return counted, err == nil, err
}

func (p *pass) setBlocked(blocking amqp.Blocking) {
	p.blocked = blocking.Active
	if p.blocked {
		p.setState(Blocked, blocking.Reason)
		return
	}
	p.setState(Moving, "")
}

// setState reports another state at once. While the broker blocks the connection, the state is Blocked: confirms of messages that were
// published before still arrive.
func (p *pass) setState(state State, detail string) {
	if p.blocked && state != Blocked || p.state == state && p.detail == detail {
		return
	}
	p.state, p.detail = state, detail
	p.report(p.now())
}

// now is the progress. The messages that stay are counted anew in each pass; until as many are found as before, the former counts hold.
func (p *pass) now() Progress {
	progress := Progress{
		State: p.state, Detail: p.detail, Moved: p.moved, Apart: p.apart, Failures: p.failures, InFlight: len(p.inFlight()),
		Held: p.unsettled(), Unsure: p.unsure, Pending: p.uncertain(),
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

// unsettled is how many messages the connection has received and not settled.
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
