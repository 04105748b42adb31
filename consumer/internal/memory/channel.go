package memory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/transport"
)

type channel struct {
	connection *connection
	broker     *Broker
	prefetch   int
	tag        uint64
	unacked    map[uint64]delivered
	consumers  []*consumer
	pumps      []*pump  // of all consumers, including cancelled ones
	unanswered []func() // pending confirms while publishers are blocked
	closes     chan *amqp.Error
	cancels    chan string
	returns    chan amqp.Return
	waiting    []*confirmation
	refused    []string // queues that have refused a message, if the channel keeps refusing
	closed     bool
}

type delivered struct {
	message  *message
	consumer *consumer
}

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

// checkAnswer is check for a request that was in flight. amqp091-go returns the reason of the broker to each of them.
func (ch *channel) checkAnswer() error {
	if reason := ch.connection.reason; reason != nil && reason.Server {
		return reason
	}
	return ch.check()
}

func (ch *channel) Consume(name, tag string, _, _, _, _ bool, _ amqp.Table) (<-chan amqp.Delivery, error) {
	ch.connection.awaitAnswer("basic.consume", nil)
	ch.connection.awaitAnswer("basic.consume "+name, nil)
	b := ch.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ch.checkAnswer(); err != nil {
		return nil, err
	}
	if b.broken[name] {
		reason := serverError(amqp.InternalError, "INTERNAL_ERROR - failed consuming from quorum queue '%s' in vhost '/': noproc", name)
		ch.connection.end(reason)
		return nil, reason
	}
	q := b.queues[name]
	if q == nil {
		reason := serverError(amqp.NotFound, "NOT_FOUND - no queue '%s'", name)
		ch.end(reason)
		return nil, reason
	}
	c := &consumer{tag: tag, queue: q, channel: ch, prefetch: ch.prefetch, pump: newPump()}
	ch.consumers, ch.pumps = append(ch.consumers, c), append(ch.pumps, c.pump)
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

// unackedOf returns how many messages count for the prefetch of a consumer. A quorum queue keeps a cancelled consumer with unsettled
// messages, and merges a consumer of the same tag with it.
func (ch *channel) unackedOf(c *consumer) int {
	count := 0
	for _, d := range ch.unacked {
		if d.consumer.tag == c.tag && d.consumer.queue == c.queue {
			count++
		}
	}
	return count
}

func (ch *channel) Cancel(tag string, _ bool) error {
	ch.connection.awaitAnswer("basic.cancel", nil)
	ch.connection.awaitAnswer("basic.cancel "+ch.queueOf(tag), nil)
	b := ch.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ch.checkAnswer(); err != nil {
		return err
	}
	for _, c := range ch.consumers {
		if c.tag == tag {
			ch.removeConsumer(c)
			c.pump.finish()
			b.deliver(c.queue)
		}
	}
	return nil
}

// queueOf returns the name of the queue of a consumer, or "".
func (ch *channel) queueOf(tag string) string {
	ch.broker.mu.Lock()
	defer ch.broker.mu.Unlock()
	for _, c := range ch.consumers {
		if c.tag == tag {
			return c.queue.name
		}
	}
	return ""
}

func (ch *channel) removeConsumer(c *consumer) {
	ch.consumers = slices.DeleteFunc(ch.consumers, func(other *consumer) bool { return other == c })
	c.queue.consumers = slices.DeleteFunc(c.queue.consumers, func(other *consumer) bool { return other == c })
}

func (ch *channel) cancelByBroker(c *consumer) {
	ch.removeConsumer(c)
	for tag, d := range ch.unacked {
		if d.consumer == c {
			delete(ch.unacked, tag)
		}
	}
	c.pump.finish()
	ch.cancels <- c.tag
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
		ch.broker.requeue(d.consumer.queue, d.message, counts)
	} else {
		ch.broker.deadLetter(d.consumer.queue, d.message, "rejected", d.consumer.queue.rejected)
	}
}

// settle settles one delivery, or all up to tag; all if tag is 0.
func (ch *channel) settle(tag uint64, multiple bool, then func(delivered)) error {
	b := ch.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ch.check(); err != nil {
		return err
	}
	if _, known := ch.unacked[tag]; tag != 0 && !known {
		ch.end(serverError(amqp.PreconditionFailed, "PRECONDITION_FAILED - unknown delivery tag %d", tag))
		return nil // the broker closes the channel asynchronously
	}
	settles := func(known uint64) bool { return known == tag || multiple && (tag == 0 || known <= tag) }
	for _, q := range ch.release(settles, then) {
		b.deliver(q)
	}
	return nil
}

// release calls then for the unsettled deliveries that takes selects, and returns their queues. It begins with the latest, so that
// returned messages keep their order.
func (ch *channel) release(takes func(tag uint64) bool, then func(delivered)) (queues []*queue) {
	for _, tag := range slices.Backward(slices.Sorted(maps.Keys(ch.unacked))) {
		if !takes(tag) {
			continue
		}
		d := ch.unacked[tag]
		delete(ch.unacked, tag)
		d.consumer.queue.unacked--
		then(d)
		if !slices.Contains(queues, d.consumer.queue) {
			queues = append(queues, d.consumer.queue)
		}
	}
	return queues
}

// Publish confirms immediately, unless publishers are blocked.
func (ch *channel) Publish(exchange, key string, _ bool, content amqp.Publishing) (transport.Confirmation, error) {
	b := ch.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ch.check(); err != nil {
		return nil, err
	}
	if err := content.Headers.Validate(); err != nil {
		return nil, err
	}
	if hasLongName(exchange, key, content) {
		reason := &amqp.Error{Code: amqp.FrameError, Reason: "amqp: shortstr exceeds 255 bytes"}
		ch.connection.end(reason)
		return nil, reason
	}
	ch.connection.publishes = true
	if b.blocked {
		ch.connection.blocked(true)
	}
	if reason := b.refusal(contract.Route{Exchange: exchange, RoutingKey: key}, content); reason != nil {
		answer := &confirmation{done: make(chan struct{})}
		ch.waiting = append(ch.waiting, answer)
		ch.end(reason)
		return answer, nil
	}
	answer := &confirmation{done: make(chan struct{})}
	take := func() { ch.take(exchange, key, content, answer) }
	ch.waiting = append(ch.waiting, answer)
	if b.blocked {
		ch.unanswered = append(ch.unanswered, take)
	} else {
		take()
	}
	ch.waiting = slices.DeleteFunc(ch.waiting, (*confirmation).isAnswered)
	return answer, nil
}

// take gives a published message to its queues and confirms it. The broker refuses the message if one of the queues does, and does not
// answer if one of the queues is silent. The other queues still get the message.
func (ch *channel) take(exchange, key string, content amqp.Publishing, answer *confirmation) {
	b := ch.broker
	queues := b.route(exchange, key)
	if len(queues) == 0 {
		ch.returns <- amqp.Return{
			ReplyCode: amqp.NoRoute, ReplyText: "NO_ROUTE", Exchange: exchange, RoutingKey: key, Headers: content.Headers,
		}
		answer.answer(true)
		return
	}
	silent, refused := false, false
	for _, q := range queues {
		switch {
		case b.silent[q.name]:
			silent = true
		case b.refusing[q.name] || slices.Contains(ch.refused, q.name):
			refused = true
			if b.keepRefusing {
				ch.refused = append(ch.refused, q.name)
			}
		default:
			b.enqueue(q, &message{content: content, exchange: exchange, routingKey: key})
		}
	}
	if silent {
		return
	}
	if !refused {
		b.published = append(b.published, publication{Published{exchange, key, content}, ch.connection.name})
	}
	answer.answer(!refused)
}

// sizeLimit is the highest number of bytes of a body, and why the channel of a larger message is closed.
type sizeLimit struct {
	size  int
	reply string
}

// Limit makes the broker close the channel of each message with a larger body.
func (b *Broker) Limit(size int, reply string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = &sizeLimit{size, reply}
}

// refusal returns why the broker closes the channel of a published message, or nil.
func (b *Broker) refusal(route contract.Route, content amqp.Publishing) *amqp.Error {
	switch {
	case b.forbidden[route.Exchange]:
		name := cmp.Or(route.Exchange, "amq.default")
		return serverError(amqp.AccessRefused, "ACCESS_REFUSED - write access to exchange '%s' in vhost '/' refused for user 'guest'", name)
	case !b.exchanges[route.Exchange]:
		return serverError(amqp.NotFound, "NOT_FOUND - no exchange '%s' in vhost '/'", route.Exchange)
	case b.topics[route]:
		const format = "ACCESS_REFUSED - write access to topic '%s' in exchange '%s' in vhost '/' refused for user 'guest'"
		return serverError(amqp.AccessRefused, format, route.RoutingKey, route.Exchange)
	}
	if b.limit != nil && len(content.Body) > b.limit.size {
		return serverError(amqp.PreconditionFailed, "%s", b.limit.reply)
	}
	if _, err := strconv.ParseUint(cmp.Or(content.Expiration, "0"), 10, 32); err != nil {
		return serverError(amqp.PreconditionFailed, "PRECONDITION_FAILED - invalid expiration '%s'", content.Expiration)
	}
	return nil
}

// serverError shortens a long reason as RabbitMQ does.
func serverError(code int, format string, arguments ...any) *amqp.Error {
	reason := fmt.Sprintf(format, arguments...)
	if isLong(reason) {
		reason = reason[:252] + "..."
	}
	return &amqp.Error{Code: code, Reason: reason, Server: true}
}

func (ch *channel) confirmAll() {
	for _, take := range ch.unanswered {
		take()
	}
	ch.unanswered = nil
}

func (ch *channel) IsClosed() bool {
	ch.broker.mu.Lock()
	defer ch.broker.mu.Unlock()
	return ch.closed
}

func (ch *channel) Close() error {
	ch.connection.awaitUnblocked(nil)
	ch.connection.awaitAnswer("channel.close", nil)
	ch.broker.mu.Lock()
	defer ch.broker.mu.Unlock()
	if err := ch.check(); err != nil {
		return err
	}
	ch.end(nil)
	return nil
}

// end closes the channel and requeues unsettled messages, which counts as a delivery.
func (ch *channel) end(reason *amqp.Error) {
	if ch.closed {
		return
	}
	ch.closed = true
	var queues []*queue
	for _, c := range slices.Clone(ch.consumers) {
		ch.removeConsumer(c)
		queues = append(queues, c.queue)
	}
	for _, p := range ch.pumps {
		p.stop()
	}
	all := func(uint64) bool { return true }
	queues = append(queues, ch.release(all, func(d delivered) { ch.putBack(d, true, true) })...)
	for _, answer := range ch.waiting { // amqp091-go reports a nack for each pending message
		answer.answer(false)
	}
	if reason != nil {
		ch.closes <- reason
	}
	close(ch.closes)
	close(ch.cancels)
	close(ch.returns)
	for _, q := range queues {
		ch.broker.deliver(q)
	}
}
