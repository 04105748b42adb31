// Package memory is an in-memory broker with the topology of one contract. It behaves like the quorum queues of RabbitMQ 4.3 to
// consumers; test/consumer compares it with real brokers. It uses the clock of the process, so in a bubble of testing/synctest
// delays of hours pass immediately.
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

// Broker is an in-memory broker. Create it with New.
type Broker struct {
	mu             sync.Mutex
	queues         map[string]*queue
	bindings       []binding
	connections    map[*connection]bool
	blocked        bool
	unblocked      chan struct{} // closed when the broker unblocks publishers
	dials          int
	refusing       map[string]bool         // queues that refuse messages
	maxConnections int                     // zero is no limit
	dialError      error                   // nil is none
	keepRefusing   bool                    // whether a channel keeps refusing messages for a queue that has refused one
	exchanges      map[string]bool         // existing exchanges by name
	forbidden      map[string]bool         // exchanges to which the user may not write
	topics         map[contract.Route]bool // routing keys with which the user may not publish to an exchange
	silent         map[string]bool         // queues whose messages are not confirmed
	unanswered     map[string]bool         // methods that the broker does not answer, see Ignore
	broken         map[string]bool         // queues whose consumers lose their connection
	limit          *sizeLimit              // of messages; nil is none
	published      []publication
	expiring       map[*time.Timer]bool
}

type publication struct {
	Published

	connection string // name of the connection
}

// Published is a message that a client published and that all its queues accepted.
type Published struct {
	Exchange, RoutingKey string
	amqp.Publishing
}

// Published returns the messages from connections whose name has this suffix, in order.
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

// New returns a broker with the topology of a contract.
func New(c contract.Contract) *Broker {
	b := &Broker{
		queues: map[string]*queue{}, connections: map[*connection]bool{},
		refusing: map[string]bool{}, expiring: map[*time.Timer]bool{}, exchanges: map[string]bool{"": true}, forbidden: map[string]bool{},
		silent: map[string]bool{}, topics: map[contract.Route]bool{}, unanswered: map[string]bool{}, broken: map[string]bool{},
	}
	b.Declare(c)
	return b
}

// Declare declares the missing objects of a contract's topology.
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
		limit := c.MaxAttempts - 1
		main.limit = &limit
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

// TierQueue returns the name of a tier's queue.
func TierQueue(c contract.Contract, tier contract.Tier) string {
	if tier.Exchange == "" {
		return tier.RoutingKey
	}
	return c.Queue + ".retry." + tier.Delay.String()
}

// Forbid revokes the permission to write to an exchange, or grants it again.
func (b *Broker) Forbid(exchange string, forbid bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forbidden[exchange] = forbid
}

// ForbidTopic revokes the permission to publish to an exchange with a routing key.
func (b *Broker) ForbidTopic(exchange, routingKey string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.topics[contract.Route{Exchange: exchange, RoutingKey: routingKey}] = true
}

// Connections returns the number of open connections.
func (b *Broker) Connections() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.connections)
}

// Channels returns how many channels are open.
func (b *Broker) Channels() (count int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.connections {
		for _, ch := range c.channels {
			if !ch.closed {
				count++
			}
		}
	}
	return count
}

// Dials returns how many connections were opened.
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

// Refuse makes a queue refuse messages, as a full queue does, or accept them again.
func (b *Broker) Refuse(name string, refuse bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusing[name] = refuse
}

// KeepRefusing makes a channel refuse all messages for a queue that has refused one of its messages, as RabbitMQ 3.10 does.
func (b *Broker) KeepRefusing() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keepRefusing = true
}

// Silence stops confirms for messages to a queue, like a queue without a quorum. The queue does not get the messages.
func (b *Broker) Silence(name string, silent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silent[name] = silent
}

// Ignore makes the broker answer no request of a method, "basic.consume", "basic.cancel", "channel.close", "confirm.select" or
// "connection.close", or answer them again. "basic.consume orders" and "basic.cancel orders" are the requests about one queue. A request
// that was not answered fails when its connection ends.
func (b *Broker) Ignore(method string, ignore bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unanswered[method] = ignore
}

// LimitConnections makes the broker refuse more connections; zero is no limit.
func (b *Broker) LimitConnections(limit int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.maxConnections = limit
}

// FailDials makes each connect fail with an error, or succeed again.
func (b *Broker) FailDials(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dialError = err
}

// Break makes a basic.consume of a queue close the connection with an internal error, as RabbitMQ does for a queue without a quorum.
func (b *Broker) Break(queue string, broken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken[queue] = broken
}

// Block blocks publishers, as an alarm does, or unblocks them.
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

// Cut closes all connections without AMQP's closing handshake.
func (b *Broker) Cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range maps.Clone(b.connections) {
		c.end(&amqp.Error{Code: amqp.FrameError, Reason: "connection reset by peer"})
	}
}

// CutConsumers closes the connections of the consumers of a queue as Cut does.
func (b *Broker) CutConsumers(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q := b.queues[queue]; q != nil {
		for _, c := range slices.Clone(q.consumers) {
			c.channel.connection.end(&amqp.Error{Code: amqp.FrameError, Reason: "connection reset by peer"})
		}
	}
}

// Publish publishes a message. It returns false if no queue receives it.
func (b *Broker) Publish(exchange, routingKey string, content amqp.Publishing) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	queues := b.route(exchange, routingKey)
	for _, q := range queues {
		b.enqueue(q, &message{content: content, exchange: exchange, routingKey: routingKey})
	}
	return len(queues) > 0
}

// Messages returns the messages that wait in a queue, in order of delivery.
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

// Queues returns the names of the queues, sorted.
func (b *Broker) Queues() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.queues))
}

// Unsettled returns how many messages wait or are unsettled in all queues except one.
func (b *Broker) Unsettled(except string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	count := 0
	for name, q := range b.queues {
		if name != except {
			count += q.held()
		}
	}
	return count
}

// InProgress returns how many messages wait or are unsettled in the main queue and the delay tiers of a contract.
func (b *Broker) InProgress(c contract.Contract) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	count := b.queues[c.Queue].held()
	for _, tier := range c.Tiers {
		count += b.queues[TierQueue(c, tier)].held()
	}
	return count
}

// Close closes all connections and stops the timers of delayed messages.
func (b *Broker) Close() {
	b.Cut()
	b.mu.Lock()
	defer b.mu.Unlock()
	for timer := range b.expiring {
		timer.Stop()
	}
}
