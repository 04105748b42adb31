package consumerqueue

import (
	"context"
	"fmt"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/topology/plan"
)

// recoverRecreation continues a recreation whose status was lost, if its hold queue exists. It returns false if there is none. It needs a
// slot, because the tenant's broker may have such a queue for each ConsumerQueue, and answer slowly.
func (v *vhostScope) recoverRecreation(ctx context.Context) (found bool, waits waiting, err error) {
	lost := v.connection.LostRecreations(v.location.Cluster.Key())
	of, found := v.findLost(lost)
	if !found {
		return false, waiting{}, nil
	}
	done, ok := v.limiter.TryAcquire(v.location.Cluster.Endpoint, v.key())
	if !ok {
		return true, forSlot, nil
	}
	defer done()
	if err := v.recover(ctx, lost, of); err != nil {
		return true, waiting{}, fmt.Errorf("hold queue %q: %w", of.Hold(), err)
	}
	return true, waiting{}, nil
}

// findLost returns a recreation whose hold queue exists. If another ConsumerQueue wants the same queue, only the ID shows which
// ConsumerQueue began the recreation.
func (v *vhostScope) findLost(lost brokers.LostRecreations) (of recreate.Recreation, found bool) {
	for _, queue := range v.desired.Queues {
		isShared := v.peers.Wants(queue.ID())
		for _, id := range lost.Find(queue.Name) {
			if !isShared || recreate.IsIDOf(v.key().String(), id) {
				return recreate.Recreation{ID: id, Queue: queue}, true
			}
		}
	}
	return recreate.Recreation{}, false
}

func (v *vhostScope) recover(ctx context.Context, lost brokers.LostRecreations, of recreate.Recreation) error {
	seen, err := lost.Inspect(ctx, of)
	if err != nil {
		return err
	}
	if seen.Fenced && seen.IsNew {
		// This may be the old queue, if the spec asks for the old arguments again. No work may begin before the delete of the old queue has
		// ended.
		if err := lost.CheckNoDelete(ctx, of); err != nil {
			return err
		}
	}
	status := v1alpha1.RecreationStatus{
		ID: of.ID, Queue: of.Queue.Name, NewArguments: of.Queue.Arguments.JSON(), Hold: of.Hold(), Backlog: of.Backlog(),
		Bindings: recordedBindings(recordable(seen.Hold.Bindings)),
		Runs:     time.Now().Unix(), // a number that no earlier manager has used
	}
	return v.beginWork(ctx, plan.Recovered(status, plan.Found{Fenced: seen.Fenced, Exists: seen.Queue.Exists, IsNew: seen.IsNew}), "")
}
