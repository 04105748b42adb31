package consumer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/transport"
)

// maxUnconfirmed is how many messages may wait for their confirm. A higher number does not increase the rate, but each wait takes
// longer.
const maxUnconfirmed = 256

// publisher publishes messages with confirms, many at a time, on one connection that it opens when it is needed.
type publisher struct {
	connect func(ctx context.Context, blocked func(bool)) (transport.Connection, error)
	slots   chan struct{} // holds one element for each message that waits for its confirm
	refused refusedRoutes

	connecting chan struct{} // held while connecting; guards the next fields
	connection *publishingConnection
	current    *confirmChannel
	opened     time.Time
	retry      backoff
	notBefore  time.Time
	failure    error // why the last attempt to connect failed

	latest atomic.Pointer[publishingConnection] // the last connection, for readers that do not hold connecting

	mu     sync.Mutex
	cancel context.CancelFunc // cancels opening a channel
}

// publishingConnection is a connection with a gate that is shut while the broker blocks publishers.
type publishingConnection struct {
	transport.Connection

	gate    gate
	refused atomic.Int64 // size of the smallest body that the broker refused as too large; 0 if there was none
}

func newPublisher(connect func(context.Context, func(bool)) (transport.Connection, error)) *publisher {
	return &publisher{
		connect: connect, slots: make(chan struct{}, maxUnconfirmed), connecting: make(chan struct{}, 1), cancel: func() {},
	}
}

// publish sends a message and waits until the broker confirms it. It returns an *UnroutableError, a *RefusedError or an
// *UnknownOutcomeError if the message was sent. After any other error the broker does not have the message. A message that is
// published alone, on its own channel, closes no channel of other messages.
func (p *publisher) publish(ctx context.Context, route contract.Route, message amqp.Publishing, alone bool) error {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	release := sync.OnceFunc(func() { <-p.slots })
	for {
		due, err := p.refused.check(route)
		switch {
		case err != nil:
			release()
			return err
		case due != nil:
			defer release()
			channelClosed, err := p.publishAlone(ctx, route, message)
			p.refused.tried(due, err, channelClosed)
			return err
		case alone || copyIDOf(message.Headers) == "": // without an ID, its return could not be told apart from others
			defer release()
			_, err := p.publishAlone(ctx, route, message)
			return err
		}
		ch, err := p.sharedChannel(ctx)
		if err == nil {
			err = ch.ready(ctx, route, message)
		}
		if err != nil {
			release()
			return err
		}
		if err = ch.publish(ctx, route, message, release); errors.Is(err, errNotSent) {
			continue
		}
		if errors.As(err, new(*RefusedError)) && time.Since(ch.opened) >= refusingChannelAge {
			p.retire(ch)
		}
		if refusal := ch.refusal(route); refusal != nil {
			p.refused.add(route, refusal)
		}
		return err
	}
}

// publishAlone publishes a message on its own channel. If the broker closes the channel because of the message, no other message
// loses its confirm, and the outcome of this message is known.
func (p *publisher) publishAlone(ctx context.Context, route contract.Route, message amqp.Publishing) (channelClosed bool, err error) {
	ch, err := p.ownChannel(ctx)
	if err != nil {
		return false, err
	}
	defer ch.close()
	if err := ch.ready(ctx, route, message); err != nil {
		return false, err
	}
	err = ch.publish(ctx, route, message, func() {})
	return ch.refusal(route) != nil, err
}

// permissionCheck is not a valid expiration. RabbitMQ 3.10 to 4.3 check it after the permission and the exchange, but before they
// route the message, so no queue receives the message. RabbitMQ logs the text.
const permissionCheck = "a Warren consumer checks its permission to write"

// check returns why the broker refuses messages for the exchange of a route, or nil if the broker accepts them. It returns an error if
// it got no answer.
func (p *publisher) check(ctx context.Context, route contract.Route) (refusal, err error) {
	ch, err := p.ownChannel(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { go ch.close() }() // the end of the consumer must not wait for a broker that does not answer
	if err := ch.connection.gate.await(ctx); err != nil {
		return nil, err
	}
	answer := ch.publish(ctx, route, amqp.Publishing{Expiration: permissionCheck}, func() {})
	if !isRefusal(answer) { // the connection was lost
		return nil, answer
	}
	if refusal = ch.refusal(route); refusal != nil {
		p.refused.add(route, refusal) // so that no message for the route closes the shared channel
	}
	return refusal, nil
}

// refusingChannelAge is the age from which a channel is replaced if a queue refuses a message on it. RabbitMQ 3.10 keeps refusing
// messages on a channel that has once published to a full queue, even when the queue is no longer full.
const refusingChannelAge = 10 * time.Second

// retire makes the next message open another shared channel. The old one is closed once no message waits for a confirm on it.
func (p *publisher) retire(ch *confirmChannel) {
	select {
	case p.connecting <- struct{}{}:
	default: // busy; the next refusal tries again
		return
	}
	defer p.unlock()
	if p.current == ch {
		p.current = nil
		ch.retired.Store(true)
	}
}

// sharedChannel returns the channel that all messages share, or opens it.
func (p *publisher) sharedChannel(ctx context.Context) (*confirmChannel, error) {
	if err := p.lock(ctx); err != nil {
		return nil, err
	}
	if p.current != nil && !p.current.isClosed() {
		defer p.unlock()
		return p.current, nil
	}
	p.current = nil
	return p.open(ctx, true)
}

// ownChannel opens a channel for one message.
func (p *publisher) ownChannel(ctx context.Context) (*confirmChannel, error) {
	if err := p.lock(ctx); err != nil {
		return nil, err
	}
	return p.open(ctx, false)
}

// lock acquires connecting, after it has waited until the broker reads from the connection again. A broker that blocks publishers
// answers no request.
func (p *publisher) lock(ctx context.Context) error {
	if connection := p.latest.Load(); connection != nil {
		if err := connection.gate.await(ctx); err != nil {
			return err
		}
	}
	select {
	case p.connecting <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *publisher) unlock() { <-p.connecting }

// open opens a channel and then unlocks the publisher. If ctx ends, opening continues, because other messages need the
// connection, too.
func (p *publisher) open(ctx context.Context, shared bool) (*confirmChannel, error) {
	opening, cancel := context.WithTimeoutCause(context.Background(), connectTimeout, errConnectTimeout)
	p.setCancel(cancel)
	return openInTime(ctx, func() (*confirmChannel, error) {
		defer cancel()
		defer p.unlock()
		return p.openChannel(opening, shared)
	}, func(late *confirmChannel) {
		if !shared {
			late.close()
		}
	})
}

func (p *publisher) setCancel(cancel context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel = cancel
}

func (p *publisher) openChannel(ctx context.Context, shared bool) (*confirmChannel, error) {
	if shared && !sleep(ctx, time.Until(p.opened.Add(minDelay))) {
		return nil, context.Cause(ctx)
	}
	connection, err := p.connected(ctx)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { connection.killUnlessBlocked(ctx) })()
	ch, err := newConfirmChannel(connection)
	if err != nil {
		return nil, err
	}
	if shared {
		p.current, p.opened = ch, time.Now()
		go ch.watch(func() { p.retire(ch) })
	} else {
		go ch.watch(func() {})
	}
	return ch, nil
}

// connected returns the open connection, or connects. Within the delay after a failed attempt it returns the error of that
// attempt.
func (p *publisher) connected(ctx context.Context) (*publishingConnection, error) {
	if p.connection != nil && !p.connection.IsClosed() {
		return p.connection, nil
	}
	if p.failure != nil && time.Now().Before(p.notBefore) {
		return nil, p.failure
	}
	if !sleep(ctx, time.Until(p.notBefore)) {
		return nil, context.Cause(ctx)
	}
	made := &publishingConnection{}
	made.Connection, p.failure = p.connect(ctx, made.gate.set)
	p.notBefore = time.Now().Add(p.retry.next())
	if p.failure != nil {
		return nil, p.failure
	}
	p.retry.reset()
	p.connection = made
	p.latest.Store(made)
	return made, nil
}

// killUnlessBlocked kills a connection on which the broker did not answer in time. A broker that blocks publishers answers later;
// heartbeats show whether it is alive.
func (c *publishingConnection) killUnlessBlocked(opening context.Context) {
	if !errors.Is(context.Cause(opening), errConnectTimeout) || !c.gate.isShut() {
		c.Kill()
	}
}

// isBlocked reports whether the broker blocks publishers.
func (p *publisher) isBlocked() bool {
	connection := p.latest.Load()
	return connection != nil && connection.gate.isShut()
}

// unconfirmed returns how many messages wait for their confirm.
func (p *publisher) unconfirmed() int { return len(p.slots) }

// close closes the connection. The next publish opens another one.
func (p *publisher) close() {
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	if connection := p.latest.Load(); connection != nil && connection.gate.isShut() { // the broker would not answer connection.close
		connection.Kill()
	}
	p.connecting <- struct{}{}
	defer p.unlock()
	if p.connection != nil {
		_ = p.connection.Close(time.Now().Add(disconnectTimeout)) // may already be closed
	}
	p.connection, p.current = nil, nil
	p.latest.Store(nil)
}
