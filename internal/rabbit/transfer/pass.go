package transfer

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
)

// The times of a pass.
const (
	reportInterval = 50 * time.Millisecond
	depthInterval  = time.Second
	// idleLimit is after how long without a message the queue is asked whether there are more.
	idleLimit = 500 * time.Millisecond
	// endInterval is the time between two looks at a queue that need not become empty.
	endInterval = 100 * time.Millisecond
	// flushLimit is how many confirms are awaited before they are acknowledged.
	flushLimit = 128
	// manyHeld is how many messages stay before a transfer counts as selective that was not expected to be.
	manyHeld = 100
	// unnoticed is how long a broker takes at most to note that a connection is cut: two missed heartbeats.
	unnoticed = 4 * amqpconn.Heartbeat
	// undelivered is for how long messages that are ready may not come until that is told.
	undelivered = 10 * time.Second
	// answerLimit is how long the broker has to answer a question.
	answerLimit = 10 * time.Second
)

// pass is one connection of a transfer.
type pass struct {
	*transfer
	connection *amqpconn.Conn
	intake     *intake
	outlet     *outlet
	closed     chan *amqp.Error
	questions  *amqp.Channel // for passive declarations; nil until needed

	movedBefore int
	// sure is how many messages the broker has removed for certain; asked is how many were acknowledged when it was asked last.
	sure, asked int
	askedAt     time.Time
	began       time.Time
	bound       int // messages are taken at most
	taken       int
	matched     int // in a dry run
	// matchedApart is how many of matched are messages that Config.Apart names.
	matchedApart int
	skipped      map[string]int
	failing      int // messages that could not be moved
	held         int
	// waiting are messages that are to be moved, in their order, for which there was no room, or which the broker has refused.
	waiting []*item

	blocked               bool
	drained               bool // the queue has no more messages
	ending                bool // deliveries have ended, as Config.EndBelow says
	stopping              bool // nothing more is taken or published
	stoppedAt             time.Time
	stopReason            error
	state                 State
	detail                string
	pause                 time.Duration // the last one
	until                 time.Time     // nothing is published before
	unflushed             int
	idleSince             time.Time // nothing has come since, though there was room
	takenAt               time.Time // the last message was taken
	lastLook              time.Time // at the queue
	emptySince            int       // how many messages were taken when the queue said that it has no more; never if it did not
	lastReport, lastDepth time.Time
	room                  int // how many messages the destination may still get
}

// never is no number of messages.
const never = -1

// Why a pass stops.
var (
	errNoMemory = errors.New("the process keeps no more messages")
	errPassOver = errors.New("messages were held for long enough")
	errNoAnswer = errors.New("the broker has not confirmed in time")
)

// pass moves messages on one connection. It says whether all is done.
func (t *transfer) pass(ctx context.Context) (done bool, err error) {
	if t.progress.State == "" {
		t.report(t.with(Connecting, ""))
	}
	connection, err := t.Dial(ctx)
	if err != nil {
		t.report(t.with(Connecting, err.Error()))
		return false, err
	}
	now := time.Now()
	p := &pass{
		transfer: t, connection: connection, intake: &intake{connection: connection, queue: t.Queue},
		closed:      connection.Connection.NotifyClose(make(chan *amqp.Error, 1)),
		movedBefore: t.moved, sure: t.moved, asked: t.moved, askedAt: now, began: now, idleSince: now, bound: t.left(),
		skipped: map[string]int{}, state: Moving, emptySince: never,
	}
	defer connection.Close(answerLimit)
	// Whatever the library waits for ends with the socket: a broker that blocks publishers does not answer.
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(settleLimit, connection.CloseSocket) })
	defer stop()
	if err = p.open(); err == nil {
		err = p.run(ctx)
	}
	defer func() { t.report(withoutHeld(p.now())) }()
	if err != nil {
		p.doubt()
		return false, p.ended(err)
	}
	if err := p.countAgain(); err != nil {
		return false, err
	}
	if err := p.giveBack(); err != nil && (p.Delete || p.hasLostAcknowledgements()) {
		p.doubt()
		return false, errors.Join(p.stopReason, err)
	}
	p.sure = p.moved
	if errors.Is(p.stopReason, errPassOver) || errors.Is(p.stopReason, errNoMemory) {
		return false, nil
	}
	return true, p.stopReason
}

// with is the progress with another state.
func (t *transfer) with(state State, detail string) Progress {
	progress := t.progress
	progress.State, progress.Detail, progress.InFlight, progress.Held = state, detail, 0, 0
	return progress
}

// withoutHeld is the progress when a pass has given back what it held.
func withoutHeld(progress Progress) Progress {
	progress.Held = 0
	return progress
}

func (p *pass) open() (err error) {
	if p.look != nil {
		if err := p.countReady(); err != nil {
			return err
		}
	}
	if p.outlet, err = openOutlet(p.connection, p.Exchange); err != nil {
		return err
	}
	err = p.intake.open(p.prefetch())
	if reply, ok := errors.AsType[*amqp.Error](err); ok && reply.Code == amqp.NotFound {
		p.state, p.detail = SourceMissing, reply.Reason
	}
	if err != nil {
		return p.Errs.OfOperation(err)
	}
	return nil
}

// holds says whether messages may stay.
func (p *pass) holds() bool { return p.Selective || p.DryRun }

// prefetch is how many messages the broker delivers before they are settled.
func (p *pass) prefetch() int {
	switch {
	case p.Limited:
		return 1
	case p.DryRun: // a channel that gets no more messages than are wanted is cancelled without waiting
		return min(p.sizes.fitting(maxHeld), max(1, p.bound-p.taken))
	case p.holds():
		return p.sizes.fitting(maxHeld)
	}
	prefetch := p.sizes.fitting(p.pace.window())
	if p.atATime > 0 {
		prefetch = min(prefetch, p.atATime)
	}
	return prefetch
}

// window is how many messages may wait for their confirms.
func (p *pass) window() int {
	if p.careful > 0 {
		return 1
	}
	return p.sizes.fitting(p.pace.window())
}

// run takes and publishes until there is nothing left to do, or an error.
func (p *pass) run(ctx context.Context) error {
	clock := time.NewTicker(tick)
	defer clock.Stop()
	stopped := ctx.Done()
	if err := p.tick(time.Now()); err != nil {
		return err
	}
	for !p.finished() {
		var deliveries <-chan amqp.Delivery
		if p.mayTake() {
			deliveries = p.intake.current().deliveries
		}
		var err error
		select {
		case message, open := <-deliveries:
			err = p.take(message, open)
		case confirm, open := <-p.outlet.confirms:
			err = p.confirmed(confirm, open)
		case now := <-clock.C:
			err = p.tick(now)
		case blocking := <-p.connection.Blocked():
			p.setBlocked(blocking)
		case reason := <-p.closed:
			err = p.connectionClosed(reason)
		case <-stopped:
			p.stop(nil)
			stopped = nil
		}
		if err != nil {
			return err
		}
	}
	p.holdWaiting() // what is behind on the same channel could not be acknowledged otherwise
	return p.intake.stop()
}

// stop has the pass settle what it has published, and then end.
func (p *pass) stop(reason error) {
	if !p.stopping {
		p.stopping, p.stoppedAt, p.stopReason = true, time.Now(), reason
		if p.Limited {
			p.intake.endFull()
		}
	}
}

// finished says whether all that was taken is settled or held, and no more is to be taken.
func (p *pass) finished() bool {
	moving := len(p.outlet.inFlight)
	switch {
	case moving > 0, len(p.waiting) > 0 && p.mayPublish():
		return false
	case p.stopping && p.Limited: // a message may be on its way, which the end of the consumer would give back
		return p.intake.hasEnded() || p.drained || time.Since(p.stoppedAt) > settleLimit
	}
	return p.stopping || p.drained || p.taken >= p.bound || p.reachedLimit(0)
}

// mayTake says whether there is room for another message.
func (p *pass) mayTake() bool {
	moving := len(p.outlet.inFlight) + len(p.waiting)
	return p.mayPublish() && !p.isPaused() && !p.blocked && len(p.waiting) == 0 && moving < p.window() && p.taken < p.bound &&
		!p.reachedLimit(moving) && !p.reachedClaim(moving) && p.until.IsZero()
}

// mayPublish says whether messages are still moved.
func (p *pass) mayPublish() bool { return !p.stopping || p.Limited }

// isPaused reports whether the transfer pauses. One that stops does not.
func (p *pass) isPaused() bool { return !p.stopping && p.Settings().Paused }

// take judges a message.
func (p *pass) take(message amqp.Delivery, open bool) error {
	from := p.intake.current()
	if !open {
		if !from.cancelled {
			return p.consumerEnded()
		}
		if p.ending {
			p.bound = p.taken
			return nil
		}
		return p.intake.open(p.prefetch())
	}
	p.taken++
	p.intake.took(&message)
	if p.Limited && p.taken >= p.bound {
		p.intake.endFull()
	}
	p.idleSince = time.Now()
	p.takenAt = p.idleSince
	if p.state == NothingDelivered {
		p.setState(Moving, "")
	}
	if size, tooLarge, dropped := p.connection.Dropped(&message); dropped {
		return p.takeWithoutBody(&item{message: message, from: from}, size, tooLarge)
	}
	message.Body = p.connection.Body(&message)
	p.sizes.add(len(message.Body))
	if !p.holds() {
		p.sizes.relax()
	}
	if p.look != nil {
		p.visit(&message)
		p.hold(from, &message)
		return p.intake.refill(p.prefetch())
	}
	switch skip := p.skips(&message); {
	case skip == failedBefore:
		p.hold(from, &message)
		p.countFailure()
	case skip != "":
		p.skipped[skip]++
		p.hold(from, &message)
	case p.DryRun:
		p.matched++
		if p.countsApart(&message) {
			p.matchedApart++
		}
		p.hold(from, &message)
	default:
		p.waiting = append(p.waiting, &item{message: message, from: from})
	}
	return errors.Join(p.intake.refill(p.prefetch()), p.publish())
}

// failedBefore is why a message is skipped that could not be moved in an earlier pass.
const failedBefore = "failed before"

// skips says why a message stays; empty if the message is to be moved.
func (p *pass) skips(message *amqp.Delivery) string {
	if len(p.failed) > 0 && p.failed[p.Judge.ID(message)] {
		return failedBefore
	}
	return p.Judge.Skips(message)
}

var errConsumerCancelled = errors.New("the broker has cancelled the consumer")

// hold keeps a message until the pass ends. Where many stay, more are taken at a time, or each would take a channel of its own.
func (p *pass) hold(from *intakeChannel, message *amqp.Delivery) {
	from.hold(message)
	if p.held++; p.held > manyHeld {
		p.Selective = true
	}
}

// holdWaiting gives up on what waits.
func (p *pass) holdWaiting() {
	for _, item := range p.waiting {
		p.hold(item.from, &item.message)
	}
	p.waiting = nil
}
