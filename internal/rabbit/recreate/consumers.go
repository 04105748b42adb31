package recreate

import (
	"context"
	"errors"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
)

// Consumers returns how many consumers of the queue the broker lists for Warren's user, and how many of them follow the contract in
// a ConfigMap. RabbitMQ lists the consumers of other users only for the tags monitoring and administrator.
func (r *Recreator) Consumers(ctx context.Context, rec Recreation, configMap string) (listed, following int, err error) {
	err = r.api.Consumers(ctx, func(consumer management.Consumer) {
		if consumer.Queue.Name != rec.Queue.Name {
			return
		}
		listed++
		if consumer.Arguments[contract.ArgConfigMap] == configMap {
			following++
		}
	})
	if errors.Is(err, brokererr.ErrAccessRefused) {
		return 0, 0, nil
	}
	return listed, following, reasoned(about(rec.Queue.Name, err))
}
