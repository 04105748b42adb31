package consumer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/transport"
)

// window is how many messages may wait for their confirm. More make the broker no faster, and each wait longer.
const window = 256

// confirmTimeout is for how long no confirm may come while messages wait for one.
const confirmTimeout = 30 * time.Second

// publisher publishes with confirms, many at a time, on a connection of its own. It connects when there is something to publish.
type publisher struct {
	connect func(context.Context) (transport.Connection, error)
	places  chan struct{} // one is taken by each message that waits for its confirm

	connecting chan struct{} // held while connecting; guards what follows
	current    *line
	retired    []*line // which others may still wait for
	retry      backoff
	notBefore  time.Time

	mu      sync.Mutex
	missing map[string]missingExchange
}

// missingExchange is an exchange that was not there. The broker closes the channel of whoever publishes to one, so others would suffer.
type missingExchange struct {
	until time.Time // nothing is published there before
	err   *UnroutableError
}

// missingFor is for how long nothing is published to an exchange that was not there.
const missingFor = 2 * time.Second

func newPublisher(connect func(context.Context) (transport.Connection, error)) *publisher {
	return &publisher{connect: connect, places: make(chan struct{}, window), connecting: make(chan struct{}, 1)}
}

// publish sends a message, which has a copy ID, and returns once the broker has confirmed it. The error is an *UnroutableError, a
// *RefusedError or an *UnknownOutcomeError where the message was sent.
func (p *publisher) publish(ctx context.Context, route contract.Route, message amqp.Publishing) error {
	select {
	case p.places <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	release := sync.OnceFunc(func() { <-p.places })
	if err := p.checkExchange(route.Exchange); err != nil {
		release()
		return err
	}
	l, err := p.line(ctx)
	if err == nil {
		err = l.gate.await(ctx)
	}
	if err != nil {
		release()
		return err
	}
	err = l.publish(ctx, route, message, release)
	if errors.As(err, new(*RefusedError)) {
		p.retire(l)
	}
	if unknown := new(UnknownOutcomeError); errors.As(err, &unknown) && l.lacks(route.Exchange) {
		return p.noteMissing(route)
	}
	return err
}

func (p *publisher) checkExchange(exchange string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, missing := p.missing[exchange]; missing && time.Now().Before(known.until) {
		return known.err
	}
	return nil
}

func (p *publisher) noteMissing(route contract.Route) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.missing == nil {
		p.missing = map[string]missingExchange{}
	}
	err := &UnroutableError{Exchange: route.Exchange, RoutingKey: route.RoutingKey, Reply: "the exchange does not exist"}
	p.missing[route.Exchange] = missingExchange{time.Now().Add(missingFor), err}
	return err
}

// refusalAge is after how long a line is given up on which a queue refuses messages: RabbitMQ 3.10 goes on refusing on a channel that
// it has told of a full queue, whether or not the queue is still full.
const refusalAge = 10 * time.Second

// retire has the next message open another line. The line is closed once nobody waits for a confirm on it.
func (p *publisher) retire(l *line) {
	if time.Since(l.opened) < refusalAge {
		return
	}
	select {
	case p.connecting <- struct{}{}:
	default: // another time
		return
	}
	defer func() { <-p.connecting }()
	if p.current != l {
		return
	}
	p.current = nil
	p.retired = append(slices.DeleteFunc(p.retired, func(other *line) bool { return other.channel.IsClosed() }), l)
	l.done.Store(true)
}

// line returns the line that is open, or opens one.
func (p *publisher) line(ctx context.Context) (*line, error) {
	select {
	case p.connecting <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-p.connecting }()
	if p.current != nil && !p.current.channel.IsClosed() {
		return p.current, nil
	}
	if p.current != nil { // which may have lost its channel only
		p.current.close()
		p.current = nil
	}
	if !pause(ctx, time.Until(p.notBefore)) {
		return nil, context.Cause(ctx)
	}
	opened, err := p.open(ctx)
	p.notBefore = time.Now().Add(p.retry.next())
	if err != nil {
		return nil, err
	}
	p.retry.reset()
	p.current = opened
	return opened, nil
}

func (p *publisher) open(ctx context.Context) (*line, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, errConnectTimeout)
	defer cancel()
	connection, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, connection.Kill)()
	l := &line{connection: connection, opened: time.Now(), waiting: map[string]amqp.Return{}, ended: make(chan struct{})}
	if l.channel, err = connection.Channel(); err != nil {
		l.close()
		return nil, err
	}
	l.closed = l.channel.NotifyClose(make(chan *amqp.Error, 1))
	l.blocked = connection.NotifyBlocked(make(chan amqp.Blocking, 8))
	l.returns = l.channel.NotifyReturn(make(chan amqp.Return, window))
	if err = l.channel.Confirm(false); err != nil {
		l.close()
		return nil, err
	}
	go l.watch()
	return l, nil
}

// isBlocked says whether the broker takes no messages at present.
func (p *publisher) isBlocked() bool {
	select {
	case p.connecting <- struct{}{}:
	default:
		return false
	}
	defer func() { <-p.connecting }()
	return p.current != nil && p.current.gate.isShut()
}

// close ends the line. Publishing opens another.
func (p *publisher) close() {
	p.connecting <- struct{}{}
	defer func() { <-p.connecting }()
	if p.current != nil {
		p.current.close()
		p.current = nil
	}
	for _, l := range p.retired {
		l.close()
	}
	p.retired = nil
}

// line is one channel in confirm mode, with a connection of its own.
type line struct {
	connection transport.Connection
	channel    transport.Channel
	opened     time.Time
	done       atomic.Bool // retired
	closed     chan *amqp.Error
	blocked    chan amqp.Blocking
	gate       gate
	ended      chan struct{} // closed once reason is set
	reason     *amqp.Error   // why the broker closed the channel; nil if something else ended the line

	unconfirmed atomic.Int64
	progress    atomic.Int64 // when the last confirm came or the first message was sent, in Unix nanoseconds

	mu      sync.Mutex
	returns chan amqp.Return
	waiting map[string]amqp.Return // by copy ID: returned, and not confirmed yet
}

// publish sends a message and waits for its confirm. It releases the message's place once there is an answer, even if the caller does not
// wait for that: as many returns as there are places find room.
func (l *line) publish(ctx context.Context, route contract.Route, message amqp.Publishing, release func()) error {
	if l.unconfirmed.Add(1) == 1 {
		l.progress.Store(time.Now().UnixNano())
	}
	answered := func() {
		l.unconfirmed.Add(-1)
		release()
	}
	confirmation, err := l.channel.Publish(route.Exchange, route.RoutingKey, true, message)
	if err != nil { // a part may have been sent
		answered()
		return &UnknownOutcomeError{Cause: err}
	}
	select {
	case <-confirmation.Done():
		defer answered()
	case <-ctx.Done():
		go func() {
			<-confirmation.Done()
			l.returned(message)
			answered()
		}()
		return &UnknownOutcomeError{Cause: context.Cause(ctx)}
	}
	acked := confirmation.Acked()
	if !acked && l.channel.IsClosed() { // what waits is marked as refused then
		return &UnknownOutcomeError{Cause: errors.New("the channel was closed before the confirm came")}
	}
	l.progress.Store(time.Now().UnixNano())
	returned, isReturned := l.returned(message)
	switch {
	case isReturned:
		return &UnroutableError{Exchange: route.Exchange, RoutingKey: route.RoutingKey, Reply: returned.ReplyText}
	case !acked:
		return &RefusedError{Exchange: route.Exchange, RoutingKey: route.RoutingKey}
	}
	return nil
}

// returned says whether a message has come back. The broker returns a message before it confirms it, so whoever has the confirm
// finds the return in the channel, or finds that another one has put it aside.
func (l *line) returned(message amqp.Publishing) (amqp.Return, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.returns) > 0 {
		if returned, open := <-l.returns; open {
			l.waiting[copyIDOf(returned.Headers)] = returned
		}
	}
	id := copyIDOf(message.Headers)
	returned, found := l.waiting[id]
	delete(l.waiting, id)
	return returned, found
}

func copyIDOf(headers amqp.Table) string {
	id, _ := headers[contract.HeaderCopyID].(string)
	return id
}

// watch opens and shuts the gate as the broker says, and ends a line on which no confirm comes.
func (l *line) watch() {
	defer l.gate.open()
	defer close(l.ended)
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case blocking, open := <-l.blocked:
			if !open {
				l.blocked = nil
				continue
			}
			if blocking.Active {
				l.gate.shut()
			} else {
				l.progress.Store(time.Now().UnixNano())
				l.gate.open()
			}
		case l.reason = <-l.closed:
			return
		case <-look.C:
			if l.done.Load() && l.unconfirmed.Load() == 0 {
				l.close()
			}
			silent := time.Since(time.Unix(0, l.progress.Load()))
			if l.unconfirmed.Load() > 0 && silent > confirmTimeout && !l.gate.isShut() {
				l.connection.Kill()
			}
		}
	}
}

// lacks says that the broker closed the line because an exchange is missing.
func (l *line) lacks(exchange string) bool {
	if !l.channel.IsClosed() {
		return false
	}
	<-l.ended
	return l.reason != nil && l.reason.Code == amqp.NotFound && strings.Contains(l.reason.Reason, "no exchange '"+exchange+"'")
}

func (l *line) close() { _ = l.connection.Close(time.Now().Add(closeTimeout)) }

// gate lets pass while it is open. Its zero value is open.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed when the gate opens; nil while it is open
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

func (g *gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened != nil
}

func (g *gate) await(ctx context.Context) error {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	if opened == nil {
		return nil
	}
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
