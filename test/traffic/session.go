package traffic

import (
	"context"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/test/brokers"
)

// Sentinel is the type property of messages that are Warren's own: they are counted, and are otherwise nobody's.
const Sentinel = "warren.sentinel"

// reconnectPause is how long to wait before connecting or subscribing again.
const reconnectPause = 50 * time.Millisecond

// client keeps a connection, and makes it anew each time it is lost, until it is stopped.
type client struct {
	vhost *brokers.VHost
	name  string

	ctx     context.Context // its life
	end     context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	sessions int
	trouble  error // the last
}

// start runs sessions until one ends without an error or the client is stopped.
func (c *client) start(tb brokers.TB, session func(*amqp.Channel) error) {
	c.ctx, c.end = context.WithCancel(context.Background()) // not the test's: that ends before its cleanups
	tb.Cleanup(c.stop)
	c.running.Go(func() {
		for c.ctx.Err() == nil {
			err := c.once(session)
			if err == nil {
				return
			}
			c.mu.Lock()
			c.trouble = err
			c.mu.Unlock()
			pause(c.ctx, reconnectPause)
		}
	})
}

func (c *client) once(session func(*amqp.Channel) error) error {
	connection, err := c.vhost.Connect(c.name)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.sessions++
	c.mu.Unlock()
	return session(channel)
}

func (c *client) stop() {
	c.end()
	c.running.Wait()
}

// Name is what the connection calls itself at the broker.
func (c *client) Name() string { return c.name }

// Sessions is how many times a connection was made.
func (c *client) Sessions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions
}

// pause waits, for less if the context ends.
func pause(ctx context.Context, duration time.Duration) {
	if duration <= 0 {
		return
	}
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
