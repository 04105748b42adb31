package rabbit

import (
	"context"
	"time"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/brokermatch"
	"github.com/warren-mq/warren/internal/rabbit/change"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/rabbit/observe"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// deleter coordinates a Deleter with an Observer. While a call works on a queue, the Observer ignores events about the deletion of the
// queue. If it ignored any, the deleter requests a refresh after the call.
type deleter struct {
	*safedelete.Deleter
	observer *observe.Observer
}

func (d *deleter) DeleteEmpty(
	ctx context.Context, cluster string, queues []string, stillDeletable func(context.Context) error,
) error {
	began := time.Now()
	err := d.Deleter.DeleteEmpty(ctx, cluster, queues, stillDeletable)
	if d.observer.TakeIgnored(queues) && err != nil {
		d.observer.RequestRefresh() // another client may have deleted the queue
	}
	metrics.QueueDeletions.Observe(time.Since(began), brokererr.Result(err))
	return err
}

func (d *deleter) Recreate(ctx context.Context, cluster string, recreation safedelete.Recreation) (safedelete.Recreated, error) {
	defer d.catchUpWith(recreation.Queue.Name)
	return d.Deleter.Recreate(ctx, cluster, recreation)
}

func (d *deleter) SettleRecreation(ctx context.Context, cluster string, queue topology.Queue) (bool, error) {
	defer d.catchUpWith(queue.Name)
	return d.Deleter.SettleRecreation(ctx, cluster, queue)
}

func (d *deleter) ClearRecreation(ctx context.Context, cluster, queue string, isNew bool) error {
	defer d.catchUpWith(queue)
	return d.Deleter.ClearRecreation(ctx, cluster, queue, isNew)
}

func (d *deleter) catchUpWith(queue string) {
	if d.observer.TakeIgnored([]string{queue}) {
		d.observer.RequestRefresh()
	}
}

// deletionBroker implements the interfaces of package safedelete.
type deletionBroker struct {
	*amqpconn.Pool
	*observe.Observer
	changer *change.Changer
	dialer  brokermatch.Dialer
}

func (b *deletionBroker) State() safedelete.State {
	health := b.Observer.State()
	version, _ := vhost.ParseVersion(health.Version) // Probe fails if the version cannot be parsed
	return safedelete.State{
		Cluster: health.Cluster, Matched: health.Matched, MayWritePolicies: health.Capabilities.Policies,
		CurrentAt: health.CurrentAt, Version: version,
	}
}

func (b *deletionBroker) Dial(ctx context.Context, cluster string) (*amqpconn.Conn, error) {
	return b.dialer.DialSecond(ctx, b.Pool, cluster)
}

func (b *deletionBroker) Declare(ctx context.Context, cluster string, queue topology.Queue, bindings []topology.Binding) error {
	return b.changer.Declare(ctx, cluster, topology.Topology{Queues: []topology.Queue{queue}, Bindings: bindings})
}

// recreationBroker implements the interfaces of package recreate.
type recreationBroker struct {
	*amqpconn.Pool
	*observe.Observer
	*change.Changer
	*queueMover
	deleter  *deleter
	lifetime context.Context // of the connection, not of a call
}

// Move ends with ErrClosed when the connection is closed, because a move that cannot connect retries forever.
func (b recreationBroker) Move(ctx context.Context, cluster string, config mover.Config) (mover.Progress, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.lifetime, cancel)()
	progress, err := b.queueMover.Move(ctx, cluster, config)
	if b.lifetime.Err() != nil {
		err = brokererr.ErrClosed
	}
	return progress, err
}

func (b recreationBroker) Version() string { return b.Health.Read().Version }

func (b recreationBroker) MayWritePolicies() bool { return b.Health.Read().Capabilities.Policies }

func (b recreationBroker) IsTaken(queue string) bool {
	return b.deleter.IsDeleting(queue) || b.IsMoving(queue)
}
