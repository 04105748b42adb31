package consumerqueue

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/trigger"
)

// connectTime is how long the connections may take after a manager starts. A working broker takes less. The time is short, because a
// resource whose connection never opens must report that soon.
const connectTime = 5 * time.Second

// notAtStart drops the first list of a manager; see enqueueAtStart.
func notAtStart() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
}

// enqueueAtStart enqueues a ConsumerQueue of the first list after connectTime. Usually the connection is still opening, and enqueues all
// its ConsumerQueues when it is usable. So each ConsumerQueue is reconciled once, not twice.
func (r *Reconciler) enqueueAtStart(queue requests, cq *v1alpha1.ConsumerQueue) {
	wait := connectTime
	if connection := r.pool.Get(brokers.ConnectionKey(cq)); connection != nil && connection.Health().Observable() {
		wait = 0
	}
	trigger.EnqueueAfter(queue, trigger.Resync, wait, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cq)})
}
