package amqpconn

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// ChannelLimit is how many channels are open on a connection at most, unless the broker allows fewer: with 16 a broker creates
// quorum queues three times as fast as with one. While the broker is slow, fewer operations run at a time; see limit.
const ChannelLimit = 16

// Pool runs operations on a small pool of channels, which are opened as needed and used again. An operation that the
// broker refuses costs its channel and nothing else.
type Pool struct {
	errs    brokererr.Errors
	timeout time.Duration // of one operation
	places  *places
	Running sync.WaitGroup

	mu      sync.Mutex
	Link    *Conn
	down    error         // why there is no link; nil before the first attempt
	changed chan struct{} // closed when link or down change
}

// NewPool makes a pool that opens its connection with the first operation.
func NewPool(errs brokererr.Errors, timeout time.Duration) *Pool {
	return &Pool{
		errs: errs, timeout: timeout, places: &places{limit: newLimit(ChannelLimit)}, changed: make(chan struct{}),
	}
}

// Set takes a new link, or the reason why there is none.
func (c *Pool) Set(l *Conn, down error) {
	if l != nil {
		c.places.adapt(func(limit *limit) { limit.setHighest(cap(l.Room)) })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Link, c.down = l, down
	close(c.changed)
	c.changed = make(chan struct{})
}

// SetBlocked takes note of whether the broker has blocked the link: then operations run one by one, for the first may wait until the
// broker takes more, or until its own time is over and the link with it.
func (c *Pool) SetBlocked(blocked bool) {
	c.places.adapt(func(limit *limit) { limit.setBlocked(blocked, time.Now()) })
}

// IsBlocked says whether the broker takes nothing from the link at the moment.
func (c *Pool) IsBlocked() bool { return c.places.isBlocked() }

// Limit is how many operations may run at a time.
func (c *Pool) Limit() int { return c.places.now() }

// UsualFrameMax is the largest frame that a broker takes unless its configuration says otherwise.
const UsualFrameMax = 131072

// FrameMax is the largest frame that the broker takes; zero if it has no limit.
func (c *Pool) FrameMax() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Link == nil {
		return UsualFrameMax
	}
	return c.Link.Connection.Config.FrameSize
}

// acquire returns the link, and counts an operation on it among the running ones. It waits while the first attempt to
// connect is under way, and fails at once when there is no connection.
func (c *Pool) acquire(ctx context.Context) (*Conn, error) {
	for {
		c.mu.Lock()
		l, down, changed := c.Link, c.down, c.changed
		if l != nil {
			c.Running.Add(1) // under the lock: whoever waits has taken the link away before
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

// Do runs an operation. When the context ends, do returns, and the operation goes on until it or its own time ends: a
// channel cannot be used again before its answer is there.
func (c *Pool) Do(ctx context.Context, operation func(*amqp.Channel) error) error {
	return c.doOn(ctx, func(l *Conn) error { return l.WithChannel(operation) })
}

// DoOnCluster is do for what must not reach another cluster than this one.
func (c *Pool) DoOnCluster(ctx context.Context, cluster string, operation func(*amqp.Channel) error) error {
	return c.doOn(ctx, c.onCluster(cluster, func(l *Conn) error { return l.WithChannel(operation) }))
}

// DoExclusively is DoOnCluster with a channel that nobody else uses, before or after: its operation leaves traces on it, such as confirm
// mode or an unacknowledged message. It returns when the operation has ended, for what it does must not be done later.
func (c *Pool) DoExclusively(ctx context.Context, cluster string, operation func(Exclusive) error) error {
	return c.Start(ctx, context.WithoutCancel(ctx), c.onCluster(cluster, func(l *Conn) error {
		return l.WithExclusiveChannel(func(channel *amqp.Channel) error { return operation(Exclusive{channel, l.Socket}) })
	}))
}

// Exclusive is a channel that nobody else uses.
type Exclusive struct {
	*amqp.Channel

	socket *socket
}

// Together sends all that is written meanwhile in one piece, so that it reaches the broker at the same time. Nothing may wait for an
// answer in between.
func (e Exclusive) Together(write func() error) error { return e.socket.Together(write) }

// DoToTheEnd is DoExclusively with a channel of the pool, which is closed if the operation fails: then it may have left traces.
func (c *Pool) DoToTheEnd(ctx context.Context, cluster string, operation func(*amqp.Channel) error) error {
	closing := func(channel *amqp.Channel) error {
		err := operation(channel)
		if err != nil {
			_ = channel.Close() // which puts back what the channel holds
		}
		return err
	}
	return c.Start(ctx, context.WithoutCancel(ctx), c.onCluster(cluster, func(l *Conn) error { return l.WithChannel(closing) }))
}

// onCluster is an operation that fails on a link to another cluster.
func (c *Pool) onCluster(cluster string, operation func(*Conn) error) func(*Conn) error {
	return func(l *Conn) error {
		if err := c.errs.SameCluster(l.Cluster(), cluster); err != nil {
			return err
		}
		return operation(l)
	}
}

// doOn runs an operation that waits for one answer of the broker, and takes note of how long that took.
func (c *Pool) doOn(ctx context.Context, operation func(*Conn) error) error {
	return c.Start(ctx, ctx, func(l *Conn) error {
		over, ended := l.Overdue.Load(), c.places.measure()
		err := operation(l)
		missing := l.Overdue.Load() && !over // on a link that was closed before, nothing is asked
		if err == nil || missing {
			ended(missing)
		}
		return err
	})
}

// Start begins an operation until the first context ends, and waits for its result until the second does. The time of the operation
// begins when there is a place for it.
func (c *Pool) Start(ctx, wait context.Context, operation func(*Conn) error) error {
	if err := ctx.Err(); err != nil {
		return c.errs.Unreachable(err)
	}
	if err := c.places.take(ctx); err != nil {
		return c.errs.Unreachable(err)
	}
	l, err := c.acquire(ctx)
	if err != nil {
		c.places.leave()
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer c.Running.Done()
		defer c.places.leave()
		done <- c.Run(l, operation)
	}()
	select {
	case err := <-done:
		return err
	case <-wait.Done():
		return c.errs.Unreachable(wait.Err())
	}
}

// Run gives the operation its time. When that is over, the whole connection is: a broker that leaves one
// channel without an answer is not well, and nothing less makes the library return.
func (c *Pool) Run(l *Conn, operation func(*Conn) error) error {
	watchdog := time.AfterFunc(c.timeout, func() {
		l.Overdue.Store(true)
		l.CloseSocket()
	})
	defer watchdog.Stop()
	err := operation(l)
	own, classified := errors.AsType[*brokererr.Failure](err)
	switch {
	case err == nil:
		return nil
	case classified:
		return own
	case l.Overdue.Load():
		return c.errs.Fail(brokererr.ErrTimeout, "AMQP operation")
	}
	return c.errs.OfOperation(err)
}
