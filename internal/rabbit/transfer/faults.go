package transfer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
)

// giveUp leaves a message that cannot be moved where it is.
func (p *pass) giveUp(failed *item, reason, text string) {
	p.hold(failed.from, &failed.message)
	p.fail(&failed.message, reason, text)
	p.countFailure()
}

// countFailure ends the transfer when too many messages cannot be moved. Messages that are alike have one ID, and count each.
func (p *pass) countFailure() {
	if p.failing++; p.failing >= p.MaxFailures {
		p.stop(ErrTooManyFailures)
	}
}

// outletFailed waits for the reason why a copy could not be sent.
func (p *pass) outletFailed(err error) error {
	if errors.Is(err, amqp.ErrClosed) {
		return p.outletClosed()
	}
	return err
}

// outletClosed goes on with another channel after the broker has closed the one for copies. Where one copy was under way, the broker
// does not take that; otherwise copies go one by one until the culprit is found.
func (p *pass) outletClosed() error {
	var reason *amqp.Error
	select {
	case reason = <-p.outlet.closed:
	case <-time.After(answerLimit):
	}
	if reason == nil || p.connection.Connection.IsClosed() {
		return p.connectionClosed(reason)
	}
	if reason.Code == amqp.AccessRefused && p.Destination != "" { // otherwise each message has its own exchange
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
		p.putOff(DestinationMissing, reason.Reason, under...)
	case len(under) == 1:
		p.giveUp(under[0], FailureRefused, p.refusal(reason))
	default:
		p.careful = len(under)
		p.requeue(under)
	}
	return p.publish()
}

// takeConfirms settles the copies that the broker confirmed before it closed the channel. The library has closed the confirms by then.
// Without this, those copies would be published again.
func (p *pass) takeConfirms() error {
	for confirm := range p.outlet.confirms {
		if err := p.answered(confirm); err != nil {
			return err
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

// refusal is what the broker has against a copy. Where each message names its own exchange, the broker's words quote the message.
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

// consumerEnded says why no more messages come: the connection has ended, or the queue was deleted.
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

// connectionClosed says why the connection has ended, and who is to blame.
func (p *pass) connectionClosed(reason *amqp.Error) error {
	if reason == nil {
		return p.Errs.OfOperation(amqp.ErrClosed)
	}
	under := slices.Collect(maps.Values(p.outlet.inFlight))
	unreadable := reason.Code == amqp.InternalError || errors.Is(p.connection.Refusal(), amqpconn.ErrTooLarge)
	switch {
	// With one message at a time, none is delivered while a copy is under way.
	case unreadable && (len(under) == 0 || p.intake.capacity() > 1):
		return fmt.Errorf("queue %q: %w: %s", p.Queue, errCrashed, reason.Reason)
	case !unreadable && (!reason.Server || !isAboutMessage(reason.Code)):
		return p.Errs.OfOperation(reason)
	case len(under) == 1 && p.careful > 0:
		p.fail(&under[0].message, FailureRefused, p.refusal(reason))
		if p.failing+1 >= p.MaxFailures {
			return ErrTooManyFailures
		}
	}
	p.careful = max(p.careful, len(under))
	return p.Errs.OfOperation(reason)
}

// errCrashed: a delivery has ended the connection. RabbitMQ ends it if it cannot translate a message of AMQP 1.0. This side ends it if a
// frame is too large, for RabbitMQ adds headers to a message that had just fitted, or if more arrives than the process may keep: the first
// messages of a queue were small, and many large ones come behind.
var errCrashed = errors.New("a delivery has ended the connection")

// ended has fewer messages delivered at a time after a delivery has ended the connection, so that those in front of the culprit are moved.
// When the culprit is the first one, nothing more can be done.
func (p *pass) ended(err error) error {
	err = p.whyClosed(err)
	if !errors.Is(err, errCrashed) {
		return err
	}
	if p.moved-p.movedBefore > p.prefetch() { // the message that ended a connection before is not among those that are left
		p.forgetCrashes()
	}
	p.crashes++
	first := p.atATime == 1 && p.moved == p.movedBefore
	if p.holds() {
		first = p.crashes > maxCrashes || p.look != nil
	}
	if first {
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	p.atATime = max(1, p.prefetch()/2)
	return err
}

// forgetCrashes has a delivery that ends the connection later count as the first one.
func (t *transfer) forgetCrashes() { t.crashes, t.atATime = 0, 0 }

// whyClosed is why the connection has ended, where that is what an error comes from: whoever asks the broker something at that moment may
// hear of the end first, and only that there was one.
func (p *pass) whyClosed(err error) error {
	if isFinal(err) || errors.Is(err, errCrashed) || !p.connection.Connection.IsClosed() {
		return err
	}
	select {
	case reason := <-p.closed:
		if reason != nil { // nobody has heard of it yet
			return p.connectionClosed(reason)
		}
	case <-time.After(answerLimit):
	}
	return err
}

// refusedByQueue is the text of a failure. RabbitMQ does not tell which queue has refused a message.
const refusedByQueue = "a queue that the exchange leads to is full or not available; its other queues may have received the message"

// putOff has messages wait for their turn again, after a pause.
func (p *pass) putOff(state State, detail string, refused ...*item) {
	p.requeue(refused)
	p.setState(state, detail)
	if p.until.IsZero() {
		p.pause = min(max(firstPause, 2*p.pause), lastPause)
		p.until = time.Now().Add(p.pause)
	}
}

// requeue has messages wait for their turn, in the order of the queue.
func (p *pass) requeue(again []*item) {
	p.waiting = append(p.waiting, again...)
	slices.SortFunc(p.waiting, func(a, b *item) int {
		byChannel := cmp.Compare(slices.Index(p.intake.channels, a.from), slices.Index(p.intake.channels, b.from))
		return cmp.Or(byChannel, cmp.Compare(a.message.DeliveryTag, b.message.DeliveryTag))
	})
}
