package rabbit

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Recreator recreates queues on the cluster with this Key.
func (c *Connection) Recreator(cluster string) *recreate.Recreator {
	return recreate.New(recreate.Settings{
		Cluster: cluster, VHost: c.config.VHost, Username: c.config.Username, Owner: c.config.Owner, Errors: c.errs, Log: c.log,
	}, recreationBroker{c}, recreationBroker{c}, recreationDeleter{c}, c.writeAPI)
}

// recreationDeleter is the connection as recreations delete through it.
type recreationDeleter struct{ *Connection }

func (c recreationDeleter) Recreate(
	ctx context.Context, cluster string, recreation safedelete.Recreation,
) (safedelete.Recreated, error) {
	defer c.catchUpWith(recreation.Queue.Name)
	return c.deleter.Recreate(ctx, cluster, recreation)
}

func (c recreationDeleter) SettleRecreation(ctx context.Context, cluster string, queue topology.Queue) (bool, error) {
	defer c.catchUpWith(queue.Name)
	return c.deleter.SettleRecreation(ctx, cluster, queue)
}

func (c recreationDeleter) ClearRecreation(ctx context.Context, cluster, queue string, isNew bool) error {
	defer c.catchUpWith(queue)
	return c.deleter.ClearRecreation(ctx, cluster, queue, isNew)
}

// catchUpWith requests a refresh if events about a queue were left to a call of the deleter.
func (c recreationDeleter) catchUpWith(queue string) {
	if c.views.takeIgnored([]string{queue}) {
		c.RequestRefresh()
	}
}

// recreationBroker is the connection as recreations see it.
type recreationBroker struct{ *Connection }

func (c recreationBroker) View(show func(*snapshot.Snapshot)) { c.views.snapshot(show) }

func (c recreationBroker) Version() string { return c.Health().Version }

func (c recreationBroker) MayWritePolicies() bool { return c.Health().Capabilities.Policies }

func (c recreationBroker) IsTaken(queue string) bool {
	at := clusterQueue{vhost.ClusterOf(c.Health().Cluster.Key()), c.config.VHost, queue}
	return c.deleter.IsDeleting(queue) || c.config.Observations.takes.isTaken(at)
}

func (c recreationBroker) CheckUnshared(ctx context.Context) error {
	return c.operators.checkUnshared(ctx)
}

func (c recreationBroker) Declare(ctx context.Context, cluster string, wanted topology.Topology) error {
	operations := make([]operation, 0, len(wanted.Exchanges)+len(wanted.Queues))
	for _, exchange := range wanted.Exchanges {
		operations = append(operations, declareExchange(exchange))
	}
	for _, queue := range wanted.Queues {
		operations = append(operations, declareQueue(queue))
	}
	if err := c.performOn(ctx, cluster, operations); err != nil {
		return err
	}
	operations = nil
	for _, binding := range wanted.Bindings {
		operations = append(operations, bind(binding))
	}
	return c.performOn(ctx, cluster, operations)
}

func (c recreationBroker) Unbind(ctx context.Context, cluster string, bindings []topology.Binding) error {
	return c.Remove(ctx, cluster, Removal{Bindings: bindings})
}

func (c recreationBroker) Delete(ctx context.Context, cluster string, queues, exchanges []string) error {
	return c.Remove(ctx, cluster, Removal{Queues: queues, Exchanges: exchanges})
}

// performOn is perform on a cluster that must not be missed.
func (c *Connection) performOn(ctx context.Context, cluster string, operations []operation) error {
	for i := range operations {
		operations[i].cluster = cluster
	}
	return joinFailures(c.perform(ctx, operations))
}

func (c recreationBroker) DoOnCluster(ctx context.Context, cluster string, operation func(*amqp.Channel) error) error {
	return c.channels.DoOnCluster(ctx, cluster, operation)
}

func (c recreationBroker) Dial(ctx context.Context, cluster, name string, largestBody int64) (*amqpconn.Conn, error) {
	dialer := c.dialer
	dialer.Options.Product, dialer.Options.Name, dialer.Options.LargestBody = transferProduct, name, largestBody
	return dialer.DialSecond(ctx, c.channels, cluster)
}

func (c recreationBroker) Transfer(ctx context.Context, cluster string, config transfer.Config) (transfer.Progress, error) {
	return c.Connection.Transfer(ctx, cluster, config)
}
