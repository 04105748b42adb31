// Package transport is what the consumer library needs of a connection to a broker: to RabbitMQ by amqp091-go, or to the broker in
// memory of consumertest.
package transport

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Transport opens connections.
type Transport interface {
	// Dial connects. The broker shows the name. Dial's connection calls blocked when the broker blocks publishers, and when it unblocks
	// them or the connection ends. The call comes from the goroutine that reads, so it must return at once.
	Dial(ctx context.Context, name string, blocked func(bool)) (Connection, error)
}

// Connection is a connection that does not reconnect.
type Connection interface {
	// Channel opens a channel.
	Channel() (Channel, error)
	// IsClosed says whether the connection is closed.
	IsClosed() bool
	// MaxFrame is the size of a frame, in bytes.
	MaxFrame() int
	// Close closes the connection in good order, or without by the deadline.
	Close(deadline time.Time) error
	// Kill closes the connection without a word. Whoever waits for an answer gets an error.
	Kill()
}

// Channel is a channel that does not reconnect. Methods and their errors are those of amqp091-go.
type Channel interface {
	Qos(prefetchCount, prefetchSize int, global bool) error
	Consume(queue, consumer string, autoAck, exclusive, noLocal, noWait bool, args amqp.Table) (<-chan amqp.Delivery, error)
	Cancel(consumer string, noWait bool) error
	Ack(tag uint64, multiple bool) error
	Nack(tag uint64, multiple, requeue bool) error
	Reject(tag uint64, requeue bool) error
	Confirm(noWait bool) error
	// Publish sends a message in confirm mode.
	Publish(exchange, key string, mandatory bool, message amqp.Publishing) (Confirmation, error)
	NotifyClose(receiver chan *amqp.Error) chan *amqp.Error
	NotifyCancel(receiver chan string) chan string
	NotifyReturn(receiver chan amqp.Return) chan amqp.Return
	IsClosed() bool
	Close() error
}

// Confirmation is the broker's answer to a message. A return of the message comes before.
type Confirmation interface {
	// Done is closed when the answer has come, or cannot come any more because the channel is closed.
	Done() <-chan struct{}
	// Acked says whether the broker took the message.
	Acked() bool
}
