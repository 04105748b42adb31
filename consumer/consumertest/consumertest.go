// Package consumertest runs a handler at a broker in memory, which does what RabbitMQ does with the topology of a contract. Inside
// of synctest.Test, delays of hours pass at once:
//
//	synctest.Test(t, func(t *testing.T) {
//		b := consumertest.New(t, contract.Default("orders"), handle)
//		b.Publish(consumer.Publishing{Body: []byte(`{"id": 7}`)})
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
	"github.com/warren-mq/warren/consumer/internal/memory"
)

// Broker is a broker in memory with the topology of a contract, and a consumer of its main queue.
type Broker struct {
	tb       testing.TB
	broker   *memory.Broker
	kept     contract.Contract
	consumer *consumer.Consumer
	conn     *consumer.Conn
	cancel   context.CancelFunc
	ended    chan error
}

// New starts a consumer with a handler, until the test ends or Stop is called. Call it inside of synctest.Test.
func New[T any](tb testing.TB, kept contract.Contract, handle consumer.Handler[T], options ...consumer.Option) *Broker {
	tb.Helper()
	broker := memory.New(kept)
	conn := consumer.NewConn(nil, consumer.WithTransport(broker))
	b := &Broker{tb: tb, broker: broker, kept: kept, conn: conn, ended: make(chan error, 1)}
	made, err := consumer.New(b.conn, kept, handle, options...)
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
		synctest.Wait()
	})
	return b
}

// Publish publishes a message to the main queue.
func (b *Broker) Publish(m consumer.Publishing) {
	b.tb.Helper()
	b.PublishTo("", b.kept.Queue, m)
}

// PublishTo publishes a message as another exchange and routing key would, with the main queue bound to it.
func (b *Broker) PublishTo(exchange, routingKey string, m consumer.Publishing) {
	b.tb.Helper()
	b.broker.Bind(exchange, routingKey, b.kept.Queue)
	if !b.broker.Publish(exchange, routingKey, m) {
		b.tb.Fatalf("no queue for exchange %q and routing key %q", exchange, routingKey)
	}
}

// Conn is a connection to the broker, for a handler that publishes.
func (b *Broker) Conn() *consumer.Conn { return b.conn }

// Consumer is the consumer.
func (b *Broker) Consumer() *consumer.Consumer { return b.consumer }

// Wait lets time pass.
func (b *Broker) Wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Messages are the messages that wait in a queue, the next one first.
func (b *Broker) Messages(queue string) []amqp.Delivery { return b.broker.Messages(queue) }

// DeadLetters are the messages in the dead-letter queue.
func (b *Broker) DeadLetters() []amqp.Delivery { return b.broker.Messages(b.kept.DeadLetterQueue) }

// Cut closes all connections without a word.
func (b *Broker) Cut() { b.broker.Cut() }

// Stop ends the consumer, and returns what Run returned.
func (b *Broker) Stop() error {
	b.cancel()
	err := <-b.ended
	b.ended <- err
	return err
}
