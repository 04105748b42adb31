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

// indexPeers updates the index of ownership. It also enqueues the ConsumerQueues of the manager's first list, and the ConsumerQueues that
// the change of a peer concerns:
//
//   - they lost a conflict that may be over
//   - they are about to delete objects that the peer may now want
//   - the peer is the first or the last to share their dead-letter queue
//   - the peer changes which namespaces may share an object
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
			was, is := ownership.DeadLetterQueueOf(before), ownership.DeadLetterQueueOf(after)
			r.enqueueDeadLetterPeer(q, after, was, is)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q requests) {
			deleted := e.Object.(*v1alpha1.ConsumerQueue)
			enqueue(q, deleted, true)
			key := client.ObjectKeyFromObject(deleted)
			r.index.Remove(key)
			if !e.DeleteStateUnknown && r.unprotected.record(deleted) {
				trigger.Enqueue(q, trigger.Noticed, reconcile.Request{NamespacedName: key})
			}
			r.enqueueAffectedByConsent(q, deleted, deleted)
			r.enqueueDeadLetterPeer(q, deleted, ownership.DeadLetterQueueOf(deleted), ownership.DeadLetterQueue{})
		},
	}
}

// enqueueAffectedByConsent enqueues the ConsumerQueues of other namespaces that share objects with a changed one.
func (r *Reconciler) enqueueAffectedByConsent(q requests, before, after *v1alpha1.ConsumerQueue) {
	for _, key := range r.index.AffectedByConsent(before, after) {
		trigger.Enqueue(q, trigger.Noticed, reconcile.Request{NamespacedName: key})
	}
}

// enqueueDeadLetterPeer enqueues the only other ConsumerQueue of a dead-letter queue when a second one joins or leaves. If more
// ConsumerQueues share the queue, their advisories do not change. It also enqueues a ConsumerQueue that joins, if
// it lacks the advisory: its reconciliation began before its peers were recorded.
func (r *Reconciler) enqueueDeadLetterPeer(q requests, changed *v1alpha1.ConsumerQueue, before, after ownership.DeadLetterQueue) {
	if before == after {
		return
	}
	of := client.ObjectKeyFromObject(changed)
	knows := slices.ContainsFunc(changed.Status.Advisories, func(advisory v1alpha1.Advisory) bool {
		return advisory.Code == v1alpha1.AdvisorySharedDeadLetterQueue
	})
	for _, queue := range []ownership.DeadLetterQueue{before, after} {
		peer, only := r.index.DeadLetterPeer(of, queue)
		if only {
			trigger.Enqueue(q, trigger.Resync, reconcile.Request{NamespacedName: peer})
		}
		if queue == after && peer.Name != "" && !knows {
			trigger.Enqueue(q, trigger.Resync, reconcile.Request{NamespacedName: of})
		}
	}
}

// formerManager is how long a new leader expects writes of the manager that led before. That manager stops after it failed to
// renew its lease for 10 s, and its last requests end soon after.
const formerManager = time.Minute

// peerReader reads the recorded claims of other ConsumerQueues. It reads from the cache if the cache is known to have every record, and
// from the API server otherwise. Thousands of ConsumerQueues may name one queue, and reading each from the API server would cost a request.
type peerReader struct {
	client.Reader
	reconciler *Reconciler
}

// Get reads a ConsumerQueue. The cache is outdated only after a write of this manager, which statuses records, or of the former manager.
func (r peerReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if time.Since(r.reconciler.leadsSince()) > formerManager {
		if err := r.reconciler.client.Get(ctx, key, into, options...); err == nil && !r.reconciler.statuses.IsOlder(into) {
			return nil
		}
	}
	return r.Reader.Get(ctx, key, into, options...)
}
