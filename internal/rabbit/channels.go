package rabbit

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// channelLimit is how many channels are open on a connection at most, unless the broker allows fewer: with 16 a broker creates
// quorum queues three times as fast as with one.
const channelLimit = 16

// channels runs operations on a small pool of channels, which are opened as needed and used again. An operation that the
// broker refuses costs its channel and nothing else.
type channels struct {
	errs    Errors
	timeout time.Duration // of one operation
	slots   chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	link    *link
	down    error         // why there is no link; nil before the first attempt
	changed chan struct{} // closed when link or down change
}

func newChannels(errs Errors, timeout time.Duration) *channels {
	return &channels{
		errs: errs, timeout: timeout, slots: make(chan struct{}, channelLimit), changed: make(chan struct{}),
	}
}

// set takes a new link, or the reason why there is none.
func (c *channels) set(l *link, down error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link, c.down = l, down
	close(c.changed)
	c.changed = make(chan struct{})
}

// usualFrameMax is the largest frame that a broker takes unless its configuration says otherwise.
const usualFrameMax = 131072

// frameMax is the largest frame that the broker takes; zero if it has no limit.
func (c *channels) frameMax() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		return usualFrameMax
	}
	return c.link.connection.Config.FrameSize
}

// enter returns the link, and counts an operation on it among the running ones. It waits while the first attempt to
// connect is under way, and fails at once when there is no connection.
func (c *channels) enter(ctx context.Context) (*link, error) {
	for {
		c.mu.Lock()
		l, down, changed := c.link, c.down, c.changed
		if l != nil {
			c.running.Add(1) // under the lock: whoever waits has taken the link away before
		}
		c.mu.Unlock()
		if l != nil || down != nil {
			return l, down
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, c.errs.Unreachable(ctx.Err())
		}
	}
}

// do runs an operation. When the context ends, do returns, and the operation goes on until it or its own time ends: a
// channel cannot be used again before its answer is there.
func (c *channels) do(ctx context.Context, operation func(*amqp.Channel) error) error {
	return c.doOn(ctx, func(l *link) error { return l.withChannel(operation) })
}

// doAt is do for what must not reach another cluster than this one.
func (c *channels) doAt(ctx context.Context, cluster string, operation func(*amqp.Channel) error) error {
	return c.doOn(ctx, func(l *link) error {
		if err := c.errs.SameCluster(l.at(), cluster); err != nil {
			return err
		}
		return l.withChannel(operation)
	})
}

// alone is doAt with a channel that nobody else uses, before or after: its operation leaves traces on it, such as confirm
// mode or an unacknowledged message. It returns when the operation has ended, for what it does must not be done later.
func (c *channels) alone(ctx context.Context, cluster string, operation func(*amqp.Channel) error) error {
	return c.start(ctx, context.WithoutCancel(ctx), func(l *link) error {
		if err := c.errs.SameCluster(l.at(), cluster); err != nil {
			return err
		}
		return l.alone(operation)
	})
}

func (c *channels) doOn(ctx context.Context, operation func(*link) error) error {
	return c.start(ctx, ctx, operation)
}

// start begins an operation until the first context ends, and waits for its result until the second does.
func (c *channels) start(ctx, wait context.Context, operation func(*link) error) error {
	if err := ctx.Err(); err != nil {
		return c.errs.Unreachable(err)
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return c.errs.Unreachable(ctx.Err())
	}
	l, err := c.enter(ctx)
	if err != nil {
		<-c.slots
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer c.running.Done()
		defer func() { <-c.slots }()
		done <- c.run(l, operation)
	}()
	select {
	case err := <-done:
		return err
	case <-wait.Done():
		return c.errs.Unreachable(wait.Err())
	}
}

// run gives the operation its time. When that is over, the whole connection is: a broker that leaves one
// channel without an answer is not well, and nothing less makes the library return.
func (c *channels) run(l *link, operation func(*link) error) error {
	watchdog := time.AfterFunc(c.timeout, func() {
		l.overdue.Store(true)
		l.kill()
	})
	defer watchdog.Stop()
	err := operation(l)
	own, classified := errors.AsType[*failure](err)
	switch {
	case err == nil:
		return nil
	case classified:
		return own
	case l.overdue.Load():
		return c.errs.Fail(ErrTimeout, "AMQP operation")
	}
	return c.errs.OfOperation(err)
}
