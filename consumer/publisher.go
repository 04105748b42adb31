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

// maxUnconfirmed is how many messages may wait for their confirm. More make the broker no faster, and each wait longer.
const maxUnconfirmed = 256

// publisher publishes with confirms, many messages at a time, on a connection of its own. It connects when there is something to publish.
type publisher struct {
	connect func(ctx context.Context, blocked func(bool)) (transport.Connection, error)
	slots   chan struct{} // one is taken by each message that waits for its confirm
	refused refusedRoutes

	connecting chan struct{} // held while connecting; guards the next fields
	connection *publishingConnection
	current    *confirmChannel
	opened     time.Time
	retry      backoff
	notBefore  time.Time
	failure    error // why the last attempt to connect failed

	latest atomic.Pointer[publishingConnection] // for readers that do not hold connecting

	mu     sync.Mutex
	cancel context.CancelFunc // ends the attempt to open a line
}

// publishingConnection is a connection with its gate.
type publishingConnection struct {
	transport.Connection

	gate gate
}

func newPublisher(connect func(context.Context, func(bool)) (transport.Connection, error)) *publisher {
	return &publisher{
		connect: connect, slots: make(chan struct{}, maxUnconfirmed), connecting: make(chan struct{}, 1), cancel: func() {},
	}
}

// publish sends a message and returns once the broker has confirmed it. The error is an *UnroutableError, a *RefusedError or an
// *UnknownOutcomeError if the message was sent. After any other error the broker does not have the message.
func (p *publisher) publish(ctx context.Context, route contract.Route, message amqp.Publishing) error {
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
		case copyIDOf(message.Headers) == "": // its return could be that of another message
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

// publishAlone publishes a message on a channel of its own. If the broker closes the channel because of the message, no other message loses
// its confirm, and the outcome is known.
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

// permissionCheck is no valid expiration. RabbitMQ 3.10 to 4.3 check it after the permission and the exchange, and before they route the
// message, so no queue ever gets it. The broker logs the text.
const permissionCheck = "a Warren consumer checks its permission to write"

// check returns why the broker refuses messages for the exchange of a route; nil if it takes them, or if nothing is known.
func (p *publisher) check(ctx context.Context, route contract.Route) error {
	ch, err := p.ownChannel(ctx)
	if err != nil {
		return nil // nothing is known
	}
	defer ch.close()
	if ch.connection.gate.await(ctx) == nil {
		_ = ch.publish(ctx, route, amqp.Publishing{Expiration: permissionCheck}, func() {}) // always fails
	}
	refusal := ch.refusal(route)
	if refusal != nil {
		p.refused.add(route, refusal) // so that no message for the route closes the shared line
	}
	return refusal
}

// refusingChannelAge is after how long a line is given up on which a queue refuses messages: RabbitMQ 3.10 goes on refusing on a channel that
// it has told of a full queue, whether or not the queue is still full.
const refusingChannelAge = 10 * time.Second

// retire makes the next message open another line. The line is closed once no message waits for a confirm on it.
func (p *publisher) retire(ch *confirmChannel) {
	select {
	case p.connecting <- struct{}{}:
	default: // another time
		return
	}
	defer p.unlock()
	if p.current == ch {
		p.current = nil
		ch.retired.Store(true)
	}
}

// sharedChannel returns the line that all messages share, or opens it.
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

// ownChannel opens a line for one message.
func (p *publisher) ownChannel(ctx context.Context) (*confirmChannel, error) {
	if err := p.lock(ctx); err != nil {
		return nil, err
	}
	return p.open(ctx, false)
}

// lock waits until the broker reads from the connection: it answers no request on one that it blocks.
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

type openedChannel struct {
	channel *confirmChannel
	err     error
}

// open opens a line, and unlocks the publisher then. It goes on if ctx ends, because other messages need the connection as well.
func (p *publisher) open(ctx context.Context, shared bool) (*confirmChannel, error) {
	opening, cancel := context.WithTimeoutCause(context.Background(), connectTimeout, errConnectTimeout)
	p.setCancel(cancel)
	opened := make(chan openedChannel, 1)
	go func() {
		defer cancel()
		defer p.unlock()
		ch, err := p.openChannel(opening, shared)
		opened <- openedChannel{ch, err}
	}()
	select {
	case result := <-opened:
		return result.channel, result.err
	case <-ctx.Done():
		if !shared {
			go func() {
				if late := <-opened; late.channel != nil {
					late.channel.close()
				}
			}()
		}
		return nil, context.Cause(ctx)
	}
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

// connected returns the connection that is open, or connects. Messages that need a connection soon after a failure share the failure.
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

// killUnlessBlocked closes a connection on which the broker did not answer in time. If the broker blocks publishers, it answers later.
// Heartbeats show whether the broker is there.
func (c *publishingConnection) killUnlessBlocked(opening context.Context) {
	if !errors.Is(context.Cause(opening), errConnectTimeout) || !c.gate.isShut() {
		c.Kill()
	}
}

// isBlocked reports whether the broker takes no messages at present.
func (p *publisher) isBlocked() bool {
	connection := p.latest.Load()
	return connection != nil && connection.gate.isShut()
}

// unconfirmed is how many messages wait for their confirm.
func (p *publisher) unconfirmed() int { return len(p.slots) }

// close closes the connection. Publishing opens another.
func (p *publisher) close() {
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	if connection := p.latest.Load(); connection != nil && connection.gate.isShut() { // the broker answers no request
		connection.Kill()
	}
	p.connecting <- struct{}{}
	defer p.unlock()
	if p.connection != nil {
		_ = p.connection.Close(time.Now().Add(closeTimeout)) // it may be closed already
	}
	p.connection, p.current = nil, nil
	p.latest.Store(nil)
}
