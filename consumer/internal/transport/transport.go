// Package transport is the interface between the consumer library and a broker. AMQP implements it for RabbitMQ, and package
// memory for consumertest.
package transport

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Transport opens connections.
type Transport interface {
	// Dial connects under a name, which the broker shows. It calls blocked with true when the broker blocks publishers, and with
	// false when the broker unblocks them or the connection ends. blocked is called by the reading goroutine, so it must not
	// block.
	Dial(ctx context.Context, name string, blocked func(bool)) (Connection, error)
}

// Connection is a connection that does not reconnect.
type Connection interface {
	// ConsumingChannel opens a channel that receives and settles deliveries. closed receives why the broker or the library closed the
	// channel, and cancelled the tag of a consumer that the broker cancelled. The end of the channel closes both. The reading goroutine
	// sends to them, so they must have room.
	ConsumingChannel(closed chan *amqp.Error, cancelled chan string) (ConsumingChannel, error)
	// PublishingChannel opens a channel in confirm mode. closed and returned are as for ConsumingChannel. returned receives
	// the messages that the broker returns.
	PublishingChannel(closed chan *amqp.Error, returned chan amqp.Return) (PublishingChannel, error)
	// IsClosed reports whether the connection is closed.
	IsClosed() bool
	// VirtualHost returns the name of the virtual host; "" if the broker has none.
	VirtualHost() string
	// MaxFrame returns the maximum size of a frame in bytes; 0 if unlimited.
	MaxFrame() int
	// Close closes the connection with AMQP's closing handshake, or without it after the deadline.
	Close(deadline time.Time) error
	// Kill closes the connection without a handshake. Pending requests return an error.
	Kill()
}

// ConsumingChannel is a channel that does not reconnect. Its methods and their errors are those of amqp091-go.
type ConsumingChannel interface {
	Qos(prefetchCount, prefetchSize int, global bool) error
	Consume(queue, consumer string, autoAck, exclusive, noLocal, noWait bool, args amqp.Table) (<-chan amqp.Delivery, error)
	Cancel(consumer string, noWait bool) error
	Ack(tag uint64, multiple bool) error
	Nack(tag uint64, multiple, requeue bool) error
	Reject(tag uint64, requeue bool) error
	Close() error
}

// PublishingChannel is a channel that does not reconnect. Its errors are those of amqp091-go.
type PublishingChannel interface {
	// Publish publishes a message, and does not wait for the confirm.
	Publish(exchange, key string, mandatory bool, message amqp.Publishing) (Confirmation, error)
	IsClosed() bool
	Close() error
}

// Confirmation is the broker's answer to a message. If the broker returns the message, the return arrives before the
// confirmation.
type Confirmation interface {
	// Done is closed when the broker has answered, or the channel is closed.
	Done() <-chan struct{}
	// Acked reports whether the broker accepted the message. It blocks until Done is closed.
	Acked() bool
}
