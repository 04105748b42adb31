package traffic

import (
	"context"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/test/brokers"
)

// Sentinel is the type property of Warren's own messages. They are counted, but belong to no publisher.
const Sentinel = "warren.sentinel"

// reconnectPause is the delay before the next connect or subscribe.
const reconnectPause = 50 * time.Millisecond

// client reconnects each time its connection is lost, until it is stopped.
type client struct {
	vhost *brokers.VHost
	name  string

	ctx     context.Context // ends when the client is stopped
	end     context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	sessions int
	trouble  error // last error
}

// start runs sessions until one ends without an error or the client is stopped.
func (c *client) start(tb brokers.TB, session func(*amqp.Channel) error) {
	c.ctx, c.end = context.WithCancel(context.Background()) // the test's context ends before its cleanups
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

// Name returns the client-provided name of the connection.
func (c *client) Name() string { return c.name }

// Sessions returns how many times a connection was opened.
func (c *client) Sessions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions
}

// pause waits, or returns early if ctx ends.
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
