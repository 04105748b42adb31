package traffic

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

// Delivery is a delivery about which a consumer decides.
type Delivery struct {
	ID string
	// Attempt is 1 for a message that was never published to a tier.
	Attempt int
	// Redelivered reports whether the broker delivered the message from this queue before.
	Redelivered bool
	// Sent is when a Publisher published the message; zero for other messages.
	Sent time.Time
}

// Action is how a consumer settles a delivery.
type Action struct {
	kind actionKind
	tier Target
}

type actionKind int

const (
	ack actionKind = iota
	reject
	requeue
	hold
	retry
)

var (
	// Ack acks a processed message.
	Ack = Action{kind: ack}
	// Reject rejects a message, so that the broker dead-letters it.
	Reject = Action{kind: reject}
	// Requeue requeues a message with basic.reject.
	Requeue = Action{kind: requeue}
	// Hold leaves a message unacked until the consumer stops.
	Hold = Action{kind: hold}
)

// Retry publishes a copy, waits for its confirm, and acks the message, like an application with delay tiers. If the copy is not
// confirmed, the message is requeued.
func Retry(tier Target) Action { return Action{retry, tier} }

// keeps returns the contract of a consumer that retries through a tier without a limit.
func (c *Consumer) keeps(tier Target) contract.Contract {
	return contract.Contract{
		APIVersion: contract.APIVersion, Queue: c.queue, VirtualHost: c.vhost.Name, Strategy: contract.StrategyPublish,
		MaxAttempts: math.MaxInt32,
		Tiers:       []contract.Tier{{Delay: 1, Route: contract.Route{Exchange: tier.Exchange, RoutingKey: tier.RoutingKey}}},
	}
}

// Consumer consumes one queue on one connection and channel. It waits for a queue that does not exist.
type Consumer struct {
	client

	queue     string
	arguments amqp.Table // of basic.consume
	decide    func(Delivery) Action

	// The following are guarded by client.mu.
	consumed   map[string]int // how often
	deliveries int
	sentinels  int
}

// Consume starts a consumer, which stops when the test ends. If decide is nil, it acks all messages.
func Consume(tb brokers.TB, vhost *brokers.VHost, queue string, decide func(Delivery) Action) *Consumer {
	tb.Helper()
	if decide == nil {
		decide = func(Delivery) Action { return Ack }
	}
	return start(tb, vhost, &Consumer{queue: queue, decide: decide})
}

// ConsumeByContract starts a consumer that acks all messages, and declares that it obeys the contract in a ConfigMap (namespace/name). The
// caller stops it when the contract asks for a pause.
func ConsumeByContract(tb brokers.TB, vhost *brokers.VHost, queue, configMap string) *Consumer {
	tb.Helper()
	return start(tb, vhost, &Consumer{
		queue: queue, arguments: amqp.Table{contract.ArgConfigMap: configMap}, decide: func(Delivery) Action { return Ack },
	})
}

func start(tb brokers.TB, vhost *brokers.VHost, c *Consumer) *Consumer {
	c.client, c.consumed = client{vhost: vhost, name: "consumer-" + rand.Text()[:8]}, map[string]int{}
	c.start(tb, c.session)
	return c
}

// Stop cancels the subscription and closes the connection. Unacked messages return to the queue.
func (c *Consumer) Stop() { c.stop() }

// Consumed returns the IDs of the acked messages.
func (c *Consumer) Consumed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.consumed))
}

// Duplicates returns how often messages were processed again. A broker may deliver an acked message again if the connection was
// lost.
func (c *Consumer) Duplicates() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := 0
	for _, times := range c.consumed {
		count += times - 1
	}
	return count
}

// Deliveries returns the number of deliveries, except Warren's sentinels.
func (c *Consumer) Deliveries() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deliveries
}

// Sentinels returns the number of Warren's own messages that were delivered.
func (c *Consumer) Sentinels() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sentinels
}

const prefetch = 64

func (c *Consumer) session(channel *amqp.Channel) error {
	if err := channel.Qos(prefetch, 0, false); err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	returns := channel.NotifyReturn(make(chan amqp.Return, 1))
	deliveries, err := channel.Consume(c.queue, c.name, false, false, false, false, c.arguments)
	if err != nil {
		return err
	}
	for {
		select {
		case delivery, ok := <-deliveries:
			if !ok {
				return errors.New("the subscription was ended")
			}
			if err := c.handle(channel, delivery, returns); err != nil {
				return err
			}
		case <-c.ctx.Done():
			// Quorum queues lose acks that arrive shortly before the channel is closed, unless basic.cancel follows them.
			return channel.Cancel(c.name, false)
		}
	}
}

func (c *Consumer) handle(channel *amqp.Channel, delivery amqp.Delivery, returns <-chan amqp.Return) error {
	if delivery.Type == Sentinel {
		c.mu.Lock()
		c.sentinels++
		c.mu.Unlock()
		return delivery.Ack(false)
	}
	facts := contract.Facts{
		Exchange: delivery.Exchange, RoutingKey: delivery.RoutingKey, Redelivered: delivery.Redelivered, Headers: delivery.Headers,
	}
	attempt := c.keeps(Target{}).Progress(facts).Attempt
	action := c.decide(Delivery{
		ID: delivery.MessageId, Attempt: attempt, Redelivered: delivery.Redelivered, Sent: sentTime(delivery.Headers),
	})
	c.mu.Lock()
	c.deliveries++
	if action.kind == ack {
		c.consumed[delivery.MessageId]++
	}
	c.mu.Unlock()
	switch action.kind {
	case reject:
		return delivery.Reject(false)
	case requeue:
		return delivery.Reject(true)
	case hold:
		return nil
	case retry:
		failed := c.keeps(action.tier).Decide(facts, contract.Outcome{Result: contract.ResultFailed, Time: time.Now()})
		if c.copy(channel, delivery, failed, returns) {
			return delivery.Ack(false)
		}
		return delivery.Reject(true)
	}
	return delivery.Ack(false)
}

func sentTime(headers amqp.Table) time.Time {
	if sent, ok := headers[headerSent].(int64); ok {
		return time.UnixMilli(sent)
	}
	return time.Time{}
}

// copy publishes a message to a tier and reports whether the broker confirmed it.
func (c *Consumer) copy(channel *amqp.Channel, delivery amqp.Delivery, failed contract.Action, returns <-chan amqp.Return) bool {
	confirmation, err := channel.PublishWithDeferredConfirm(failed.Route.Exchange, failed.Route.RoutingKey, true, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, MessageId: delivery.MessageId, Body: delivery.Body, Headers: failed.Headers,
	})
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(c.ctx, deadline.For(10*time.Second))
	defer cancel()
	if confirmed, err := confirmation.WaitContext(ctx); err != nil || !confirmed {
		return false
	}
	select {
	case <-returns:
		return false
	default:
		return true
	}
}
