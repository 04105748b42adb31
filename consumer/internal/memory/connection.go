package memory

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/internal/transport"
)

// Dial opens a connection.
func (b *Broker) Dial(ctx context.Context, name string, blocked func(bool)) (transport.Connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dials++
	if b.dialError != nil {
		return nil, b.dialError
	}
	if b.maxConnections > 0 && len(b.connections) >= b.maxConnections {
		return nil, serverError(amqp.NotAllowed, "NOT_ALLOWED - connection limit (%d) is reached", b.maxConnections)
	}
	c := &connection{broker: b, name: name, blocked: blocked, ended: make(chan struct{})}
	b.connections[c] = true
	return c, nil
}

// connection, and everything that belongs to it, is guarded by the lock of its broker.
type connection struct {
	broker   *Broker
	name     string
	channels []*channel
	blocked  func(bool)
	// publishes is set by the first publish. Only such connections are blocked; then the broker does not read from them.
	publishes bool
	closed    bool
	reason    *amqp.Error // why it was closed
	ended     chan struct{}
}

func (c *connection) ConsumingChannel(closed chan *amqp.Error, cancelled chan string) (transport.ConsumingChannel, error) {
	return c.open(&channel{closes: closed, cancels: cancelled, returns: make(chan amqp.Return)})
}

func (c *connection) PublishingChannel(closed chan *amqp.Error, returned chan amqp.Return) (transport.PublishingChannel, error) {
	c.awaitAnswer("confirm.select", nil)
	return c.open(&channel{closes: closed, cancels: make(chan string), returns: returned})
}

func (c *connection) open(ch *channel) (*channel, error) {
	c.awaitUnblocked(nil)
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if c.closed {
		return nil, amqp.ErrClosed
	}
	ch.connection, ch.broker, ch.unacked = c, c.broker, map[uint64]delivered{}
	c.channels = append(c.channels, ch)
	return ch, nil
}

// awaitUnblocked waits until the broker reads from the connection, the connection ends, or the caller stops waiting.
func (c *connection) awaitUnblocked(givenUp <-chan struct{}) {
	c.broker.mu.Lock()
	unblocked, waits := c.broker.unblocked, c.broker.blocked && c.publishes
	c.broker.mu.Unlock()
	if waits {
		select {
		case <-unblocked:
		case <-c.ended:
		case <-givenUp:
		}
	}
}

// awaitAnswer waits until the connection ends, or the caller stops waiting, if the broker does not answer a method.
func (c *connection) awaitAnswer(method string, givenUp <-chan struct{}) {
	c.broker.mu.Lock()
	ignored := c.broker.unanswered[method]
	c.broker.mu.Unlock()
	if ignored {
		select {
		case <-c.ended:
		case <-givenUp:
		}
	}
}

func (c *connection) IsClosed() bool {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	return c.closed
}

// VirtualHost returns "", because a test may give several contracts to consumers of one broker.
func (c *connection) VirtualHost() string { return "" }

// MaxFrame returns RabbitMQ's default frame size.
func (c *connection) MaxFrame() int { return 131072 }

func (c *connection) Close(deadline time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	c.awaitUnblocked(ctx.Done())
	c.awaitAnswer("connection.close", ctx.Done())
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if c.closed {
		return amqp.ErrClosed
	}
	c.end(nil)
	return nil
}

func (c *connection) Kill() {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	c.end(nil)
}

func (c *connection) notifyBlocked(blocked bool) {
	if c.publishes || !blocked {
		c.blocked(blocked)
	}
	if !blocked {
		for _, ch := range c.channels {
			ch.confirmAll()
		}
	}
}

// end closes the connection and its channels, which requeues unsettled messages.
func (c *connection) end(reason *amqp.Error) {
	if c.closed {
		return
	}
	c.closed, c.reason = true, reason
	close(c.ended)
	delete(c.broker.connections, c)
	c.blocked(false)
	for _, ch := range c.channels {
		ch.end(reason)
	}
}
