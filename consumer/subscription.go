package consumer

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
)

// window returns how many unsettled messages the broker may send at present. It is 0 while the session must not consume.
func (s *session) window() int {
	c := s.consumer
	switch {
	case c.paused.Load() || s.limiterPauses.Load() || c.breaker.is(breakerOpen):
		return 0
	case c.breaker.is(breakerProbing):
		return min(1+int(c.breaker.extra.Load()), s.settings.prefetch)
	}
	return s.settings.prefetch
}

// adjust makes the subscription match the window. It must be called after each change of the window.
func (s *session) adjust() error {
	s.subscribing <- struct{}{}
	defer func() { <-s.subscribing }()
	window := s.window()
	if s.isStopped() || window == s.subscribed {
		return nil
	}
	untouched, err := s.cancelSubscription()
	if err != nil {
		return err
	}
	for _, next := range untouched {
		if window > 0 && len(s.inbox) < cap(s.inbox) { // nothing else adds to it now
			s.inbox <- next
			continue
		}
		if err := s.acker.returnMessage(next.DeliveryTag); err != nil {
			return err
		}
	}
	if window == 0 {
		return nil
	}
	return s.withTimeout(connectTimeout, func() error { return s.subscribe(window) })
}

// subscribe sends basic.consume, and before it basic.qos if the prefetch changes. A quorum queue keeps a cancelled consumer with
// unsettled messages, and counts them for the prefetch of the next consumer with the same tag. Therefore each subscription has a tag
// of its own, unless so many messages are unsettled that some must be settled first. The caller holds subscribing.
func (s *session) subscribe(window int) error {
	if s.active.Load() < int64(s.settings.prefetch) {
		s.subscriptions++
	}
	if s.qos != window {
		if err := s.channel.Qos(window, 0, false); err != nil {
			return err
		}
		s.qos = window
	}
	var arguments amqp.Table
	if s.contract.ConfigMap != "" {
		arguments = amqp.Table{contract.ArgConfigMap: s.contract.ConfigMap}
	}
	deliveries, err := s.channel.Consume(s.contract.Queue, s.tag(), false, false, false, false, arguments)
	if err != nil {
		return err
	}
	s.received, s.subscribed = make(chan struct{}), window
	go s.receive(deliveries, s.received)
	return nil
}

func (s *session) receive(deliveries <-chan amqp.Delivery, received chan<- struct{}) {
	defer close(received)
	for raw := range deliveries {
		select {
		case s.inbox <- arrival{raw, time.Now()}:
		case <-s.ctx.Done(): // the broker takes the message back
		}
	}
}

// ensureCancel subscribes again if many settlements may have followed the basic.cancel of a pause, so that another basic.cancel follows
// them.
func (s *session) ensureCancel() error {
	s.subscribing <- struct{}{}
	defer func() { <-s.subscribing }()
	if s.received != nil || s.lateSettlements <= maxLateSettlements {
		return nil
	}
	return s.subscribe(1)
}

// unsubscribe ends the subscription and returns the deliveries that no worker has received.
func (s *session) unsubscribe() ([]arrival, error) {
	s.subscribing <- struct{}{}
	defer func() { <-s.subscribing }()
	return s.cancelSubscription()
}

// cancelSubscription sends basic.cancel and returns the deliveries that no worker has received. It sends pending acks first,
// because quorum queues lose acks that arrive shortly before the channel is closed. The caller holds subscribing.
func (s *session) cancelSubscription() ([]arrival, error) {
	if s.received == nil {
		return nil, nil
	}
	s.lateSettlements = s.active.Load() // before the flush, because their handlers may end during it
	if err := s.acker.flush(); err != nil {
		return nil, err
	}
	if err := s.withTimeout(closeTimeout, func() error { return s.channel.Cancel(s.tag(), false) }); err != nil {
		return nil, err
	}
	var untouched []arrival
	for {
		select {
		case next := <-s.inbox:
			untouched = append(untouched, next)
			continue
		case <-s.received:
		}
		break
	}
	s.received, s.subscribed = nil, 0
	for len(s.inbox) > 0 {
		select {
		case next := <-s.inbox:
			untouched = append(untouched, next)
		default: // a worker received it first
		}
	}
	s.lateSettlements += int64(len(untouched)) // the caller returns them
	return untouched, nil
}

// closeChannel closes the channel after a basic.consume or basic.cancel that is in flight: amqp091-go would mix up their answers.
func (s *session) closeChannel() error {
	s.subscribing <- struct{}{}
	defer func() { <-s.subscribing }()
	return s.channel.Close()
}

// errTooLate is the reason for returning a message without handling it.
var errTooLate = errors.New("too little of the consumer timeout is left")

// pauseForLimiter returns the deliveries, and consumes nothing until the limiter grants permission. Otherwise the broker would take
// back the waiting messages at every consumer timeout, and RabbitMQ before 4.3 would count that as a delivery.
func (s *session) pauseForLimiter(deliveries []*Delivery, began time.Time) {
	first := s.limiterPauses.CompareAndSwap(false, true)
	s.returnUnhandled(errTooLate, began, deliveries...)
	if !first {
		return
	}
	release, err := s.acquire(s.starting)
	if err != nil {
		return
	}
	s.consumer.guard(releaseName, release)
	s.limiterPauses.Store(false)
	_ = s.adjust() // fails with the session
}

// returnUnhandled returns deliveries to the queue. If the session must not consume, it cancels the subscription first, because the
// broker would deliver the messages to this consumer again.
func (s *session) returnUnhandled(why error, began time.Time, deliveries ...*Delivery) {
	_ = s.adjust() // fails with the session
	for _, d := range deliveries {
		apart(func() { s.settle(d, contract.Outcome{Result: contract.ResultReturned}, why, began) })
	}
}

// errNotConsuming is the reason for returning a message that arrived before a pause.
var errNotConsuming = errors.New("the consumer is paused")

// Pause stops consuming until Resume is called, also before Run. Handlers that run may finish. Messages that no handler has begun
// return to the queue without an attempt; RabbitMQ before 4.3 counts that as a delivery. They return immediately, with two exceptions:
// messages that are collected for a batch return when it is full or its wait is over, and messages that wait for the limiter when
// Limiter.Acquire returns. The consumer stays connected, live and ready, and a drain works as usual. Pause does not wait: Health reports
// StatePaused, and how many handlers are active.
func (c *Consumer) Pause() {
	c.paused.Store(true)
	notify(c.pauseChanges)
}

// Resume ends a pause that began with Pause. It does not end a pause that the contract asks for.
func (c *Consumer) Resume() {
	c.paused.Store(false)
	notify(c.pauseChanges)
}

// followPause makes the session and the state follow Pause, Resume and the breaker. It does not wait for the broker after ctx ended: the
// drain limits how long adjust may still take.
func (c *Consumer) followPause(ctx context.Context, s *session) {
	adjusted := make(chan struct{})
	go func() {
		defer close(adjusted)
		_ = s.adjust() // fails with the session
	}()
	select {
	case <-adjusted:
	case <-ctx.Done():
		return
	}
	if err := c.breaker.err(); err != nil || c.paused.Load() {
		c.setState(StatePaused, err)
		return
	}
	c.setState(StateDelivering, nil)
}

// pauseMessage says why a consumer is paused.
func pauseMessage(pausing, called, limited bool) string {
	switch {
	case pausing && called:
		return "Consumer.Pause was called; Consumer.Resume ends the pause"
	case pausing:
		return "the operator recreates the queue and has asked the consumers to pause"
	case limited:
		return "messages wait for the limiter"
	}
	return "the broker blocks publishers, so failed messages wait in the consumer"
}
