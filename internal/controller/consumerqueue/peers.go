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
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/ownership"
)

// indexPeers keeps the index of ownership, and has those ConsumerQueues reconciled that another one concerns: they lost a
// conflict, which may be over; they are about to delete what it may have come to want; or it is the first to share their dead-letter
// queue, or the last that did. The list that a manager begins with is enqueued here, too.
func (r *Reconciler) indexPeers() handler.EventHandler {
	enqueue := func(q requests, changed *v1alpha1.ConsumerQueue, leaves bool) {
		for _, key := range r.index.Affected(changed, leaves) {
			trigger.Enqueue(q, trigger.Noticed, reconcile.Request{NamespacedName: key})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q requests) {
			created := e.Object.(*v1alpha1.ConsumerQueue)
			r.index.Update(created)
			enqueue(q, created, !created.DeletionTimestamp.IsZero())
			if e.IsInInitialList {
				r.enqueueAtStart(q, created)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q requests) {
			before, after := e.ObjectOld.(*v1alpha1.ConsumerQueue), e.ObjectNew.(*v1alpha1.ConsumerQueue)
			leaves := !after.DeletionTimestamp.IsZero()
			concerns := before.Generation != after.Generation || !slices.Equal(brokers.ObjectKeysOf(before), brokers.ObjectKeysOf(after))
			if concerns {
				enqueue(q, before, leaves)
			}
			r.index.Update(after)
			if concerns {
				enqueue(q, after, leaves)
			}
			r.enqueueSharers(q, client.ObjectKeyFromObject(after), ownership.DeadLetterQueueOf(before), ownership.DeadLetterQueueOf(after))
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q requests) {
			deleted := e.Object.(*v1alpha1.ConsumerQueue)
			enqueue(q, deleted, true)
			key := client.ObjectKeyFromObject(deleted)
			r.index.Remove(key)
			r.enqueueSharers(q, key, ownership.DeadLetterQueueOf(deleted), ownership.DeadLetterQueue{})
		},
	}
}

// enqueueSharers has the status written of those that share a dead-letter queue with a ConsumerQueue alone, if that one got or left
// the queue. Of thousands that share a queue nobody is reconciled when one comes or goes.
func (r *Reconciler) enqueueSharers(q requests, of client.ObjectKey, before, after ownership.DeadLetterQueue) {
	if before == after {
		return
	}
	for _, queue := range []ownership.DeadLetterQueue{before, after} {
		if sharer, exists := r.index.LastSharer(of, queue); exists {
			trigger.Enqueue(q, trigger.Resync, reconcile.Request{NamespacedName: sharer})
		}
	}
}
