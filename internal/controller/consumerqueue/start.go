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

// connectTime is how much time the connections have when a manager starts: longer than a broker takes that is well, and short enough
// for a resource whose connection will never come to say so.
const connectTime = 5 * time.Second

// notAtStart leaves out the list that a manager begins with; see enqueueAtStart.
func notAtStart() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
}

// enqueueAtStart has a ConsumerQueue of the list that a manager begins with reconciled. As a rule its connection is only being made,
// without which nothing can be found out, and has all its ConsumerQueues reconciled as soon as it can be asked. So they wait for that,
// and each of thousands is reconciled once, not twice.
func (r *Reconciler) enqueueAtStart(queue requests, cq *v1alpha1.ConsumerQueue) {
	wait := connectTime
	if connection := r.pool.Get(brokers.ConnectionKey(cq)); connection != nil && connection.Health().Observable() {
		wait = 0
	}
	trigger.EnqueueAfter(queue, trigger.Resync, wait, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cq)})
}
