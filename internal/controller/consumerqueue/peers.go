package consumerqueue

import (
	"context"
	"slices"
	"time"

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
// conflict, which may be over; they are about to delete what it may have come to want; it is the first to share their dead-letter
// queue, or the last that did; or it changes who may share an object, or shares an object without consent. The list that a manager
// begins with is enqueued here, too.
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
				r.enqueueAffectedByConsent(q, before, after)
			}
			r.enqueueSharers(q, client.ObjectKeyFromObject(after), ownership.DeadLetterQueueOf(before), ownership.DeadLetterQueueOf(after))
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q requests) {
			deleted := e.Object.(*v1alpha1.ConsumerQueue)
			enqueue(q, deleted, true)
			key := client.ObjectKeyFromObject(deleted)
			r.index.Remove(key)
			r.enqueueAffectedByConsent(q, deleted, deleted)
			r.enqueueSharers(q, key, ownership.DeadLetterQueueOf(deleted), ownership.DeadLetterQueue{})
		},
	}
}

// enqueueAffectedByConsent enqueues the ConsumerQueues that share objects with a changed one across namespaces.
func (r *Reconciler) enqueueAffectedByConsent(q requests, before, after *v1alpha1.ConsumerQueue) {
	for _, key := range r.index.AffectedByConsent(before, after) {
		trigger.Enqueue(q, trigger.Noticed, reconcile.Request{NamespacedName: key})
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

// formerManager is for how long a manager that leads expects writes of the one that led before. That one ends when it could not renew its
// lease for 10 s, and its last requests soon after.
const formerManager = time.Minute

// rivalReader reads ConsumerQueues that may have recorded what another one wants: from the cache where that surely has all that was
// recorded, and from the API server otherwise. Thousands of ConsumerQueues may name one queue, and each would cost a request.
type rivalReader struct {
	client.Reader
	reconciler *Reconciler
}

// Get reads a ConsumerQueue. What is in the cache is older only after a write of this manager, which it remembers, or of a former one.
func (r rivalReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if time.Since(r.reconciler.leadsSince()) > formerManager {
		if err := r.reconciler.client.Get(ctx, key, into, options...); err == nil && !r.reconciler.statuses.IsOlder(into) {
			return nil
		}
	}
	return r.Reader.Get(ctx, key, into, options...)
}
