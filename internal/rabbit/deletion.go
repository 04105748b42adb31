package rabbit

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
)

// DeleteEmpty deletes queues that are provably empty; see Deleter.DeleteEmpty. cluster is as for Remove.
func (c *Connection) DeleteEmpty(
	ctx context.Context, cluster string, queues []string, stillWanted func(context.Context) error,
) error {
	return c.deleter.DeleteEmpty(ctx, cluster, queues, stillWanted)
}

// Fences names the policies of this connection's Owner that keep queues from taking messages: those that deletions which
// are under way have put up, and those that the last refresh showed. What the owner left behind is taken down after each
// refresh.
func (c *Connection) Fences() []string { return c.deleter.Fences() }

// deletions is the connection as deletions see it.
type deletionsOf struct{ *Connection }

func (c deletionsOf) State() safedelete.State {
	health := c.Health()
	return safedelete.State{
		Cluster: health.Cluster, Matched: health.Matched, MayWritePolicies: health.Capabilities.Policies,
		CountsReturns: !health.Capabilities.DelayedRedelivery, // as all versions from 4.3 on do not
	}
}

func (c deletionsOf) View(show func(*snapshot.Snapshot)) { c.store.View(show) }

func (c deletionsOf) Write(change snapshot.Write) { c.store.Write(change) }

func (c deletionsOf) RequestRefresh() { c.LookNow() }

func (c deletionsOf) DoOnCluster(ctx context.Context, cluster string, operation func(*amqp.Channel) error) error {
	return c.channels.DoOnCluster(ctx, cluster, operation)
}

func (c deletionsOf) DoExclusively(ctx context.Context, cluster string, operation func(*amqp.Channel) error) error {
	return c.channels.DoExclusively(ctx, cluster, operation)
}

func (c deletionsOf) Dial(ctx context.Context, cluster string) (*amqpconn.Conn, error) {
	return c.dialSentinels(ctx, cluster)
}

func (c deletionsOf) CheckUnshared(ctx context.Context) error { return c.unshared(ctx) }

func (c deletionsOf) Declare(ctx context.Context, cluster string, queue topology.Queue, bindings []topology.Binding) error {
	declare := declareQueue(queue)
	declare.cluster = cluster
	if err := joinFailures(c.perform(ctx, []operation{declare})); err != nil {
		return err
	}
	operations := make([]operation, len(bindings))
	for i, binding := range bindings {
		operations[i] = bind(binding)
		operations[i].cluster = cluster
	}
	return joinFailures(c.perform(ctx, operations))
}
