package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/transport"
)

const (
	// confirmTimeout is for how long no confirm may come while messages wait for one.
	confirmTimeout = 30 * time.Second
	// longestConfirm is for how long one message may wait while others get their confirms: its queue may have no quorum.
	longestConfirm = 3 * time.Minute
)

// errNotSent is the error of a message that was not sent, because its line was closed before.
var errNotSent = errors.New("the connection was closed before the message was sent")

// line is a channel in confirm mode.
type line struct {
	connection *publishingConnection
	channel    transport.Channel
	opened     time.Time
	retired    atomic.Bool // closed once no message waits for a confirm
	closed     chan *amqp.Error
	ended      chan struct{} // closed once reason is set
	reason     error         // why the channel was closed

	mu        sync.Mutex
	sent      uint64               // number of the last message
	pending   map[uint64]time.Time // when the messages were sent that wait for a confirm
	confirmed time.Time            // when the last confirm came
	returns   chan amqp.Return
	returned  map[string]amqp.Return // by copy ID: not confirmed yet
	taken     map[string]bool        // exchanges from which a queue got a message
}

func newLine(connection *publishingConnection) (*line, error) {
	channel, err := connection.Channel()
	if err != nil {
		return nil, err
	}
	l := &line{
		connection: connection, channel: channel, opened: time.Now(), ended: make(chan struct{}),
		closed: channel.NotifyClose(make(chan *amqp.Error, 1)), returns: channel.NotifyReturn(make(chan amqp.Return, window)),
		pending: map[uint64]time.Time{}, returned: map[string]amqp.Return{}, taken: map[string]bool{},
	}
	if err := channel.Confirm(false); err != nil {
		_ = channel.Close() // the broker may have closed it
		return nil, err
	}
	return l, nil
}

// ready waits until the broker takes messages, and checks that this one fits.
func (l *line) ready(ctx context.Context, route contract.Route, message amqp.Publishing) error {
	if err := l.connection.gate.await(ctx); err != nil {
		return err
	}
	if maxFrame := l.connection.MaxFrame(); maxFrame > 0 && sizeOf(message.Headers) > roomForHeaders(message, maxFrame) {
		return &RefusedError{Exchange: route.Exchange, RoutingKey: route.RoutingKey, Reason: "its headers do not fit into a frame"}
	}
	return nil
}

// publish sends a message and waits for its confirm. It releases the message's place once there is an answer, even if the caller does not
// wait for that: as many returns as there are places find room. After errNotSent, the place is still taken.
func (l *line) publish(ctx context.Context, route contract.Route, message amqp.Publishing, release func()) error {
	number := l.begin()
	confirmation, err := l.channel.Publish(route.Exchange, route.RoutingKey, true, message)
	if err != nil {
		l.answered(number)
		if errors.Is(err, amqp.ErrClosed) { // at least the last frame was not written
			return errNotSent
		}
		release()
		return &UnknownOutcomeError{Cause: err}
	}
	select {
	case <-confirmation.Done():
	case <-ctx.Done():
		go func() {
			<-confirmation.Done()
			_ = l.outcome(route, message, confirmation.Acked()) // takes the return out of the way
			l.answered(number)
			release()
		}()
		return &UnknownOutcomeError{Cause: context.Cause(ctx)}
	}
	defer release()
	defer l.answered(number)
	if acked := confirmation.Acked(); acked || !l.channel.IsClosed() { // amqp091-go marks what waits as refused when the channel closes
		return l.outcome(route, message, acked)
	}
	if refusal := l.refusal(route); refusal != nil && !l.hasTaken(route.Exchange) {
		return refusal
	}
	return &UnknownOutcomeError{Cause: fmt.Errorf("the channel was closed before the confirm came: %w", l.reason)}
}

// begin counts a message that is about to be sent.
func (l *line) begin() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	l.pending[l.sent] = time.Now()
	return l.sent
}

func (l *line) answered(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pending, number)
}

// outcome is what a confirm says about a message. The broker returns a message before it confirms it, so after the confirm the return
// is in the channel, or another message's outcome has moved it to returned.
func (l *line) outcome(route contract.Route, message amqp.Publishing, acked bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.confirmed = time.Now()
	for len(l.returns) > 0 {
		if returned, open := <-l.returns; open {
			l.returned[copyIDOf(returned.Headers)] = returned
		}
	}
	id := copyIDOf(message.Headers)
	returned, isReturned := l.returned[id]
	delete(l.returned, id)
	switch {
	case isReturned:
		return &UnroutableError{Exchange: route.Exchange, RoutingKey: route.RoutingKey, Reply: returned.ReplyText}
	case !acked:
		return &RefusedError{Exchange: route.Exchange, RoutingKey: route.RoutingKey}
	}
	l.taken[route.Exchange] = true
	return nil
}

func (l *line) hasTaken(exchange string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken[exchange]
}

func copyIDOf(headers amqp.Table) string {
	id, _ := headers[contract.HeaderCopyID].(string)
	return id
}

// watch closes a line on which confirms do not come, and remembers why the channel was closed.
func (l *line) watch(retire func()) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	defer close(l.ended)
	for {
		select {
		case reason := <-l.closed:
			if reason != nil { // else cause is set, or the connection was closed by this program
				l.reason = reason
			} else if l.reason == nil {
				l.reason = errClosed
			}
			return
		case <-look.C:
			l.inspect(retire)
		}
	}
}

// inspect acts on confirms that are overdue.
func (l *line) inspect(retire func()) {
	silent, longest, shortest := l.waits()
	switch {
	case silent > confirmTimeout:
		l.reason = fmt.Errorf("no confirm came for %s", confirmTimeout)
		l.connection.Kill()
	case l.retired.Load() && shortest > longestConfirm:
		l.reason = fmt.Errorf("no confirm came for %s", longestConfirm)
		go l.close()
	case l.retired.Load() && longest == 0:
		go l.close()
	case longest > longestConfirm:
		retire()
	}
}

// waits returns for how long no confirm has come, and for how long the messages wait: 0 if none does, or if the broker blocks publishers.
func (l *line) waits() (silent, longest, shortest time.Duration) {
	openedAt, open := l.connection.gate.since()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !open || len(l.pending) == 0 {
		return 0, 0, 0
	}
	now := time.Now()
	shortest = now.Sub(openedAt)
	for _, sent := range l.pending {
		wait := now.Sub(later(sent, openedAt))
		longest, shortest = max(longest, wait), min(shortest, wait)
	}
	return min(longest, now.Sub(l.confirmed)), longest, shortest
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// aTopic is in the reply if the user may publish to the exchange, but not with the routing key.
const aTopic = "topic '"

// refusal is why the broker does not take messages for a route, if it closed the channel for that.
func (l *line) refusal(route contract.Route) error {
	if !l.channel.IsClosed() {
		return nil
	}
	<-l.ended
	reply := new(amqp.Error)
	if !errors.As(l.reason, &reply) || !strings.Contains(reply.Reason, "exchange '"+cmp.Or(route.Exchange, "amq.default")+"'") {
		return nil
	}
	switch reply.Code {
	case amqp.NotFound:
		return &UnroutableError{Exchange: route.Exchange, RoutingKey: route.RoutingKey, Reply: reply.Reason}
	case amqp.AccessRefused:
		if byTopic := strings.Contains(reply.Reason, aTopic); byTopic && !strings.Contains(reply.Reason, aTopic+route.RoutingKey+"'") {
			return nil
		}
		return &RefusedError{Exchange: route.Exchange, RoutingKey: route.RoutingKey, Reason: reply.Reason}
	}
	return nil
}

func (l *line) isClosed() bool { return l.channel.IsClosed() || l.connection.IsClosed() }

// close closes the channel. A broker that does not answer loses the connection; one that blocks publishers does not read, and the channel
// ends with the connection.
func (l *line) close() {
	if l.connection.gate.isShut() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, l.connection.Kill)()
	_ = l.channel.Close() // the broker may have closed it
}

// gate lets messages pass while it is open. Its zero value is open.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed when the gate opens; nil while it is open
	at     time.Time     // when the gate was opened last
}

// set shuts the gate, or opens it.
func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case shut && g.opened == nil:
		g.opened = make(chan struct{})
	case !shut && g.opened != nil:
		close(g.opened)
		g.opened, g.at = nil, time.Now()
	}
}

func (g *gate) isShut() bool {
	_, open := g.since()
	return !open
}

// since returns since when the gate is open; the zero time if it was never shut.
func (g *gate) since() (at time.Time, open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at, g.opened == nil
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
