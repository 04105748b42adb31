package mover

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
)

// Intervals and limits of a pass.
const (
	reportInterval = 50 * time.Millisecond
	depthInterval  = time.Second
	// idleLimit is how long no message must arrive before the pass asks whether the queue is empty.
	idleLimit = 500 * time.Millisecond
	// endInterval is the time between two checks of Config.EndBelow.
	endInterval = 100 * time.Millisecond
	// flushLimit is how many confirms arrive before the pass acknowledges them.
	flushLimit = 128
	// manyHeld is how many messages a move holds before it becomes selective.
	manyHeld = 100
	// unnoticed is longer than a broker takes to detect a cut connection: two to three missed heartbeats. If the broker delivers none of
	// the ready messages for this time, the move opens another connection.
	unnoticed = 4 * amqpconn.Heartbeat
	// stalled is how long the broker may deliver none of the ready messages, or confirm none of the published ones, before the state
	// becomes NothingDelivered or NothingConfirmed.
	stalled = 10 * time.Second
	// answerLimit is the maximum time for an answer of the broker.
	answerLimit = 10 * time.Second
)

// pass is one connection of a move.
type pass struct {
	*move
	connection *amqpconn.Conn
	intake     *intake
	outlet     *outlet
	closed     chan *amqp.Error
	questions  *amqp.Channel // for passive declarations; nil until needed
	// took is the time of the last answer on questions. quickest is the shortest of these times.
	took, quickest time.Duration

	movedBefore int
	// removed is how many messages the broker has certainly removed. asked is how many messages were acknowledged at the last
	// request of countRemoved.
	removed, asked int
	askedAt        time.Time
	began          time.Time
	bound          int // the maximum of taken
	taken          int
	matched        int // in a dry run
	// matchedApart is how many of matched are messages that Config.Apart names.
	matchedApart int
	skipped      map[string]int
	failing      int // messages that could not be moved
	held         int
	// waiting are the messages to move, in their order. They wait for room, or the broker has refused them.
	waiting []*item

	blocked               bool
	drained               bool // the queue has no more messages
	ending                bool // the consumer was cancelled, and the pass moves only what was delivered before
	stopping              bool // the pass takes and publishes nothing more; a limited pass still moves the message that it holds
	stoppedAt             time.Time
	stopReason            error
	state                 State
	detail                string
	pause                 time.Duration // the last one
	notBefore             time.Time     // the earliest time for the next publish; zero if now
	unflushed             int
	idleSince             time.Time // no message has arrived since, although there was room
	takenAt               time.Time // time of the last message
	answeredAt            time.Time // time of the last confirm, or when no message last waited for one
	checkedAt             time.Time // when the source was last checked
	gotNoneAt             time.Time // when a limited move last found the queue empty
	takenWhenEmpty        int       // taken at the last check of the source if it was empty then; never otherwise
	lastReport, lastDepth time.Time
	room                  int // how many messages may still be published to the destination
	others                int // the other consumers of the source at the end
}

// never is the value of takenWhenEmpty if the source was not empty at the last check.
const never = -1

// Reasons why a pass stops.
var (
	errNoMemory = errors.New("the process has no memory for more messages")
	errPassOver = errors.New("the move continues on another connection")
	errNoAnswer = errors.New("the broker has not confirmed in time")
)

// pass moves messages on one connection. It reports whether the move is done.
func (m *move) pass(ctx context.Context) (done bool, err error) {
	if m.progress.State == "" {
		m.report(m.with(Connecting, ""))
	}
	connection, err := m.Dial(ctx)
	if err != nil {
		m.report(m.with(Connecting, err.Error()))
		return false, err
	}
	now := time.Now()
	p := &pass{
		move: m, connection: connection, intake: &intake{connection: connection, queue: m.Queue},
		closed:      connection.Connection.NotifyClose(make(chan *amqp.Error, 1)),
		movedBefore: m.moved, removed: m.moved, asked: m.moved, askedAt: now, began: now, idleSince: now, bound: m.left(),
		skipped: map[string]int{}, state: Moving, takenWhenEmpty: never, quickest: answerLimit,
	}
	if m.progress.State == NothingDelivered { // until the broker delivers a message on this connection
		p.state, p.detail = NothingDelivered, m.progress.Detail
	}
	defer connection.Close(answerLimit)
	endCut := p.cutAfter(ctx)
	if err = p.open(); err == nil {
		err = p.run(ctx)
	}
	endCut()
	defer p.cutAfter(ctx)()
	defer func() {
		progress := p.currentProgress()
		progress.Held = 0 // all are returned
		m.report(progress)
	}()
	if err != nil {
		err = p.ended(err) // before countUnsure: a copy that the broker has surely refused is not moved
		p.countUnsure()
		return false, err
	}
	if err := p.countAgain(ctx); err != nil {
		p.countUnsure()
		return false, err
	}
	if err := p.giveBack(ctx); err != nil && (p.Delete || p.mayHaveLostAcknowledgements()) {
		p.countUnsure()
		return false, errors.Join(p.stopReason, err)
	}
	p.removed = p.moved
	if errors.Is(p.stopReason, errPassOver) || errors.Is(p.stopReason, errNoMemory) {
		return false, nil
	}
	return true, p.stopReason
}

// cutAfter closes the socket settleLimit after the context has ended, unless the returned function was called before. A broker that blocks
// publishers does not answer. Closing the socket ends every call of the AMQP library that waits for an answer.
func (p *pass) cutAfter(ctx context.Context) (end func()) {
	ended := make(chan struct{})
	go func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		select {
		case <-ended:
		case <-time.After(settleLimit):
			p.connection.CloseSocket()
		}
	}()
	return func() { close(ended) }
}

// with returns the progress with another state.
func (m *move) with(state State, detail string) Progress {
	progress := m.progress
	progress.State, progress.Detail, progress.InFlight, progress.Held = state, detail, 0, 0
	return progress
}

func (p *pass) open() (err error) {
	if p.browse != nil {
		if err := p.countReady(); err != nil {
			return err
		}
	}
	if p.outlet, err = openOutlet(p.connection, p.Exchange); err != nil {
		return err
	}
	if p.DeliveryLimited {
		return p.intake.openForGets()
	}
	return p.whyNotTaken(p.intake.open(p.prefetch()))
}

// whyNotTaken classifies an error that occurred while messages were taken out of the queue.
func (p *pass) whyNotTaken(err error) error {
	if err == nil {
		return nil
	}
	if reply, ok := errors.AsType[*amqp.Error](err); ok && reply.Code == amqp.NotFound {
		p.state, p.detail = SourceMissing, reply.Reason
	}
	return p.Errs.OfOperation(err)
}

// holds reports whether the pass may hold messages that it does not move.
func (p *pass) holds() bool { return p.Selective || p.DryRun }

// prefetch is how many unsettled messages the broker delivers.
func (p *pass) prefetch() int {
	switch {
	case p.DeliveryLimited:
		return 1
	case p.DryRun: // the consumer of a full channel can be cancelled without waiting
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

// window is the maximum number of messages that wait for their confirms.
func (p *pass) window() int {
	if p.DeliveryLimited || p.oneByOne > 0 {
		return 1
	}
	return p.sizes.fitting(p.pace.window())
}

// run takes and publishes messages until the pass is finished or fails.
func (p *pass) run(ctx context.Context) error {
	clock := time.NewTicker(tick)
	defer clock.Stop()
	stopped := ctx.Done()
	if err := p.tick(time.Now()); err != nil {
		return err
	}
	for !p.finished() {
		var deliveries <-chan amqp.Delivery
		var err error
		switch {
		case !p.mayTake():
		case !p.DeliveryLimited:
			deliveries = p.intake.current().deliveries
		case time.Since(p.gotNoneAt) > getPause:
			err = p.get()
		}
		if err != nil {
			return err
		}
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
	p.holdWaiting() // otherwise confirmed messages behind them could not be acknowledged
	return p.intake.stop()
}

// stop makes the pass settle the published messages and then end.
func (p *pass) stop(reason error) {
	if !p.stopping {
		p.stopping, p.stoppedAt, p.stopReason = true, time.Now(), reason
		if p.DeliveryLimited {
			p.notBefore = time.Time{} // try the held message once more
		}
	}
}

// finished reports whether every taken message is settled or held, and the pass takes no more.
func (p *pass) finished() bool {
	moving := len(p.outlet.inFlight)
	if moving > 0 || len(p.waiting) > 0 && p.mayPublish() {
		return false
	}
	return p.stopping || p.drained || p.taken >= p.bound || p.reachedLimit(0)
}

// mayTake reports whether the pass may take another message.
func (p *pass) mayTake() bool {
	moving := len(p.outlet.inFlight) + len(p.waiting)
	return !p.stopping && !p.isPaused() && !p.blocked && len(p.waiting) == 0 && moving < p.window() && p.taken < p.bound &&
		!p.reachedLimit(moving) && !p.reachedMaxMoved(moving) && p.notBefore.IsZero()
}

// mayPublish reports whether the pass still moves messages.
func (p *pass) mayPublish() bool { return !p.stopping || p.DeliveryLimited }

// isPaused reports whether the move is paused. A pass that stops ignores the pause.
func (p *pass) isPaused() bool { return !p.stopping && p.Settings().Paused }

// getPause is the time between two requests for a message of an empty queue.
const getPause = 50 * time.Millisecond

// get takes one message out of the queue, if one is ready.
func (p *pass) get() error {
	message, ok, err := p.intake.get()
	if err != nil {
		return p.whyNotTaken(err)
	}
	if !ok {
		p.gotNoneAt = time.Now()
		return nil
	}
	return p.take(message, true)
}

// take handles a delivery: it visits, skips, counts or publishes the message.
func (p *pass) take(message amqp.Delivery, open bool) error {
	if !open {
		return p.deliveriesEnded()
	}
	from := p.intake.current()
	p.taken++
	p.intake.took(&message)
	p.idleSince = time.Now()
	p.takenAt = p.idleSince
	if p.state == NothingDelivered {
		p.setState(Moving, "")
	}
	size, tooLarge, dropped := p.connection.Dropped(&message)
	switch {
	case !dropped:
		var memory int64
		message.Body, memory = p.connection.Body(&message)
		size = int64(len(message.Body))
		p.sizes.add(memory)
		if !p.holds() {
			p.sizes.relax()
		}
	case !tooLarge:
		p.stopWithoutMemory(&item{message: message, from: from}, size)
		return nil
	}
	if p.browse != nil {
		p.visit(&message, tooLarge)
		p.hold(from, &message)
		return p.intake.refill(p.prefetch())
	}
	p.decide(&item{message: message, from: from}, size, tooLarge)
	return errors.Join(p.intake.refill(p.prefetch()), p.publish())
}

// deliveriesEnded handles the end of deliveries on the current channel. After refill has cancelled the consumer, it opens another
// channel.
func (p *pass) deliveriesEnded() error {
	switch {
	case !p.intake.current().cancelled:
		return p.consumerEnded()
	case p.ending, p.stopping:
		p.bound = p.taken
		return nil
	}
	return p.intake.open(p.prefetch())
}

var errConsumerCancelled = errors.New("the broker has cancelled the consumer")
