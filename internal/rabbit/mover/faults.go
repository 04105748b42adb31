package mover

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
)

// giveUp records a failure and holds the message, which stays in the source queue.
func (p *pass) giveUp(failed *item, reason, text string) {
	p.hold(failed.from, &failed.message)
	p.fail(&failed.message, reason, text)
	p.countFailure()
}

// countFailure ends the move when Config.MaxFailures messages could not be moved. Messages with the same ID count separately.
func (p *pass) countFailure() {
	if p.failing++; p.failing >= p.MaxFailures {
		p.stop(ErrTooManyFailures)
	}
}

func (p *pass) outletFailed(err error) error {
	if errors.Is(err, amqp.ErrClosed) {
		return p.outletClosed()
	}
	return err
}

// outletClosed opens another channel for copies after the broker has closed the current one. If only one copy was in flight, that
// copy is the cause. Otherwise the pass publishes the copies one by one until it has found the cause.
func (p *pass) outletClosed() error {
	var reason *amqp.Error
	select {
	case reason = <-p.outlet.closed:
	case <-time.After(answerLimit):
	}
	if reason == nil || p.connection.Connection.IsClosed() {
		return p.connectionClosed(reason)
	}
	if reason.Code == amqp.AccessRefused && p.Destination != "" { // without a destination, each message has its own exchange
		return p.Errs.OfOperation(reason)
	}
	if !isAboutMessage(reason.Code) {
		return p.Errs.OfOperation(reason)
	}
	if err := p.takeConfirms(); err != nil {
		return err
	}
	under := slices.Collect(maps.Values(p.outlet.inFlight))
	outlet, err := openOutlet(p.connection, p.Exchange)
	if err != nil {
		return err
	}
	p.outlet = outlet
	switch {
	case reason.Code == amqp.NotFound && p.Destination != "":
		p.postpone(DestinationMissing, reason.Reason, under...)
	case len(under) == 1:
		p.giveUp(under[0], FailureRefused, p.refusal(reason))
	default:
		p.oneByOne = len(under)
		p.requeue(under)
	}
	return p.publish()
}

// takeConfirms settles the copies that the broker confirmed before it closed the channel. The library has already closed confirms.
// Without takeConfirms, the pass would publish those copies again. The library drops the confirms of copies behind one that the broker
// has not answered.
func (p *pass) takeConfirms() error {
	for confirm := range p.outlet.confirms {
		if err := p.answered(confirm.DeliveryTag); err != nil {
			return err
		}
	}
	for _, number := range slices.Sorted(maps.Keys(p.outlet.inFlight)) {
		if p.outlet.inFlight[number].isAccepted() {
			if err := p.answered(number); err != nil {
				return err
			}
		}
	}
	return p.outlet.takeReturns()
}

// isAboutMessage reports whether RabbitMQ closes a channel or a connection with this code because of a message that was published on it.
func isAboutMessage(code int) bool {
	switch code {
	case amqp.ContentTooLarge, amqp.AccessRefused, amqp.NotFound, amqp.PreconditionFailed,
		amqp.FrameError, amqp.SyntaxError, amqp.NotImplemented, amqp.InternalError:
		return true
	}
	return false
}

// refusal explains why the broker refuses a copy. If each message names its own exchange, the broker's messages about a missing exchange
// and about denied access quote the headers. refusal therefore replaces them.
func (p *pass) refusal(reason *amqp.Error) string {
	switch {
	case p.Destination != "":
		return reason.Reason
	case reason.Code == amqp.NotFound:
		return "the exchange that the message names does not exist"
	case reason.Code == amqp.AccessRefused:
		return "the user must be allowed to write to the exchange that the message names"
	}
	return reason.Reason
}

// consumerEnded returns the reason why deliveries have ended: the connection was closed, or the broker cancelled the consumer
// because the queue was deleted.
func (p *pass) consumerEnded() error {
	if !p.connection.Connection.IsClosed() {
		return fmt.Errorf("queue %q: %w", p.Queue, errConsumerCancelled)
	}
	select {
	case reason := <-p.closed:
		return p.connectionClosed(reason)
	case <-time.After(answerLimit):
		return p.Errs.OfOperation(amqp.ErrClosed)
	}
}

// queueUnavailable are the beginnings of the reason if a broker does not reach the process of a quorum queue, for example while it starts
// its queues again. No message causes that.
var queueUnavailable = []string{
	"INTERNAL_ERROR - failed consuming from quorum ", "INTERNAL_ERROR - timed out consuming from quorum ",
	"INTERNAL_ERROR - Cannot get a message from queue ",
}

// connectionClosed returns the reason why the connection has ended, and records a failure if the cause is a copy that was published
// alone.
func (p *pass) connectionClosed(reason *amqp.Error) error {
	if reason == nil {
		return p.Errs.OfOperation(amqp.ErrClosed)
	}
	if slices.ContainsFunc(queueUnavailable, func(begin string) bool { return strings.HasPrefix(reason.Reason, begin) }) {
		return p.Errs.OfOperation(reason)
	}
	under := slices.Collect(maps.Values(p.inFlight()))
	unreadable := reason.Code == amqp.InternalError || amqpconn.Undecodable(reason) ||
		errors.Is(p.connection.Refusal(), amqpconn.ErrTooLarge)
	switch {
	// With one message at a time, none is delivered while a copy is in flight.
	case unreadable && (len(under) == 0 || p.intake.capacity() > 1):
		return fmt.Errorf("queue %q: %w: %s", p.Queue, errCrashed, reason.Reason)
	case !unreadable && (!reason.Server || !isAboutMessage(reason.Code)):
		return p.Errs.OfOperation(reason)
	case len(under) == 1 && p.oneByOne > 0:
		p.fail(&under[0].message, FailureRefused, p.refusal(reason))
		clear(p.outlet.inFlight)
		if p.failing+1 >= p.MaxFailures {
			return ErrTooManyFailures
		}
	}
	p.oneByOne = max(p.oneByOne, len(under))
	return p.Errs.OfOperation(reason)
}

// errCrashed: a delivery has ended the connection. RabbitMQ ends the connection if it cannot translate a message of AMQP 1.0.
// Warren ends it if a frame is too large, because RabbitMQ added headers to a message that had just fitted. The AMQP library ends it
// if it does not decode the headers; see amqpconn.Undecodable.
var errCrashed = errors.New("a delivery has ended the connection")

// ended halves the prefetch after a delivery has ended the connection, so that the next pass moves the messages in front of the unreadable
// one. It returns ErrUnreadable instead if that is useless.
func (p *pass) ended(err error) error {
	err = p.whyClosed(err)
	if !errors.Is(err, errCrashed) {
		return err
	}
	if p.moved-p.movedBefore > p.prefetch() { // the pass has moved beyond the message that ended the earlier connection
		p.forgetCrashes()
	}
	p.crashes++
	if p.isUnreadable() {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	p.atATime = max(1, p.prefetch()/2)
	return err
}

// isUnreadable reports whether another pass would get no further than the last one. A pass that holds messages ignores atATime.
func (p *pass) isUnreadable() bool {
	switch {
	case p.browse != nil:
		return true
	case p.EndAtUnreadable:
		return p.crashes > 1
	case p.holds():
		return p.crashes > maxCrashes
	}
	return p.atATime == 1 && p.moved == p.movedBefore
}

// forgetCrashes resets the count of crashes, and the prefetch.
func (m *move) forgetCrashes() { m.crashes, m.atATime = 0, 0 }

// whyClosed replaces an error by the reason why the connection has ended. If the connection ends during a question to the broker,
// the error of the question does not contain the reason.
func (p *pass) whyClosed(err error) error {
	if isFinal(err) || errors.Is(err, errCrashed) || !p.connection.Connection.IsClosed() {
		return err
	}
	select {
	case reason := <-p.closed:
		if reason != nil { // the reason was not handled yet
			return p.connectionClosed(reason)
		}
	case <-time.After(answerLimit):
	}
	return err
}

// refusedByQueue is the text of a failure. RabbitMQ does not report which queue has refused a message.
const refusedByQueue = "a queue that the exchange leads to is full or not available; its other queues may have received the message"

// postpone requeues refused messages and pauses publishing. Each pause is twice as long as the one before, up to lastPause. The destination
// may accept messages again at any moment, so only one is published until then: later ones would overtake it.
func (p *pass) postpone(state State, detail string, refused ...*item) {
	p.requeue(refused)
	p.oneByOne = max(1, p.oneByOne)
	p.setState(state, detail)
	if p.notBefore.IsZero() {
		p.pause = min(max(firstPause, 2*p.pause), lastPause)
		p.notBefore = time.Now().Add(p.pause)
	}
}

// requeue adds messages to waiting, in the order of the queue.
func (p *pass) requeue(again []*item) {
	p.waiting = append(p.waiting, again...)
	slices.SortFunc(p.waiting, func(a, b *item) int {
		byChannel := cmp.Compare(slices.Index(p.intake.channels, a.from), slices.Index(p.intake.channels, b.from))
		return cmp.Or(byChannel, cmp.Compare(a.message.DeliveryTag, b.message.DeliveryTag))
	})
}
