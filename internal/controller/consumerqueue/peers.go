package consumerqueue

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/trigger"
)

// indexPeers keeps the index of ownership, and has those ConsumerQueues reconciled that another one concerns: they lost a
// conflict, which may be over; or they are about to delete what it may have come to want. The list that a manager begins with is
// enqueued here, too.
func (r *Reconciler) indexPeers() handler.EventHandler {
	enqueue := func(q requests, changed *v1alpha1.ConsumerQueue) {
		for _, key := range r.index.Affected(changed) {
			trigger.Enqueue(q, trigger.Noticed, reconcile.Request{NamespacedName: key})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q requests) {
			created := e.Object.(*v1alpha1.ConsumerQueue)
			r.index.Update(created, isWaitingOnPeers(created))
			enqueue(q, created)
			if e.IsInInitialList {
				r.enqueueAtStart(q, created)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q requests) {
			before, after := e.ObjectOld.(*v1alpha1.ConsumerQueue), e.ObjectNew.(*v1alpha1.ConsumerQueue)
			concerns := before.Generation != after.Generation || !slices.Equal(brokers.ObjectKeysOf(before), brokers.ObjectKeysOf(after))
			if concerns {
				enqueue(q, before)
			}
			r.index.Update(after, isWaitingOnPeers(after))
			if concerns {
				enqueue(q, after)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q requests) {
			enqueue(q, e.Object.(*v1alpha1.ConsumerQueue))
			r.index.Remove(client.ObjectKeyFromObject(e.Object))
		},
	}
}

func isWaitingOnPeers(cq *v1alpha1.ConsumerQueue) bool {
	orphans := slices.ContainsFunc(cq.Status.Topology, func(e v1alpha1.TopologyEntry) bool { return e.State == v1alpha1.StateOrphaned })
	return orphans || !cq.DeletionTimestamp.IsZero() || conditions.Ready(cq.Status.Conditions).Reason == v1alpha1.ReasonConflict
}
