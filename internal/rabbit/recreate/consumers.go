package recreate

import (
	"context"

	"github.com/warren-mq/warren/consumer/contract"
)

// Count returns how many consumers and ready messages the queue has. It uses no request to the management API.
func (r *Recreator) Count(ctx context.Context, rec Recreation) (QueueSeen, error) {
	return r.count(ctx, rec.Queue.Name)
}

// Consumers returns how many consumers of the queue the broker lists, and how many of them follow the contract in a ConfigMap. RabbitMQ
// lists none if it collects no statistics. A failed listing counts as empty, because a recreation can wait for the consumers without it.
func (r *Recreator) Consumers(ctx context.Context, rec Recreation, configMap string) (listed, following int) {
	consumers, err := r.api.Consumers(ctx, rec.Queue.Name)
	if err != nil {
		r.Log.Info("Cannot list the consumers of a queue", "queue", rec.Queue.Name, "reason", err.Error())
	}
	for _, consumer := range consumers {
		if consumer.Arguments[contract.ArgConfigMap] == configMap {
			following++
		}
	}
	return len(consumers), following
}
