package recreate

import (
	"context"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/rabbit/management"
)

// Count returns how many consumers and ready messages the queue has. It uses no request to the management API.
func (r *Recreator) Count(ctx context.Context, rec Recreation) (QueueSeen, error) {
	return r.count(ctx, rec.Queue.Name)
}

// Consumers returns how many consumers of the queue the broker lists for Warren's user, and how many of them follow the contract in a
// ConfigMap. RabbitMQ lists the consumers of other users only for the tags monitoring and administrator. It lists none if it collects no
// statistics. A failed listing counts as empty, because a recreation can wait for the consumers without it.
func (r *Recreator) Consumers(ctx context.Context, rec Recreation, configMap string) (listed, following int) {
	err := r.api.Consumers(ctx, func(consumer management.Consumer) {
		if consumer.Queue.Name != rec.Queue.Name {
			return
		}
		listed++
		if consumer.Arguments[contract.ArgConfigMap] == configMap {
			following++
		}
	})
	if err != nil {
		r.Log.Info("Cannot list the consumers of a queue", "queue", rec.Queue.Name, "reason", err.Error())
		return 0, 0
	}
	return listed, following
}
