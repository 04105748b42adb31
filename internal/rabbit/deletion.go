package rabbit

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/topology"
)

// DeleteEmpty deletes queues that are provably empty; see Deleter.DeleteEmpty. cluster is as for Remove.
func (c *Connection) DeleteEmpty(
	ctx context.Context, cluster string, queues []string, stillWanted func(context.Context) error,
) error {
	began := time.Now()
	err := c.deleter.DeleteEmpty(ctx, cluster, queues, stillWanted)
	if c.views.takeIgnored(queues) && err != nil {
		c.RequestRefresh() // another client may have deleted the queue
	}
	metrics.QueueDeletions.Observe(time.Since(began), brokererr.Result(err))
	return err
}

// Fences returns the names of the fences of this Owner: policies with which running deletions stop queues from accepting messages, and
// fences that the last refresh showed. Each refresh removes fences that were left behind.
func (c *Connection) Fences() []string { return c.deleter.Fences() }

// LastDeletion returns when queues were last deleted that were provably empty; zero if none were.
func (c *Connection) LastDeletion() time.Time { return c.deleter.LastDeletion() }

// timesOf returns the timeouts of deletions and recreations.
func timesOf(t timing.Timeouts) safedelete.Times {
	return safedelete.Times{Settle: t.Settle, Stray: t.Leftover, Vanish: t.Vanish, Operation: t.Operation, Close: t.Close}
}

// deletionBroker is the connection as package safedelete uses it.
type deletionBroker struct{ *Connection }

func (c deletionBroker) State() safedelete.State {
	health := c.Health()
	return safedelete.State{
		Cluster: health.Cluster, Matched: health.Matched, MayWritePolicies: health.Capabilities.Policies,
		CurrentAt:     health.CurrentAt,
		CountsReturns: !health.Capabilities.DelayedRedelivery, // as all versions from 4.3 on do not
	}
}

func (c deletionBroker) View(show func(*snapshot.Snapshot)) { c.views.snapshot(show) }

func (c deletionBroker) Write(change snapshot.Write) { c.views.write(change) }

func (c deletionBroker) DoOnCluster(ctx context.Context, cluster string, operation func(*amqp.Channel) error) error {
	return c.channels.DoOnCluster(ctx, cluster, operation)
}

func (c deletionBroker) DoToTheEnd(ctx context.Context, cluster string, operation func(*amqp.Channel) error) error {
	return c.channels.DoToTheEnd(ctx, cluster, operation)
}

func (c deletionBroker) DoExclusively(ctx context.Context, cluster string, operation func(amqpconn.Exclusive) error) error {
	return c.channels.DoExclusively(ctx, cluster, operation)
}

func (c deletionBroker) Dial(ctx context.Context, cluster string) (*amqpconn.Conn, error) {
	return c.dialer.DialSecond(ctx, c.channels, cluster)
}

func (c deletionBroker) CheckUnshared(ctx context.Context) error {
	return c.operators.checkUnshared(ctx)
}

func (c deletionBroker) Declare(ctx context.Context, cluster string, queue topology.Queue, bindings []topology.Binding) error {
	return recreationBroker(c).Declare(ctx, cluster, topology.Topology{Queues: []topology.Queue{queue}, Bindings: bindings})
}
