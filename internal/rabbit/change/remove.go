package change

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/eventfeed"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Removal is what Remove removes, in this order.
type Removal struct {
	Bindings  []topology.Binding
	Queues    []string // with their messages
	Exchanges []string // only without bindings (AMQP if-unused)
	// Private: no other instance needs these objects, so they are removed even if one works on the vhost.
	Private bool
}

// Remove unbinds and deletes. cluster is the key of the identity that the cluster of the broker must have. On any other cluster, every
// operation fails with ErrOtherCluster. Objects that do not exist count as removed. Observe shows confirmed removals immediately.
//
// Each object succeeds or fails independently, as in Apply. An exchange with bindings fails with ErrInUse. The error joins one *ObjectError
// per failure, in the order of the removal.
func (c *Changer) Remove(ctx context.Context, cluster string, removal Removal) error {
	if cluster == "" {
		return c.Errors.SameCluster(c.Observer.Health.Read().Cluster, cluster)
	}
	if !removal.Private {
		if err := c.Observer.CheckUnshared(ctx); err != nil {
			return err
		}
	}
	groups := make([][]operation, 3)
	for _, binding := range removal.Bindings {
		groups[0] = append(groups[0], unbind(binding))
	}
	for _, name := range removal.Queues {
		groups[1] = append(groups[1], deleteQueue(name))
	}
	for _, name := range removal.Exchanges {
		groups[2] = append(groups[2], deleteExchange(name))
	}
	var failures []*brokererr.ObjectError
	for _, operations := range groups {
		failures = append(failures, c.perform(ctx, cluster, operations)...)
	}
	return joinFailures(failures)
}

func deleteQueue(name string) operation {
	return operation{
		about: brokererr.ObjectError{Op: brokererr.OpDelete, ID: vhost.QueueID(name)}, kind: eventfeed.Deleted,
		names: []string{name},

		permissions: map[vhost.Kind]string{vhost.KindQueue: "configure"},
		call: func(channel *amqp.Channel) error {
			_, err := channel.QueueDelete(name, false, false, false)
			return err
		},
		write: func(s *snapshot.Snapshot) bool { return s.DropQueue(name) },
	}
}

func deleteExchange(name string) operation {
	return operation{
		about: brokererr.ObjectError{Op: brokererr.OpDelete, ID: vhost.ExchangeID(name)}, kind: eventfeed.Deleted,
		names: []string{name},

		permissions: map[vhost.Kind]string{vhost.KindExchange: "configure"},
		call:        func(channel *amqp.Channel) error { return channel.ExchangeDelete(name, true, false) },
		write:       func(s *snapshot.Snapshot) bool { return s.DropExchange(name) },
	}
}
