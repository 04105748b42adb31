package consumerqueue

import (
	"context"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// A manager may be paused after it read a spec, and lose the lead. When it continues, the next manager may have applied a newer spec.
func TestAFormerLeaderRemovesNothing(t *testing.T) {
	t.Parallel()
	with := `{retry: {policy: None}, bindings: [{exchange: {name: events, type: topic}, routingKeys: [old, other]}]}`
	without := `{retry: {policy: None}, bindings: [{exchange: {name: events, type: topic}, routingKeys: [other]}]}`
	w := newWorld(t, controllertest.NewConsumerQueue(t, with))
	w.mustReconcile()
	w.edit(controllertest.ConsumerQueue(t, without).Spec)
	stopped := w.reconciler
	stopped.client = before(w.api, w.cached())
	stopped.index.Update(w.cached())

	w.edit(controllertest.ConsumerQueue(t, with).Spec)
	w.restart() // the next manager
	w.mustReconcile()

	for range 3 { // the first reconciliations wait for a refresh
		_, err := stopped.Reconcile(t.Context(), ctrl.Request{NamespacedName: controllertest.Orders})
		topologytest.Equal(t, "error", nil, err)
	}
	observed, _ := w.broker.Observe(vhost.Selection{Queues: []string{"orders"}})
	var keys []string
	for _, binding := range observed.BindingsTo["orders"] {
		keys = append(keys, binding.RoutingKey)
	}
	topologytest.Equal(t, "routing keys", []string{"old", "other"}, keys, controllertest.AnyOrder)
}

// removalLimit records how long a deletion of queues may take.
type removalLimit struct {
	brokers.Changer

	longest time.Duration
}

func (r *removalLimit) Remove(ctx context.Context, cluster string, removal rabbit.Removal) error {
	if deadline, limited := ctx.Deadline(); limited && len(removal.Queues) > 0 {
		r.longest = max(r.longest, time.Until(deadline))
	}
	return r.Changer.Remove(ctx, cluster, removal)
}

// Another manager can take the lead 15 s after the last renewal of the lease.
func TestAQueueIsDeletedWithItsMessagesSoonAfterTheResourceWasRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, `{deletionPolicy: Delete, retry: {policy: None}}`))
	w.mustReconcile()
	connection := w.reconciler.pool.Get(client.ObjectKeyFromObject(w.connection()))
	limit := &removalLimit{Changer: connection.Changer}
	connection.Changer = limit
	w.delete()
	if limit.longest <= 0 || limit.longest > 10*time.Second {
		t.Errorf("a queue was deleted within %v; zero is no limit", limit.longest)
	}
}
