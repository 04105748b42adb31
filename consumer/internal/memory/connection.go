package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/internal/transport"
)

// Dial connects to the broker.
func (b *Broker) Dial(ctx context.Context, _ string) (transport.Connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &connection{broker: b}
	b.connections[c] = true
	return c, nil
}

// connection is guarded by the lock of its broker, as all below are.
type connection struct {
	broker   *Broker
	channels []*channel
	closes   []chan *amqp.Error
	blocks   []chan amqp.Blocking
	closed   bool
}

func (c *connection) Channel() (transport.Channel, error) {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if c.closed {
		return nil, amqp.ErrClosed
	}
	ch := &channel{connection: c, broker: c.broker, unacked: map[uint64]delivered{}}
	c.channels = append(c.channels, ch)
	return ch, nil
}

func (c *connection) NotifyClose(receiver chan *amqp.Error) chan *amqp.Error {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if c.closed {
		close(receiver)
	} else {
		c.closes = append(c.closes, receiver)
	}
	return receiver
}

func (c *connection) NotifyBlocked(receiver chan amqp.Blocking) chan amqp.Blocking {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	c.blocks = append(c.blocks, receiver)
	if c.broker.blocked {
		receiver <- amqp.Blocking{Active: true, Reason: "low on memory"}
	}
	return receiver
}

func (c *connection) IsClosed() bool {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	return c.closed
}

// MaxFrame is that of RabbitMQ.
func (c *connection) MaxFrame() int { return 131072 }

func (c *connection) Close(time.Time) error {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if c.closed {
		return amqp.ErrClosed
	}
	c.end(nil)
	return nil
}

func (c *connection) Kill() { _ = c.Close(time.Time{}) }

func (c *connection) tellBlocked(blocked bool) {
	for _, receiver := range c.blocks {
		receiver <- amqp.Blocking{Active: blocked}
	}
	if !blocked {
		for _, ch := range c.channels {
			ch.confirmAll()
		}
	}
}

// end closes the connection. All that was not settled goes back.
func (c *connection) end(reason *amqp.Error) {
	if c.closed {
		return
	}
	c.closed = true
	delete(c.broker.connections, c)
	for _, ch := range c.channels {
		ch.end(reason)
	}
	tellClosed(c.closes, reason)
	for _, receiver := range c.blocks {
		close(receiver)
	}
}

func tellClosed(receivers []chan *amqp.Error, reason *amqp.Error) {
	for _, receiver := range receivers {
		if reason != nil {
			receiver <- reason
		}
		close(receiver)
	}
}

// channel is a channel.
type channel struct {
	connection *connection
	broker     *Broker
	prefetch   int
	tag        uint64
	unacked    map[uint64]delivered
	consumers  []*consumer
	unanswered []func() // confirms that a blocked broker owes
	closes     []chan *amqp.Error
	cancels    []chan string
	returns    []chan amqp.Return
	waiting    []*confirmation
	closed     bool
}

type delivered struct {
	message  *message
	consumer *consumer
}

// consumer is a consumer of a queue.
type consumer struct {
	tag      string
	queue    *queue
	channel  *channel
	prefetch int
	pump     *pump
}

func (ch *channel) Qos(count, _ int, _ bool) error {
	ch.broker.mu.Lock()
	defer ch.broker.mu.Unlock()
	ch.prefetch = count
	return ch.check()
}

func (ch *channel) check() error {
	if ch.closed {
		return amqp.ErrClosed
	}
	return nil
}

func (ch *channel) Consume(name, tag string, _, _, _, _ bool, _ amqp.Table) (<-chan amqp.Delivery, error) {
	b := ch.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ch.check(); err != nil {
		return nil, err
	}
	q := b.queues[name]
	if q == nil {
		reason := &amqp.Error{Code: amqp.NotFound, Reason: fmt.Sprintf("NOT_FOUND - no queue '%s'", name), Server: true}
		ch.end(reason)
		return nil, reason
	}
	c := &consumer{tag: tag, queue: q, channel: ch, prefetch: ch.prefetch, pump: newPump()}
	ch.consumers = append(ch.consumers, c)
	q.consumers = append(q.consumers, c)
	b.deliver(q)
	return c.pump.out, nil
}

func (ch *channel) send(c *consumer, m *message) {
	ch.tag++
	ch.unacked[ch.tag] = delivered{m, c}
	d := m.delivery()
	d.DeliveryTag, d.ConsumerTag = ch.tag, c.tag
	c.pump.push(d)
}

func (ch *channel) unackedOf(c *consumer) int {
	count := 0
	for _, d := range ch.unacked {
		if d.consumer == c {
			count++
		}
	}
	return count
}

func (ch *channel) Cancel(tag string, _ bool) error {
	b := ch.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ch.check(); err != nil {
		return err
	}
	for _, c := range ch.consumers {
		if c.tag == tag {
			ch.leave(c)
			c.pump.finish()
			b.deliver(c.queue)
		}
	}
	return nil
}

func (ch *channel) leave(c *consumer) {
	ch.consumers = slices.DeleteFunc(ch.consumers, func(other *consumer) bool { return other == c })
	c.queue.consumers = slices.DeleteFunc(c.queue.consumers, func(other *consumer) bool { return other == c })
}

func (ch *channel) cancelByBroker(c *consumer) {
	ch.leave(c)
	for tag, d := range ch.unacked {
		if d.consumer == c {
			delete(ch.unacked, tag)
		}
	}
	c.pump.finish()
	for _, receiver := range ch.cancels {
		receiver <- c.tag
	}
}

func (ch *channel) Ack(tag uint64, multiple bool) error {
	return ch.settle(tag, multiple, func(delivered) {})
}

func (ch *channel) Nack(tag uint64, multiple, requeue bool) error {
	return ch.settle(tag, multiple, func(d delivered) { ch.putBack(d, requeue, false) })
}

func (ch *channel) Reject(tag uint64, requeue bool) error {
	return ch.settle(tag, false, func(d delivered) { ch.putBack(d, requeue, true) })
}

func (ch *channel) putBack(d delivered, requeue, counts bool) {
	if requeue {
		ch.broker.giveBack(d.consumer.queue, d.message, counts)
	} else {
		ch.broker.deadLetter(d.consumer.queue, d.message, "rejected", d.consumer.queue.rejected)
	}
}

// settle settles one delivery, or all up to a tag; with tag 0, all. The latest come first, so that returned messages keep their order.
func (ch *channel) settle(tag uint64, multiple bool, then func(delivered)) error {
	b := ch.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ch.check(); err != nil {
		return err
	}
	var tags []uint64
	for known := range ch.unacked {
		if known == tag || multiple && (tag == 0 || known <= tag) {
			tags = append(tags, known)
		}
	}
	if _, known := ch.unacked[tag]; tag != 0 && !known {
		ch.end(&amqp.Error{
			Code: amqp.PreconditionFailed, Reason: fmt.Sprintf("PRECONDITION_FAILED - unknown delivery tag %d", tag), Server: true,
		})
		return nil // the broker says so later
	}
	slices.Sort(tags)
	slices.Reverse(tags)
	var queues []*queue
	for _, settled := range tags {
		d := ch.unacked[settled]
		delete(ch.unacked, settled)
		d.consumer.queue.unacked--
		then(d)
		if !slices.Contains(queues, d.consumer.queue) {
			queues = append(queues, d.consumer.queue)
		}
	}
	for _, q := range queues {
		b.deliver(q)
	}
	return nil
}

func (ch *channel) Confirm(bool) error {
	ch.broker.mu.Lock()
	defer ch.broker.mu.Unlock()
	return ch.check()
}

// Publish confirms at once, unless the broker is blocked.
func (ch *channel) Publish(exchange, key string, _ bool, content amqp.Publishing) (transport.Confirmation, error) {
	b := ch.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ch.check(); err != nil {
		return nil, err
	}
	answer := &confirmation{done: make(chan struct{})}
	take := func() {
		q := b.route(exchange, key)
		switch {
		case q == nil:
			returned := amqp.Return{ReplyCode: amqp.NoRoute, ReplyText: "NO_ROUTE", Exchange: exchange, RoutingKey: key, Headers: content.Headers}
			for _, receiver := range ch.returns {
				receiver <- returned
			}
			answer.answer(true)
		case b.refusing[q.name]:
			answer.answer(false)
		default:
			b.enqueue(q, &message{content: content, exchange: exchange, routingKey: key})
			answer.answer(true)
		}
	}
	ch.waiting = append(ch.waiting, answer)
	if b.blocked {
		ch.unanswered = append(ch.unanswered, take)
	} else {
		take()
	}
	ch.waiting = slices.DeleteFunc(ch.waiting, (*confirmation).isAnswered)
	return answer, nil
}

func (ch *channel) confirmAll() {
	for _, take := range ch.unanswered {
		take()
	}
	ch.unanswered = nil
}

func (ch *channel) NotifyClose(receiver chan *amqp.Error) chan *amqp.Error {
	ch.broker.mu.Lock()
	defer ch.broker.mu.Unlock()
	if ch.closed {
		close(receiver)
	} else {
		ch.closes = append(ch.closes, receiver)
	}
	return receiver
}

func (ch *channel) NotifyCancel(receiver chan string) chan string {
	ch.broker.mu.Lock()
	defer ch.broker.mu.Unlock()
	ch.cancels = append(ch.cancels, receiver)
	return receiver
}

func (ch *channel) NotifyReturn(receiver chan amqp.Return) chan amqp.Return {
	ch.broker.mu.Lock()
	defer ch.broker.mu.Unlock()
	ch.returns = append(ch.returns, receiver)
	return receiver
}

func (ch *channel) IsClosed() bool {
	ch.broker.mu.Lock()
	defer ch.broker.mu.Unlock()
	return ch.closed
}

func (ch *channel) Close() error {
	ch.broker.mu.Lock()
	defer ch.broker.mu.Unlock()
	if err := ch.check(); err != nil {
		return err
	}
	ch.end(nil)
	return nil
}

// end closes the channel. What was not settled goes back, and that counts.
func (ch *channel) end(reason *amqp.Error) {
	if ch.closed {
		return
	}
	ch.closed = true
	var queues []*queue
	for _, c := range slices.Clone(ch.consumers) {
		ch.leave(c)
		c.pump.stop()
		queues = append(queues, c.queue)
	}
	tags := make([]uint64, 0, len(ch.unacked))
	for tag := range ch.unacked {
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	slices.Reverse(tags)
	for _, tag := range tags {
		d := ch.unacked[tag]
		delete(ch.unacked, tag)
		d.consumer.queue.unacked--
		ch.broker.giveBack(d.consumer.queue, d.message, true)
		if !slices.Contains(queues, d.consumer.queue) {
			queues = append(queues, d.consumer.queue)
		}
	}
	for _, answer := range ch.waiting { // amqp091-go marks what waits as refused
		answer.answer(false)
	}
	tellClosed(ch.closes, reason)
	for _, receiver := range ch.cancels {
		close(receiver)
	}
	for _, receiver := range ch.returns {
		close(receiver)
	}
	for _, q := range queues {
		ch.broker.deliver(q)
	}
}

// confirmation is the answer to a message.
type confirmation struct {
	once  sync.Once
	done  chan struct{}
	acked bool
}

func (c *confirmation) answer(acked bool) {
	c.once.Do(func() {
		c.acked = acked
		close(c.done)
	})
}

func (c *confirmation) isAnswered() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *confirmation) Done() <-chan struct{} { return c.done }

func (c *confirmation) Acked() bool {
	<-c.done
	return c.acked
}

// pump passes deliveries on, of which any number may wait.
type pump struct {
	out     chan amqp.Delivery
	mu      sync.Mutex
	waiting []amqp.Delivery
	more    chan struct{}
	ending  bool
	stopped chan struct{}
}

func newPump() *pump {
	p := &pump{out: make(chan amqp.Delivery), more: make(chan struct{}, 1), stopped: make(chan struct{})}
	go p.run()
	return p
}

func (p *pump) push(d amqp.Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, d)
	p.wake()
}

func (p *pump) wake() {
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// finish ends the pump once all is passed on.
func (p *pump) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
	p.wake()
}

// stop ends the pump now.
func (p *pump) stop() { close(p.stopped) }

func (p *pump) run() {
	defer close(p.out)
	for {
		p.mu.Lock()
		waiting, ending := p.waiting, p.ending
		p.waiting = nil
		p.mu.Unlock()
		for _, d := range waiting {
			select {
			case p.out <- d:
			case <-p.stopped:
				return
			}
		}
		if len(waiting) > 0 {
			continue
		}
		if ending {
			return
		}
		select {
		case <-p.more:
		case <-p.stopped:
			return
		}
	}
}
