package traffic

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/test/brokers"
)

// Target is where a message is published to.
type Target struct{ Exchange, RoutingKey string }

// ToQueue is a queue's target through the default exchange.
func ToQueue(name string) Target { return Target{RoutingKey: name} }

// Publishing says what a Publisher does.
type Publishing struct {
	// Targets are published to in turn.
	Targets []Target
	// Count is how many messages there are in all; without it, they go on until Stop.
	Count int
	// Every is the time between two messages; without it, they follow each other as fast as they are confirmed.
	Every time.Duration
	// Retry publishes again, with the same id, what was nacked or lost its confirm with the connection.
	Retry bool
}

// Counts are what became of a publisher's messages.
type Counts struct {
	// Made is how many ids there are; once the publisher has stopped, each was sent. Each has at most one place among Confirmed, Returned
	// and Unsettled.
	Made int
	// Confirmed messages are the broker's: it must not lose them.
	Confirmed int
	// Returned messages reached no queue, and the publisher was told.
	Returned int
	// Nacks counts refusals; with Retry, one message can have many.
	Nacks int
	// Unsettled messages were nacked for good, or the connection ended before their confirm.
	Unsettled int
}

// Publisher publishes persistent, mandatory messages with confirms, on one connection and channel that it keeps.
type Publisher struct {
	client

	what Publishing
	done chan struct{} // closed when there is nothing more to do

	// The following are guarded by client.mu.
	made      int
	pending   map[uint64]message // by delivery tag of this session
	again     []message
	confirmed map[string]bool
	returned  map[string]bool
	given     map[string]bool // given up: neither confirmed nor returned
	nacks     int
}

type message struct {
	id     string
	target Target
	sent   bool // at least once
	nacked bool
}

// nackPause keeps a publisher whose messages are refused from trying without a pause.
const nackPause = 5 * time.Millisecond

// inFlight is how many messages wait for their confirm at a time.
const inFlight = 256

// settling is how long a publisher that is to stop waits for confirms.
const settling = 10 * time.Second

// Publish starts a publisher, which is stopped with the test at the latest.
func Publish(tb testing.TB, vhost *brokers.VHost, what Publishing) *Publisher {
	tb.Helper()
	if len(what.Targets) == 0 {
		tb.Fatal("traffic.Publish: no target")
	}
	p := &Publisher{
		client: client{vhost: vhost, name: "publisher-" + rand.Text()[:8]}, what: what, done: make(chan struct{}),
		pending: map[uint64]message{}, confirmed: map[string]bool{}, returned: map[string]bool{}, given: map[string]bool{},
	}
	p.start(tb, p.session)
	go func() {
		p.running.Wait()
		close(p.done)
	}()
	return p
}

// Stop publishes nothing more, waits for the confirms that are under way, and disconnects.
func (p *Publisher) Stop() { p.stop() }

// Wait waits until all Count messages are settled, and fails the test if that takes longer than the limit.
func (p *Publisher) Wait(tb testing.TB, limit time.Duration) {
	tb.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		p.mu.Lock()
		defer p.mu.Unlock()
		tb.Fatalf("%s has %d of %d messages confirmed after %s; last trouble: %v", p.name, len(p.confirmed), p.what.Count, limit, p.trouble)
	}
}

// Counts tells what became of the messages so far.
func (p *Publisher) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Counts{
		Made: p.made, Confirmed: len(p.confirmed), Returned: len(p.returned), Nacks: p.nacks, Unsettled: len(p.given),
	}
}

// Confirmed lists the ids of the messages that the broker confirmed and did not return.
func (p *Publisher) Confirmed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.confirmed))
}

// session publishes on one channel until there is nothing to do, the publisher is stopped, or the channel is lost.
func (p *Publisher) session(channel *amqp.Channel) error {
	if err := channel.Confirm(false); err != nil {
		return err
	}
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	// Without a buffer: the client library hands over a return before it reads the confirm that follows it.
	returns := channel.NotifyReturn(make(chan amqp.Return))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, inFlight))
	slots := make(chan struct{}, inFlight)
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		p.settle(returns, confirms, slots)
	}()
	err := p.publishing(channel, slots, closed)
	_ = channel.Close() // which ends settle
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
		default: // what is under way may have to be published again
			select {
			case reason := <-closed:
				return errors.Join(errClosed, because(reason))
			case <-time.After(time.Millisecond):
			}
		}
	}
}

// next takes the message to publish now. last says that there will be none any more.
func (p *Publisher) next() (m message, ok, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stopped := p.ctx.Err() != nil
	switch {
	case !stopped && len(p.again) > 0:
		m, p.again = p.again[0], p.again[1:]
		return m, true, false
	case !stopped && (p.what.Count == 0 || p.made < p.what.Count):
		p.made++
		m := message{id: fmt.Sprintf("%s-%06d", p.name, p.made), target: p.what.Targets[p.made%len(p.what.Targets)]}
		return m, true, false
	}
	return message{}, false, len(p.pending) == 0
}

func (p *Publisher) publish(channel *amqp.Channel, m message, slots chan struct{}, closed <-chan *amqp.Error) error {
	if m.nacked {
		pause(p.ctx, nackPause)
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
	m.sent = true
	p.mu.Lock()
	p.pending[channel.GetNextPublishSeqNo()] = m
	p.mu.Unlock()
	err := channel.PublishWithContext(context.WithoutCancel(p.ctx), m.target.Exchange, m.target.RoutingKey, true, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, MessageId: m.id, Body: []byte(m.id),
	})
	if err == nil {
		pause(p.ctx, p.what.Every)
	}
	return err
}

// putBack takes back a message that never went out.
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

// settle notes what becomes of each message until the channel ends.
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
			p.confirm(c)
			<-slots
		}
	}
}

func (p *Publisher) confirm(c amqp.Confirmation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.pending[c.DeliveryTag]
	delete(p.pending, c.DeliveryTag)
	switch {
	case !c.Ack:
		p.nacks++
		m.nacked = true
		p.repeat(m)
	case !p.returned[m.id]:
		p.confirmed[m.id] = true
	}
}

// repeat has a message published again, if that is wanted; it holds the lock.
func (p *Publisher) repeat(m message) {
	if p.what.Retry && p.ctx.Err() == nil {
		p.again = append(p.again, m)
		return
	}
	p.given[m.id] = true
}

// giveUp deals with what a session leaves: a new session may publish it again. An id that was returned once and is
// confirmed by a later attempt would count as both; returned ids are never published again.
func (p *Publisher) giveUp(goesOn bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for tag, m := range p.pending {
		delete(p.pending, tag)
		if !p.returned[m.id] {
			p.repeat(m)
		}
	}
	if goesOn {
		return
	}
	for _, m := range p.again {
		if m.sent {
			p.given[m.id] = true
		} else {
			p.made--
		}
	}
	p.again = nil
}
