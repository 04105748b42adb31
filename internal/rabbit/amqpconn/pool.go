package amqpconn

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// ChannelLimit is the maximum number of open channels of a connection, unless the broker allows fewer. With 16 channels, a broker creates
// quorum queues three times as fast as with one. While the broker is slow, fewer operations run at a time; see limit.
const ChannelLimit = 16

// Pool runs operations on the channels of a connection. It opens channels as needed and reuses them. If the broker refuses an operation,
// only the channel of that operation ends. Errors wrap a reason of package brokererr.
type Pool struct {
	errs    brokererr.Errors
	timeout time.Duration // of one operation
	slots   *slots
	Running sync.WaitGroup

	mu      sync.Mutex
	Link    *Conn
	down    error         // why there is no connection; nil before the first attempt
	changed chan struct{} // closed when Link or down change
}

// NewPool returns a pool without a connection; see Set. timeout is how long one operation may take.
func NewPool(errs brokererr.Errors, timeout time.Duration) *Pool {
	return &Pool{
		errs: errs, timeout: timeout, slots: &slots{limit: newLimit(ChannelLimit)}, changed: make(chan struct{}),
	}
}

// Set sets a new connection, or the reason why there is none.
func (p *Pool) Set(l *Conn, down error) {
	if l != nil {
		p.slots.adapt(func(limit *limit) { limit.setHighest(cap(l.ChannelSlots)) })
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Link, p.down = l, down
	close(p.changed)
	p.changed = make(chan struct{})
}

// SetBlocked records whether the broker has blocked the connection. While the connection is blocked, operations run one by one. The first
// operation may wait until the broker unblocks the connection, or until its timeout ends the connection.
func (p *Pool) SetBlocked(blocked bool) {
	p.slots.adapt(func(limit *limit) { limit.setBlocked(blocked, time.Now()) })
}

// IsBlocked reports whether the broker has blocked the connection.
func (p *Pool) IsBlocked() bool { return p.slots.isBlocked() }

// Limit returns how many operations may run at a time.
func (p *Pool) Limit() int { return p.slots.now() }

// UsualFrameMax is the largest frame that a broker accepts by default, in bytes.
const UsualFrameMax = 131072

// FrameMax returns the largest frame that the broker accepts, in bytes; zero if it has no limit.
func (p *Pool) FrameMax() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Link == nil {
		return UsualFrameMax
	}
	return p.Link.Connection.Config.FrameSize
}

// acquire returns the connection, and adds an operation to Running. It waits for the result of the first attempt to connect. After that,
// it fails immediately if there is no connection.
func (p *Pool) acquire(ctx context.Context) (*Conn, error) {
	for {
		p.mu.Lock()
		l, down, changed := p.Link, p.down, p.changed
		if l != nil {
			p.Running.Add(1) // under the lock: a caller of Running.Wait has removed Link before
		}
		p.mu.Unlock()
		if l != nil || down != nil {
			return l, down
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, p.errs.Unreachable(ctx.Err())
		}
	}
}

// Do runs an operation. When the context ends, Do returns, and the operation continues until it ends or times out, because its channel
// cannot be used again before the broker has answered.
func (p *Pool) Do(ctx context.Context, operation func(*amqp.Channel) error) error {
	return p.doOn(ctx, func(l *Conn) error { return l.WithChannel(operation) })
}

// DoOnCluster is Do for an operation that must reach only the given cluster. It returns ErrOtherCluster if the connection leads to another
// cluster.
func (p *Pool) DoOnCluster(ctx context.Context, cluster string, operation func(*amqp.Channel) error) error {
	return p.doOn(ctx, p.onCluster(cluster, func(l *Conn) error { return l.WithChannel(operation) }))
}

// DoExclusively is DoOnCluster on a channel that no other operation uses before or after. It is for operations that change the state of the
// channel, for example by confirm mode or an unacknowledged message. It returns only after the operation has ended, even if the context
// ends first, so that the operation does not outlive the call.
func (p *Pool) DoExclusively(ctx context.Context, cluster string, operation func(Exclusive) error) error {
	return p.Start(ctx, context.WithoutCancel(ctx), p.onCluster(cluster, func(l *Conn) error {
		return l.WithExclusiveChannel(func(channel *amqp.Channel) error { return operation(Exclusive{channel, l.Socket}) })
	}))
}

// Exclusive is a channel that no other operation uses.
type Exclusive struct {
	*amqp.Channel

	socket *socket
}

// Together buffers all bytes that write sends on the connection, and sends them in one piece when write returns. write must not
// wait for an answer of the broker.
func (e Exclusive) Together(write func() error) error { return e.socket.Together(write) }

// DoToTheEnd is DoExclusively on a channel of the pool. It closes the channel if the operation fails, because its state may have changed.
func (p *Pool) DoToTheEnd(ctx context.Context, cluster string, operation func(*amqp.Channel) error) error {
	closing := func(channel *amqp.Channel) error {
		err := operation(channel)
		if err != nil {
			_ = channel.Close() // the broker requeues the unacknowledged messages of the channel
		}
		return err
	}
	return p.Start(ctx, context.WithoutCancel(ctx), p.onCluster(cluster, func(l *Conn) error { return l.WithChannel(closing) }))
}

// onCluster returns an operation that fails on a connection to another cluster.
func (p *Pool) onCluster(cluster string, operation func(*Conn) error) func(*Conn) error {
	return func(l *Conn) error {
		if err := p.errs.SameCluster(l.Cluster(), cluster); err != nil {
			return err
		}
		return operation(l)
	}
}

// doOn runs an operation that waits for one answer of the broker, and adapts the limit to how long that took.
func (p *Pool) doOn(ctx context.Context, operation func(*Conn) error) error {
	return p.Start(ctx, ctx, func(l *Conn) error {
		over, ended := l.Overdue.Load(), p.slots.measure()
		err := operation(l)
		missing := l.Overdue.Load() && !over // on a connection that was closed before, the operation sent nothing
		if err == nil || missing {
			ended(missing)
		}
		return err
	})
}

// Start starts an operation, unless ctx ends before there is a slot and a connection for it. It waits for the result until the
// context wait ends. The timeout of the operation begins when it has its slot and its connection.
func (p *Pool) Start(ctx, wait context.Context, operation func(*Conn) error) error {
	if err := ctx.Err(); err != nil {
		return p.errs.Unreachable(err)
	}
	if err := p.slots.take(ctx); err != nil {
		return p.errs.Unreachable(err)
	}
	l, err := p.acquire(ctx)
	if err != nil {
		p.slots.leave()
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer p.Running.Done()
		defer p.slots.leave()
		done <- p.Run(l, operation)
	}()
	select {
	case err := <-done:
		return err
	case <-wait.Done():
		return p.errs.Unreachable(wait.Err())
	}
}

// Run runs the operation on the connection. At the timeout it closes the whole connection: a broker that does not answer on one channel
// is unhealthy, and only this makes the library return.
func (p *Pool) Run(l *Conn, operation func(*Conn) error) error {
	watchdog := time.AfterFunc(p.timeout, l.Cut)
	defer watchdog.Stop()
	return l.Classify(p.errs, operation(l))
}

// DeclaredQueue declares a queue passively on the cluster with this key, and returns its numbers of ready messages and consumers;
// false if the queue does not exist. A client that holds messages of a quorum queue counts as a consumer.
func (p *Pool) DeclaredQueue(ctx context.Context, cluster, queue string) (declared amqp.Queue, exists bool, err error) {
	type answer struct {
		declared amqp.Queue
		exists   bool
	}
	answers := make(chan answer, 1) // the operation continues after the context ends
	err = p.DoOnCluster(ctx, cluster, func(channel *amqp.Channel) error {
		declared, exists, err := DeclaredQueue(channel, queue)
		answers <- answer{declared, exists}
		return err
	})
	if err != nil {
		return amqp.Queue{}, false, err
	}
	given := <-answers
	return given.declared, given.exists, nil
}

// DeclaredQueue returns the counts of a queue by a passive declaration; false if the queue does not exist. Then RabbitMQ has closed
// the channel.
func DeclaredQueue(channel *amqp.Channel, queue string) (declared amqp.Queue, exists bool, err error) {
	err = Timed("queue.declare", func() (err error) {
		declared, err = channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	})
	if reply, ok := errors.AsType[*amqp.Error](err); ok && reply.Code == amqp.NotFound {
		return amqp.Queue{}, false, nil
	}
	return declared, err == nil, err
}
