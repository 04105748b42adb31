// Package memory is a broker in memory, with the topology of one contract. Consumers see it do what RabbitMQ 4.3 does with quorum
// queues, and test/consumer compares it with real brokers. It uses the time of the process, so delays of hours pass at once
// in a bubble of testing/synctest.
package memory

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
)

// Broker is a broker in memory.
type Broker struct {
	mu          sync.Mutex
	queues      map[string]*queue
	bindings    map[contract.Route]string // to a queue
	connections map[*connection]bool
	blocked     bool
	unblocked   chan struct{} // closed when the broker blocks publishers no more
	dials       int
	refusing    map[string]bool // queues that take nothing
	exchanges   map[string]bool // that exist, by name
	forbidden   map[string]bool // exchanges to which the user may not write
	silent      map[string]bool // queues of which no message is confirmed
	published   []publication
	expiring    map[*time.Timer]bool
}

// queue is a quorum queue.
type queue struct {
	name      string
	ready     []*message
	consumers []*consumer
	unacked   int
	// expires is for how long messages stay; 0 for ever.
	expires time.Duration
	// limit is how often a message may be returned; 0 is without end.
	limit int
	// rejected and others are where dead letters go; nil: nowhere.
	rejected, others *contract.Route
	singleActive     bool
}

// message is a message in a queue.
type message struct {
	content    amqp.Publishing
	exchange   string
	routingKey string
	// returns is how often the message came back and was counted. Dead-lettering takes it along, as RabbitMQ 4.3 does.
	returns     int
	redelivered bool
	deaths      []amqp.Table
}

type publication struct {
	Published

	connection string // its name
}

// Published is a message that a client published and a queue got.
type Published struct {
	Exchange, RoutingKey string
	amqp.Publishing
}

// Published are the messages that came over connections whose name ends so, in order.
func (b *Broker) Published(connections string) (found []Published) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.published {
		if strings.HasSuffix(p.connection, connections) {
			found = append(found, p.Published)
		}
	}
	return found
}

// New makes a broker with the topology of a contract.
func New(c contract.Contract) *Broker {
	b := &Broker{
		queues: map[string]*queue{}, bindings: map[contract.Route]string{}, connections: map[*connection]bool{},
		refusing: map[string]bool{}, expiring: map[*time.Timer]bool{}, exchanges: map[string]bool{"": true}, forbidden: map[string]bool{},
		silent: map[string]bool{},
	}
	b.Declare(c)
	return b
}

// Declare declares the topology of a contract, as far as it is missing.
func (b *Broker) Declare(c contract.Contract) {
	b.mu.Lock()
	defer b.mu.Unlock()
	main := b.declare(c.Queue)
	main.singleActive = c.SingleActiveConsumer
	if c.DeadLetterQueue != "" {
		b.declare(c.DeadLetterQueue)
		dead := contract.Route{RoutingKey: c.DeadLetterQueue}
		main.rejected, main.others = &dead, &dead
		if c.Park != nil {
			b.bind(*c.Park, c.DeadLetterQueue)
		}
	}
	if c.Strategy == contract.StrategyRequeue {
		main.limit = c.MaxAttempts - 1
	}
	back := contract.Route{RoutingKey: c.Queue}
	for _, tier := range c.Tiers {
		name := TierQueue(c, tier)
		q := b.declare(name)
		q.expires, q.others = time.Duration(tier.Delay), &back
		b.bind(tier.Route, name)
		if c.Strategy == contract.StrategyReject {
			main.rejected = &contract.Route{RoutingKey: name}
		}
	}
}

// TierQueue is the name of a tier's queue.
func TierQueue(c contract.Contract, tier contract.Tier) string {
	if tier.Exchange == "" {
		return tier.RoutingKey
	}
	return c.Queue + ".retry." + tier.Delay.String()
}

// Bind declares an exchange and a queue, and routes messages with a routing key from the exchange to the queue.
func (b *Broker) Bind(exchange, routingKey, queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.declare(queue)
	b.bind(contract.Route{Exchange: exchange, RoutingKey: routingKey}, queue)
}

func (b *Broker) bind(route contract.Route, queue string) {
	b.exchanges[route.Exchange] = true
	b.bindings[route] = queue
}

// DeleteExchange deletes an exchange and its bindings.
func (b *Broker) DeleteExchange(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.exchanges, name)
	maps.DeleteFunc(b.bindings, func(route contract.Route, _ string) bool { return route.Exchange == name })
}

// Forbid takes the permission to write to an exchange from the user, or grants it again.
func (b *Broker) Forbid(exchange string, forbid bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forbidden[exchange] = forbid
}

// Dials is how many connections were opened so far.
func (b *Broker) Dials() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dials
}

func (b *Broker) declare(name string) *queue {
	if b.queues[name] == nil {
		b.queues[name] = &queue{name: name}
	}
	return b.queues[name]
}

// Delete deletes a queue with its messages, and cancels its consumers.
func (b *Broker) Delete(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[name]
	if q == nil {
		return
	}
	delete(b.queues, name)
	for _, c := range q.consumers {
		c.channel.cancelByBroker(c)
	}
}

// Refuse has a queue refuse messages, as a full one does.
func (b *Broker) Refuse(name string, refuse bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusing[name] = refuse
}

// Silence keeps the confirms of messages for a queue, as a queue without a quorum does. The queue does not get the messages.
func (b *Broker) Silence(name string, silent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silent[name] = silent
}

// Block blocks publishers, as an alarm does, or ends that.
func (b *Broker) Block(blocked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case blocked && !b.blocked:
		b.unblocked = make(chan struct{})
	case !blocked && b.blocked:
		close(b.unblocked)
	}
	b.blocked = blocked
	for c := range b.connections {
		c.notifyBlocked(blocked)
	}
}

// Cut closes all connections without a word.
func (b *Broker) Cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range maps.Clone(b.connections) {
		c.end(&amqp.Error{Code: amqp.FrameError, Reason: "connection reset by peer"})
	}
}

// Publish publishes a message; false if no queue gets the message.
func (b *Broker) Publish(exchange, routingKey string, content amqp.Publishing) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.route(exchange, routingKey)
	if q == nil {
		return false
	}
	b.enqueue(q, &message{content: content, exchange: exchange, routingKey: routingKey})
	return true
}

// Messages are the messages that wait in a queue, as they would be delivered.
func (b *Broker) Messages(name string) []amqp.Delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []amqp.Delivery
	if q := b.queues[name]; q != nil {
		for _, m := range q.ready {
			found = append(found, m.delivery())
		}
	}
	return found
}

// Unsettled is how many messages wait or are being handled, in all queues but one.
func (b *Broker) Unsettled(except string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	count := 0
	for name, q := range b.queues {
		if name != except {
			count += len(q.ready) + q.unacked
		}
	}
	return count
}

// Close closes all connections, and forgets the delays.
func (b *Broker) Close() {
	b.Cut()
	b.mu.Lock()
	defer b.mu.Unlock()
	for timer := range b.expiring {
		timer.Stop()
	}
}

func (b *Broker) route(exchange, routingKey string) *queue {
	if exchange == "" {
		return b.queues[routingKey]
	}
	return b.queues[b.bindings[contract.Route{Exchange: exchange, RoutingKey: routingKey}]]
}

func (b *Broker) enqueue(q *queue, m *message) {
	q.ready = append(q.ready, m)
	if q.expires > 0 {
		var timer *time.Timer
		timer = time.AfterFunc(q.expires, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.expiring, timer)
			if at := slices.Index(q.ready, m); at >= 0 {
				q.ready = slices.Delete(q.ready, at, at+1)
				b.deadLetter(q, m, "expired", q.others)
			}
		})
		b.expiring[timer] = true
	}
	b.deliver(q)
}

// deadLetter moves a message to where its queue sends dead letters. Without such a place, the message is gone.
func (b *Broker) deadLetter(q *queue, m *message, reason string, to *contract.Route) {
	if to == nil {
		return
	}
	next := b.route(to.Exchange, to.RoutingKey)
	if next == nil {
		return
	}
	m.recordDeath(q.name, reason)
	m.exchange, m.routingKey = to.Exchange, to.RoutingKey
	b.enqueue(next, m)
}

// recordDeath notes a death. The latest comes first, and there is one entry for each queue and reason.
func (m *message) recordDeath(queue, reason string) {
	entry := amqp.Table{
		"queue": queue, "reason": reason, "count": int64(0), "exchange": m.exchange, "routing-keys": []any{m.routingKey},
		"time": time.Now(),
	}
	for at, death := range m.deaths {
		if death["queue"] == queue && death["reason"] == reason {
			entry = maps.Clone(death)
			m.deaths = slices.Delete(m.deaths, at, at+1)
			break
		}
	}
	count, _ := entry["count"].(int64)
	entry["count"] = count + 1
	m.deaths = slices.Insert(m.deaths, 0, entry)
}

// requeue puts a message back in front. Whether that counts depends on how it came back.
func (b *Broker) requeue(q *queue, m *message, counts bool) {
	m.redelivered = true
	if counts {
		m.returns++
		if q.limit > 0 && m.returns > q.limit {
			b.deadLetter(q, m, "delivery_limit", q.others)
			return
		}
	}
	q.ready = slices.Insert(q.ready, 0, m)
}

// deliver sends what waits to consumers that have room.
func (b *Broker) deliver(q *queue) {
	for len(q.ready) > 0 {
		c := q.next()
		if c == nil {
			return
		}
		m := q.ready[0]
		q.ready = q.ready[1:]
		q.unacked++
		c.channel.send(c, m)
	}
}

// next is the consumer that gets the next message: the one with room that had to wait longest.
func (q *queue) next() *consumer {
	for at, c := range q.consumers {
		if q.singleActive && at > 0 {
			return nil
		}
		if c.channel.unackedOf(c) < c.prefetch {
			if !q.singleActive {
				q.consumers = append(slices.Delete(q.consumers, at, at+1), c)
			}
			return c
		}
	}
	return nil
}

func (m *message) delivery() amqp.Delivery {
	headers := maps.Clone(m.content.Headers)
	if headers == nil {
		headers = amqp.Table{}
	}
	if len(m.deaths) > 0 {
		entries := make([]any, len(m.deaths))
		for i, death := range m.deaths {
			entries[i] = maps.Clone(death)
		}
		headers["x-death"] = entries
		headers["x-last-death-queue"], headers["x-last-death-reason"] = m.deaths[0]["queue"], m.deaths[0]["reason"]
	}
	if m.returns > 0 {
		headers["x-delivery-count"] = int64(m.returns)
	}
	p := m.content
	return amqp.Delivery{
		Headers: headers, ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, DeliveryMode: p.DeliveryMode,
		Priority: p.Priority, CorrelationId: p.CorrelationId, ReplyTo: p.ReplyTo, Expiration: p.Expiration, MessageId: p.MessageId,
		Timestamp: p.Timestamp, Type: p.Type, UserId: p.UserId, AppId: p.AppId, Body: p.Body, Redelivered: m.redelivered,
		Exchange: m.exchange, RoutingKey: m.routingKey,
	}
}
