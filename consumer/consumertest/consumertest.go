// Package consumertest tests handlers. Handle calls a handler with one message, and returns what the consumer would do then:
//
//	m := consumertest.Message(contract.Default("orders"), Order{Amount: 7}, consumertest.Attempt(4))
//	if action := consumertest.Handle(t.Context(), ship, m); !action.GivenUp { … }
//
// New runs a consumer at a broker in memory, which does what RabbitMQ does with the topology of a contract. Inside of synctest.Test, delays
// of hours pass at once:
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
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/hooks"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

// Broker is a broker in memory with the topology of a contract, and a consumer of its main queue.
type Broker struct {
	tb       testing.TB
	broker   *memory.Broker
	contract contract.Contract
	consumer *consumer.Consumer
	bubble   bool
	cancel   context.CancelFunc
	ended    chan error
}

// New starts a consumer with a handler, until the test ends or Stop is called. Outside of synctest.Test, delays take their time: give the
// contract short ones.
func New[T any](tb testing.TB, c contract.Contract, handle consumer.Handler[T], options ...consumer.Option) *Broker {
	tb.Helper()
	broker := memory.New(c)
	b := &Broker{tb: tb, broker: broker, contract: c, bubble: inBubble(), ended: make(chan error, 1)}
	made, err := consumer.New(connTo(broker), c, handle, options...)
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
		}
	})
	return b
}

// inBubble reports whether the test runs inside of synctest.Test.
func inBubble() (inside bool) {
	defer func() { _ = recover() }() // synctest.Wait panics outside
	synctest.Wait()
	return true
}

// Publish publishes a message to the main queue.
func (b *Broker) Publish(m consumer.Publishing) {
	b.tb.Helper()
	b.PublishTo("", b.contract.Queue, m)
}

// PublishTo publishes a message as another exchange and routing key would, with the main queue bound to it.
func (b *Broker) PublishTo(exchange, routingKey string, m consumer.Publishing) {
	b.tb.Helper()
	b.broker.Bind(exchange, routingKey, b.contract.Queue)
	if !b.broker.Publish(exchange, routingKey, m) {
		b.tb.Fatalf("no queue for exchange %q and routing key %q", exchange, routingKey)
	}
}

// Bind declares an exchange and a queue and binds them, for what a handler publishes.
func (b *Broker) Bind(exchange, routingKey, queue string) { b.broker.Bind(exchange, routingKey, queue) }

// Published is a message that a handler published.
type Published struct {
	Exchange, RoutingKey string
	consumer.Publishing
}

// Published are the messages that were published over a Conn and routed to a queue, in order.
func (b *Broker) Published() (published []Published) {
	for _, p := range b.broker.Published(" publishes") {
		published = append(published, Published{p.Exchange, p.RoutingKey, p.Publishing})
	}
	return published
}

// Refuse makes a queue refuse messages, as a full queue does, or ends that.
func (b *Broker) Refuse(queue string, refuse bool) { b.broker.Refuse(queue, refuse) }

// Forbid takes the permission to write to an exchange, or grants it again. The default exchange is "".
func (b *Broker) Forbid(exchange string, forbid bool) { b.broker.Forbid(exchange, forbid) }

// Block blocks publishers, as a memory alarm does, or ends that.
func (b *Broker) Block(block bool) { b.broker.Block(block) }

// Conn connects to the broker, for a handler that publishes.
func (b *Broker) Conn(options ...consumer.ConnOption) *consumer.Conn {
	conn := connTo(b.broker, options...)
	b.tb.Cleanup(conn.Close)
	return conn
}

func connTo(broker *memory.Broker, options ...consumer.ConnOption) *consumer.Conn {
	transport, _ := hooks.WithTransport(broker).(consumer.ConnOption)
	return consumer.NewConn(nil, append(options, transport)...)
}

// Consumer is the consumer.
func (b *Broker) Consumer() *consumer.Consumer { return b.consumer }

// Wait lets time pass. Outside of synctest.Test it returns as soon as all messages are settled or dead letters.
func (b *Broker) Wait(d time.Duration) {
	if b.bubble {
		time.Sleep(d)
		synctest.Wait()
		return
	}
	const interval = time.Millisecond
	for end := time.Now().Add(d); time.Now().Before(end) && b.broker.Unsettled(b.contract.DeadLetterQueue) > 0; {
		time.Sleep(interval)
	}
}

// Messages are the messages that wait in a queue, the next one first.
func (b *Broker) Messages(queue string) []amqp.Delivery { return b.broker.Messages(queue) }

// DeadLetters are the messages in the dead-letter queue.
func (b *Broker) DeadLetters() []amqp.Delivery { return b.broker.Messages(b.contract.DeadLetterQueue) }

// Cut closes all connections without a word.
func (b *Broker) Cut() { b.broker.Cut() }

// Stop ends the consumer, and returns what Run returned.
func (b *Broker) Stop() error {
	b.cancel()
	err := <-b.ended
	b.ended <- err
	return err
}
