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
	// confirmTimeout is for how long no confirm at all may arrive while messages wait for one. Then the connection is killed.
	confirmTimeout = 30 * time.Second
	// maxConfirmWait is for how long one message may wait while others are confirmed: its queue may have no quorum.
	maxConfirmWait = 3 * time.Minute
)

// errNotSent reports that a message was not sent because the channel was closed before.
var errNotSent = errors.New("the connection was closed before the message was sent")

// confirmChannel is a channel in confirm mode.
type confirmChannel struct {
	connection *publishingConnection
	channel    transport.PublishingChannel
	opened     time.Time
	retired    atomic.Bool // set when the channel is to be closed once no message waits for a confirm
	closed     chan *amqp.Error
	ended      chan struct{} // closed when reason is set
	reason     error         // why the channel was closed

	mu        sync.Mutex
	sent      uint64               // number of the last message
	pending   map[uint64]time.Time // by number: when a message was sent that waits for its confirm
	confirmed time.Time            // when the last confirm arrived
	returns   chan amqp.Return
	returned  map[string]amqp.Return // by copy ID: returned and not confirmed yet
	accepted  map[string]bool        // exchanges that routed a message to a queue
}

func newConfirmChannel(connection *publishingConnection) (*confirmChannel, error) {
	closed, returns := make(chan *amqp.Error, 1), make(chan amqp.Return, maxUnconfirmed)
	channel, err := connection.PublishingChannel(closed, returns)
	if err != nil {
		return nil, err
	}
	return &confirmChannel{
		connection: connection, channel: channel, opened: time.Now(), closed: closed, ended: make(chan struct{}), returns: returns,
		pending: map[uint64]time.Time{}, returned: map[string]amqp.Return{}, accepted: map[string]bool{},
	}, nil
}

// ready waits while the broker blocks publishers, and returns a *RefusedError if the message is known to be refused.
func (ch *confirmChannel) ready(ctx context.Context, route contract.Route, message amqp.Publishing) error {
	if err := ch.connection.gate.await(ctx); err != nil {
		return err
	}
	if reason := ch.unacceptable(route, message); reason != "" {
		return &RefusedError{Exchange: route.Exchange, RoutingKey: route.RoutingKey, Reason: reason, never: true}
	}
	return nil
}

// unacceptable returns why a message cannot be sent, or is known to be too large, or "".
func (ch *confirmChannel) unacceptable(route contract.Route, message amqp.Publishing) string {
	if name := tooLong(route, message); name != "" {
		return fmt.Sprintf("the %s has more than %d bytes", name, maxShortText)
	}
	if maxFrame := ch.connection.MaxFrame(); maxFrame > 0 && sizeOf(message.Headers) > roomForHeaders(message, maxFrame) {
		return "the headers do not fit into a frame"
	}
	if limit := ch.connection.refused.Load(); limit > 0 && int64(len(message.Body)) >= limit {
		return fmt.Sprintf("the broker refused a message of %d bytes as too large", limit)
	}
	return ""
}

// publish sends a message and waits for its confirm. It calls release when the broker has answered, even if ctx ended before, so
// that there are never more returns than the buffer of returns can hold. It does not call release if it returns errNotSent.
func (ch *confirmChannel) publish(ctx context.Context, route contract.Route, message amqp.Publishing, release func()) error {
	number := ch.trackSent()
	confirmation, err := ch.channel.Publish(route.Exchange, route.RoutingKey, true, message)
	if err != nil {
		ch.untrack(number)
		if errors.Is(err, amqp.ErrClosed) { // at least the last frame was not sent
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
			_ = ch.outcome(route, message, confirmation.Acked()) // removes the return from ch.returned
			ch.untrack(number)
			release()
		}()
		return &UnknownOutcomeError{Cause: context.Cause(ctx)}
	}
	defer release()
	defer ch.untrack(number)
	if acked := confirmation.Acked(); acked || !ch.channel.IsClosed() { // amqp091-go nacks pending messages when the channel closes
		return ch.outcome(route, message, acked)
	}
	if refusal := ch.refusal(route); refusal != nil && !ch.hasAccepted(route.Exchange) {
		return refusal
	}
	if refusal := ch.refusalOf(route, message); refusal != nil {
		return refusal
	}
	return &UnknownOutcomeError{Cause: fmt.Errorf("the channel was closed before the confirm arrived: %w", ch.reason)}
}

// trackSent records a message that is about to be sent and returns its number.
func (ch *confirmChannel) trackSent() uint64 {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.sent++
	ch.pending[ch.sent] = time.Now()
	return ch.sent
}

func (ch *confirmChannel) untrack(number uint64) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	delete(ch.pending, number)
}

// outcome returns the error for a confirmed or refused message. RabbitMQ sends basic.return before the confirm, so the return is
// in ch.returns, or another call of outcome has moved it to ch.returned.
func (ch *confirmChannel) outcome(route contract.Route, message amqp.Publishing, acked bool) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.confirmed = time.Now()
	for len(ch.returns) > 0 {
		returned := <-ch.returns
		ch.returned[copyIDOf(returned.Headers)] = returned
	}
	id := copyIDOf(message.Headers)
	returned, isReturned := ch.returned[id]
	delete(ch.returned, id)
	switch {
	case isReturned:
		return &UnroutableError{Exchange: route.Exchange, RoutingKey: route.RoutingKey, Reply: returned.ReplyText}
	case !acked:
		return &RefusedError{Exchange: route.Exchange, RoutingKey: route.RoutingKey}
	}
	ch.accepted[route.Exchange] = true
	return nil
}

func (ch *confirmChannel) hasAccepted(exchange string) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.accepted[exchange]
}

func copyIDOf(headers amqp.Table) string {
	id, _ := headers[contract.HeaderCopyID].(string)
	return id
}

// watch records why the channel was closed, and closes it when confirms are overdue.
func (ch *confirmChannel) watch(retire func()) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	defer close(ch.ended)
	for {
		select {
		case reason := <-ch.closed:
			if reason != nil { // otherwise inspect has set reason, or this program closed the connection
				ch.reason = reason
			} else if ch.reason == nil {
				ch.reason = errClosed
			}
			return
		case <-ticker.C:
			ch.inspect(retire)
		}
	}
}

// inspect acts on overdue confirms.
func (ch *confirmChannel) inspect(retire func()) {
	silent, oldest, newest := ch.waitTimes()
	switch {
	case silent > confirmTimeout:
		ch.reason = fmt.Errorf("no confirm arrived for %s", confirmTimeout)
		ch.connection.Kill()
	case ch.retired.Load() && newest > maxConfirmWait:
		ch.reason = fmt.Errorf("no confirm arrived for %s", maxConfirmWait)
		go ch.close()
	case ch.retired.Load() && oldest == 0:
		go ch.close()
	case oldest > maxConfirmWait:
		retire()
	}
}

// waitTimes returns for how long no confirm has arrived, and for how long the oldest and the newest message have waited. All are
// 0 if no message waits or if the broker blocks publishers.
func (ch *confirmChannel) waitTimes() (silent, oldest, newest time.Duration) {
	openedAt, open := ch.connection.gate.since()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if !open || len(ch.pending) == 0 {
		return 0, 0, 0
	}
	now := time.Now()
	newest = now.Sub(openedAt)
	for _, sent := range ch.pending {
		wait := now.Sub(later(sent, openedAt))
		oldest, newest = max(oldest, wait), min(newest, wait)
	}
	return min(oldest, now.Sub(ch.confirmed)), oldest, newest
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// topicReply is part of the broker's reply if the user may publish to the exchange, but not with the routing key.
const topicReply = "topic '"

// refusal returns why the broker does not accept messages for a route, if it closed the channel for that reason, else nil.
func (ch *confirmChannel) refusal(route contract.Route) error {
	if !ch.channel.IsClosed() {
		return nil
	}
	<-ch.ended
	reply := new(amqp.Error)
	if !errors.As(ch.reason, &reply) || !strings.Contains(reply.Reason, "exchange '"+cmp.Or(route.Exchange, "amq.default")+"'") {
		return nil
	}
	switch reply.Code {
	case amqp.NotFound:
		return &UnroutableError{Exchange: route.Exchange, RoutingKey: route.RoutingKey, Reply: reply.Reason}
	case amqp.AccessRefused:
		byTopic := strings.Contains(reply.Reason, topicReply)
		if byTopic && !strings.Contains(reply.Reason, topicReply+route.RoutingKey+"'") {
			return nil
		}
		return &RefusedError{Exchange: route.Exchange, RoutingKey: route.RoutingKey, Reason: reply.Reason}
	}
	return nil
}

// refusalOf returns why the broker does not accept a message, if it closed the channel for that reason, else nil. RabbitMQ names the
// size of a message that is larger than its maximum. For another reason, the message must be the only one of the channel.
func (ch *confirmChannel) refusalOf(route contract.Route, message amqp.Publishing) error {
	<-ch.ended
	reply := preconditionFailed(ch.reason)
	if reply == nil {
		return nil
	}
	isTooLarge := strings.Contains(reply.Reason, fmt.Sprintf("message size %d is larger", len(message.Body)))
	if isTooLarge {
		ch.connection.refused.Store(int64(len(message.Body)))
	}
	if !isTooLarge && !ch.isOnly() {
		return nil
	}
	return &RefusedError{Exchange: route.Exchange, RoutingKey: route.RoutingKey, Reason: reply.Reason, never: true}
}

// preconditionFailed returns the reply of a broker that closed a channel because of a request, or nil.
func preconditionFailed(err error) *amqp.Error {
	reply := new(amqp.Error)
	if errors.As(err, &reply) && reply.Code == amqp.PreconditionFailed {
		return reply
	}
	return nil
}

// isOnly reports whether exactly one message was sent on the channel.
func (ch *confirmChannel) isOnly() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.sent == 1
}

func (ch *confirmChannel) isClosed() bool { return ch.channel.IsClosed() || ch.connection.IsClosed() }

// close closes the channel. If the broker does not answer, close kills the connection. A broker that blocks publishers does not
// read, so then the channel stays open until the connection ends.
func (ch *confirmChannel) close() {
	if ch.connection.gate.isShut() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, ch.connection.Kill)()
	_ = ch.channel.Close() // the broker may have closed it
}

// gate makes publishers wait while it is shut. The zero value is open.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed when the gate opens; nil while open
	at     time.Time     // when the gate last opened
}

// set shuts or opens the gate.
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

// since reports whether the gate is open, and since when. at is zero if the gate was never shut.
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
