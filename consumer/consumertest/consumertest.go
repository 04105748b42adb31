// Package consumertest helps to test handlers. Handle calls a handler with one message and returns what the consumer would do
// next:
//
//	m := consumertest.Message(contract.Default("orders"), Order{Amount: 7}, consumertest.Attempt(4))
//	if action := consumertest.Handle(t.Context(), ship, m); !action.GivenUp { … }
//
// New runs a consumer on an in-memory broker, which behaves like RabbitMQ with the topology of a contract. Inside synctest.Test,
// delays of hours pass immediately:
//
//	synctest.Test(t, func(t *testing.T) {
//		b := consumertest.New(t, contract.Default("orders"), ship)
//		b.Publish(consumer.Publishing{Body: []byte(`{"amount": 7}`)})
//		b.Wait(2 * time.Hour)
//		if dead := b.DeadLetters(); len(dead) != 1 { … }
//	})
package consumertest

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/hooks"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

// Broker is an in-memory broker with the topology of a contract, and a consumer of its main queue.
type Broker struct {
	tb       testing.TB
	broker   *memory.Broker
	contract contract.Contract
	consumer *consumer.Consumer
	bubble   bool
	cancel   context.CancelFunc
	ended    chan error
}

// New starts a consumer with a handler. It stops when the test ends or Stop is called. If the contract or an option is not valid,
// New fails the test. Outside synctest.Test, delays take their real time, so use a contract with short ones. There, the end of the test
// waits for running handlers, whose contexts end, for at most the drain timeout.
func New[T any](tb testing.TB, c contract.Contract, handle consumer.Handler[T], options ...consumer.Option) *Broker {
	tb.Helper()
	return run(tb, c, func(conn *consumer.Conn) (*consumer.Consumer, error) {
		return consumer.New(conn, c, handle, options...)
	})
}

// NewBatch is New for a handler of batches; see consumer.NewBatch.
func NewBatch[T any](
	tb testing.TB, c contract.Contract, size int, wait time.Duration, handle consumer.BatchHandler[T], options ...consumer.Option,
) *Broker {
	tb.Helper()
	return run(tb, c, func(conn *consumer.Conn) (*consumer.Consumer, error) {
		return consumer.NewBatch(conn, c, size, wait, handle, options...)
	})
}

func run(tb testing.TB, c contract.Contract, create func(*consumer.Conn) (*consumer.Consumer, error)) *Broker {
	tb.Helper()
	broker := memory.New(c)
	b := &Broker{tb: tb, broker: broker, contract: c, bubble: inBubble(), ended: make(chan error, 1)}
	made, err := create(connTo(broker))
	if err != nil {
		tb.Fatal(err)
	}
	b.consumer = made
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	go func() { b.ended <- made.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		broker.Close()
		if b.bubble {
			synctest.Wait()
			return
		}
		_ = b.Stop() // a handler may use the test
	})
	return b
}

// inBubble reports whether the test runs inside synctest.Test.
func inBubble() (inside bool) {
	defer func() { _ = recover() }() // synctest.Wait panics outside of synctest.Test
	synctest.Wait()
	return true
}

// Publish publishes a message to the main queue.
func (b *Broker) Publish(m consumer.Publishing) {
	b.tb.Helper()
	b.PublishTo("", b.contract.Queue, m)
}

// PublishTo binds the main queue to an exchange and publishes a message there. It fails the test if the exchange is "" and no
// queue has the name of the routing key.
func (b *Broker) PublishTo(exchange, routingKey string, m consumer.Publishing) {
	b.tb.Helper()
	b.broker.Bind(exchange, routingKey, b.contract.Queue)
	if !b.broker.Publish(exchange, routingKey, m) {
		b.tb.Fatalf("no queue for exchange %q and routing key %q", exchange, routingKey)
	}
}

// Bind declares an exchange and a queue and binds them, for messages that a handler publishes. In the routing key, * and # work as in a
// topic exchange. A queue can have several bindings, and several queues can have the same one.
func (b *Broker) Bind(exchange, routingKey, queue string) { b.broker.Bind(exchange, routingKey, queue) }

// Published is a message that a handler published.
type Published struct {
	Exchange, RoutingKey string
	consumer.Publishing
}

// Published returns the messages that were published with a Conn of this broker and that all their queues accepted, in order.
func (b *Broker) Published() (published []Published) {
	for _, p := range b.broker.Published(" publishes") {
		published = append(published, Published{p.Exchange, p.RoutingKey, p.Publishing})
	}
	return published
}

// Refuse makes a queue refuse messages, as a full queue does, or accept them again. It fails the test if there is no such queue.
func (b *Broker) Refuse(queue string, refuse bool) {
	b.tb.Helper()
	b.mustExist(queue)
	b.broker.Refuse(queue, refuse)
}

// mustExist fails the test if a queue does not exist. A queue with another name would be empty, whatever the consumer does.
func (b *Broker) mustExist(queue string) {
	b.tb.Helper()
	if queues := b.broker.Queues(); !slices.Contains(queues, queue) {
		b.tb.Fatalf("no queue %q; the queues are %q", queue, queues)
	}
}

// Forbid revokes the permission to write to an exchange, or grants it again. The default exchange is "".
func (b *Broker) Forbid(exchange string, forbid bool) { b.broker.Forbid(exchange, forbid) }

// Block blocks publishers, as a memory alarm does, or unblocks them.
func (b *Broker) Block(block bool) { b.broker.Block(block) }

// Conn returns a connection to the broker for a handler that publishes. It is closed when the test ends.
func (b *Broker) Conn(options ...consumer.ConnOption) *consumer.Conn {
	conn := connTo(b.broker, options...)
	b.tb.Cleanup(conn.Close)
	return conn
}

func connTo(broker *memory.Broker, options ...consumer.ConnOption) *consumer.Conn {
	transport, _ := hooks.WithTransport(broker).(consumer.ConnOption)
	return consumer.NewConn(nil, append(options, transport)...)
}

// Consumer returns the consumer that New started.
func (b *Broker) Consumer() *consumer.Consumer { return b.consumer }

// Wait lets d pass. Outside synctest.Test it returns earlier if no message waits or is unsettled in the main queue and the delay tiers.
func (b *Broker) Wait(d time.Duration) {
	if b.bubble {
		time.Sleep(d)
		synctest.Wait()
		return
	}
	const interval = time.Millisecond
	for end := time.Now().Add(d); time.Now().Before(end) && b.broker.InProgress(b.contract) > 0; {
		time.Sleep(interval)
	}
}

// Messages returns the messages that wait in a queue, in order of delivery. It fails the test if there is no such queue.
func (b *Broker) Messages(queue string) []amqp.Delivery {
	b.tb.Helper()
	b.mustExist(queue)
	return b.broker.Messages(queue)
}

// DeadLetters returns the messages in the dead-letter queue, the oldest first.
func (b *Broker) DeadLetters() []amqp.Delivery { return b.broker.Messages(b.contract.DeadLetterQueue) }

// Cut closes all connections without AMQP's closing handshake, like a network failure.
func (b *Broker) Cut() { b.broker.Cut() }

// Stop stops the consumer and returns the result of its Run. It may be called several times.
func (b *Broker) Stop() error {
	b.cancel()
	err := <-b.ended
	b.ended <- err
	return err
}
