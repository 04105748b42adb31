package traffic

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/test/brokers"
)

// Target is where a message is published.
type Target struct{ Exchange, RoutingKey string }

// ToQueue returns the target for a queue through the default exchange.
func ToQueue(name string) Target { return Target{RoutingKey: name} }

// Publishing configures a Publisher.
type Publishing struct {
	// Targets receive the messages in rotation.
	Targets []Target
	// Count is the number of messages; 0 publishes until Stop.
	Count int
	// Every is the time between two messages; 0 publishes as fast as the broker confirms.
	Every time.Duration
	// While reports whether a new message may be published now; nil always permits it.
	While func() bool
	// Size is the number of bytes of a body; 0 is the length of the ID.
	Size int
	// Body makes the body of a message from its ID; nil is the ID.
	Body func(id string) []byte
	// Retry publishes a message again, with the same ID, if it was nacked or the connection was lost before its confirm. Such a message
	// goes before new ones: while the broker refuses all messages, few new ones are made.
	Retry bool
	// RetryReturned publishes a returned message again, with the same ID. It needs Retry.
	RetryReturned bool
}

// Counts are the numbers of a publisher's messages by outcome.
type Counts struct {
	// Made is the number of message IDs. Once the publisher has stopped, it has sent each of them. Confirmed, Returned and Unsettled do not
	// overlap.
	Made int
	// Confirmed messages must not be lost by the broker.
	Confirmed int
	// Returned messages were routed to no queue.
	Returned int
	// Refusals is the number of negative confirms and, with RetryReturned, of returns. With Retry, one message can have several.
	Refusals int
	// Unsettled messages were nacked without a retry, or the connection ended before their confirm.
	Unsettled int
}

// Wait is the time from the first publishing of a message to its confirm.
type Wait struct{ Sent, Confirmed time.Time }

// Took returns how long the message waited.
func (w Wait) Took() time.Duration { return w.Confirmed.Sub(w.Sent) }

// Publisher publishes persistent, mandatory messages with confirms, on one connection and channel.
type Publisher struct {
	client

	what Publishing
	done chan struct{} // closed when all messages are settled

	// The following are guarded by client.mu.
	made      int
	pending   map[uint64]message // by delivery tag of this session
	again     []message
	confirmed map[string]time.Time // when the confirm arrived
	returned  map[string]bool
	given     map[string]bool // not retried: neither confirmed nor returned
	refusals  int
	waits     []Wait

	paused atomic.Bool
	due    time.Time // of the next message
}

type message struct {
	id     string
	target Target
	first  time.Time // of its first publishing; zero before
	again  bool      // it was nacked or returned before
	// answer has the broker's answer once the message was sent. A Confirmation can report a nack as an ack; see outlet in package mover.
	answer chan *amqp.DeferredConfirmation
}

// slow is the shortest wait for a confirm that a publisher records.
const slow = 50 * time.Millisecond

// maxLag is how far a publisher may fall behind its schedule and catch up.
const maxLag = 100 * time.Millisecond

// refusalPause is the delay before a refused message is published again.
const refusalPause = 5 * time.Millisecond

// inFlight is how many messages may wait for their confirm.
const inFlight = 256

// settling is how long Stop waits for confirms.
const settling = 10 * time.Second

// Publish starts a publisher, which stops when the test ends.
func Publish(tb testing.TB, vhost *brokers.VHost, what Publishing) *Publisher {
	tb.Helper()
	if len(what.Targets) == 0 {
		tb.Fatal("traffic.Publish: no target")
	}
	p := &Publisher{
		client: client{vhost: vhost, name: "publisher-" + rand.Text()[:8]}, what: what, done: make(chan struct{}),
		pending: map[uint64]message{}, confirmed: map[string]time.Time{}, returned: map[string]bool{}, given: map[string]bool{},
	}
	p.start(tb, p.session)
	go func() {
		p.running.Wait()
		close(p.done)
	}()
	return p
}

// Stop stops publishing, waits for pending confirms, and disconnects.
func (p *Publisher) Stop() { p.stop() }

// Wait waits until all Count messages are settled, and fails the test after limit.
func (p *Publisher) Wait(tb testing.TB, limit time.Duration) {
	tb.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		p.mu.Lock()
		defer p.mu.Unlock()
		tb.Fatalf("%s has %d of %d messages confirmed after %s; last error: %v", p.name, len(p.confirmed), p.what.Count, limit, p.trouble)
	}
}

// Counts returns the current numbers.
func (p *Publisher) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Counts{
		Made: p.made, Confirmed: len(p.confirmed), Returned: len(p.returned), Refusals: p.refusals, Unsettled: len(p.given),
	}
}

// Waits returns the waits for confirms of more than 50 ms.
func (p *Publisher) Waits() []Wait {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.waits)
}

// Pause stops publishing until Resume. Refused messages are still published again.
func (p *Publisher) Pause() { p.paused.Store(true) }

// Resume ends a Pause.
func (p *Publisher) Resume() { p.paused.Store(false) }

// Confirmed returns the IDs of the messages that the broker confirmed and did not return.
func (p *Publisher) Confirmed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.confirmed))
}

// ConfirmedAt returns when the broker confirmed a message; false if it did not.
func (p *Publisher) ConfirmedAt(id string) (at time.Time, confirmed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, confirmed = p.confirmed[id]
	return at, confirmed
}

// session publishes on one channel until all messages are settled, the publisher is stopped, or the channel is lost.
func (p *Publisher) session(channel *amqp.Channel) error {
	if err := channel.Confirm(false); err != nil {
		return err
	}
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	// Unbuffered, so that amqp091-go delivers a return before it reads the confirm that follows.
	returns := channel.NotifyReturn(make(chan amqp.Return))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, inFlight))
	slots := make(chan struct{}, inFlight)
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		p.settle(returns, confirms, slots)
	}()
	err := p.publishing(channel, slots, closed)
	_ = channel.Close() // ends settle
	<-settled
	p.giveUp(err != nil && p.ctx.Err() == nil)
	return err
}

var errClosed = errors.New("the channel was closed")

func (p *Publisher) publishing(channel *amqp.Channel, slots chan struct{}, closed <-chan *amqp.Error) error {
	idle := time.Now()
	for {
		m, ok, last := p.next()
		switch {
		case ok:
			if err := p.publish(channel, m, slots, closed); err != nil {
				return err
			}
			idle = time.Now()
		case last, p.ctx.Err() != nil && time.Since(idle) > settling:
			return nil
		default: // pending messages may have to be published again
			select {
			case reason := <-closed:
				return errors.Join(errClosed, because(reason))
			case <-time.After(time.Millisecond):
			}
		}
	}
}

// next returns the message to publish now. last reports whether no further message follows.
func (p *Publisher) next() (m message, ok, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stopped := p.ctx.Err() != nil
	switch {
	case !stopped && len(p.again) > 0:
		m, p.again = p.again[0], p.again[1:]
		return m, true, false
	case !stopped && (p.paused.Load() || p.what.While != nil && !p.what.While()):
		return message{}, false, false
	case !stopped && (p.what.Count == 0 || p.made < p.what.Count):
		p.made++
		m := message{id: fmt.Sprintf("%s-%06d", p.name, p.made), target: p.what.Targets[p.made%len(p.what.Targets)]}
		return m, true, false
	}
	return message{}, false, len(p.pending) == 0
}

func (p *Publisher) publish(channel *amqp.Channel, m message, slots chan struct{}, closed <-chan *amqp.Error) error {
	if m.again {
		pause(p.ctx, refusalPause)
	}
	select {
	case slots <- struct{}{}:
	case reason := <-closed:
		p.putBack(m)
		return errors.Join(errClosed, because(reason))
	case <-p.ctx.Done():
		p.putBack(m)
		return nil
	}
	now := time.Now()
	if m.first.IsZero() {
		m.first = now
	}
	m.answer = make(chan *amqp.DeferredConfirmation, 1)
	p.mu.Lock()
	p.pending[channel.GetNextPublishSeqNo()] = m
	p.mu.Unlock()
	answer, err := channel.PublishWithDeferredConfirm(m.target.Exchange, m.target.RoutingKey, true, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, MessageId: m.id, Body: p.body(m), Headers: amqp.Table{headerSent: now.UnixMilli()},
	})
	m.answer <- answer
	if err == nil {
		p.pace(now)
	}
	return err
}

// headerSent is when a message was published, in Unix milliseconds.
const headerSent = "sent"

func (p *Publisher) body(m message) []byte {
	if p.what.Body != nil {
		return p.what.Body(m.id)
	}
	return append([]byte(m.id), make([]byte, max(0, p.what.Size-len(m.id)))...)
}

// pace waits until the next message is due. It makes up for waits that were too long, so that the rate is exact.
func (p *Publisher) pace(now time.Time) {
	if p.what.Every == 0 {
		return
	}
	if now.Sub(p.due) > maxLag {
		p.due = now
	}
	p.due = p.due.Add(p.what.Every)
	pause(p.ctx, time.Until(p.due))
}

// putBack returns a message that was not sent.
func (p *Publisher) putBack(m message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again = append(p.again, m)
}

func because(reason *amqp.Error) error {
	if reason == nil {
		return nil
	}
	return reason
}

// settle records the outcome of each message until the channel ends.
func (p *Publisher) settle(returns <-chan amqp.Return, confirms <-chan amqp.Confirmation, slots <-chan struct{}) {
	for returns != nil || confirms != nil {
		select {
		case r, ok := <-returns:
			if !ok {
				returns = nil
				continue
			}
			p.mu.Lock()
			p.returned[r.MessageId] = true
			p.mu.Unlock()
		case c, ok := <-confirms:
			if !ok {
				confirms = nil
				continue
			}
			p.confirm(c.DeliveryTag)
			<-slots
		}
	}
}

func (p *Publisher) confirm(number uint64) {
	p.mu.Lock()
	m := p.pending[number]
	p.mu.Unlock()
	answer := <-m.answer
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, number)
	switch {
	case !answer.Acked():
		p.refusals++
		m.again = true
		p.repeat(m)
	case !p.returned[m.id]:
		now := time.Now()
		p.confirmed[m.id] = now
		if now.Sub(m.first) > slow {
			p.waits = append(p.waits, Wait{m.first, now})
		}
	case p.what.RetryReturned:
		p.refusals++
		delete(p.returned, m.id)
		m.again = true
		p.repeat(m)
	}
}

// repeat publishes a message again if Retry is set. The caller must hold the lock.
func (p *Publisher) repeat(m message) {
	if p.what.Retry && p.ctx.Err() == nil {
		p.again = append(p.again, m)
		return
	}
	p.given[m.id] = true
}

// giveUp handles the pending messages of a session that ended; a new session may publish them again. Returned IDs are not
// published again without RetryReturned, because they would count twice if a later attempt were confirmed.
func (p *Publisher) giveUp(goesOn bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for tag, m := range p.pending {
		delete(p.pending, tag)
		if p.what.RetryReturned {
			delete(p.returned, m.id)
		}
		if !p.returned[m.id] {
			p.repeat(m)
		}
	}
	if goesOn {
		return
	}
	for _, m := range p.again {
		if !m.first.IsZero() {
			p.given[m.id] = true
		} else {
			p.made--
		}
	}
	p.again = nil
}
