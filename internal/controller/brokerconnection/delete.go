package brokerconnection

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/retrybudget"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/text"
)

// A BrokerConnection is often deleted together with its ConsumerQueues and its Secret, in any order: by `kubectl delete -f`, by
// GitOps, with a namespace. So a deleted BrokerConnection stays for connectionGrace, in case its ConsumerQueues are deleted next.
// While ConsumerQueues are being deleted, the BrokerConnection stays until their deletion has made no progress for
// deletionDrainTimeout. An open connection also outlives its Secret by connectionGrace. These times count from when this manager saw
// the deletion.
const (
	connectionGrace      = 10 * time.Second
	deletionDrainTimeout = retrybudget.Pending + 2*time.Minute
)

// eventFencesRetained is the reason of the Event about fences that may remain at the broker.
const eventFencesRetained = "Retained"

// protectionLost passes updates that remove the finalizer, so that a BrokerConnection in use gets the finalizer again.
func protectionLost() predicate.Predicate {
	return trigger.OnUpdate(func(before, after client.Object) bool {
		return controllerutil.ContainsFinalizer(before, v1alpha1.ConnectionFinalizer) &&
			!controllerutil.ContainsFinalizer(after, v1alpha1.ConnectionFinalizer)
	})
}

// syncFinalizer adds the finalizer to a BrokerConnection in use, and removes it otherwise.
func (r *Reconciler) syncFinalizer(ctx context.Context, bc *v1alpha1.BrokerConnection, used bool) error {
	before := bc.DeepCopy()
	changed := false
	if used {
		changed = controllerutil.AddFinalizer(bc, v1alpha1.ConnectionFinalizer)
	} else {
		changed = controllerutil.RemoveFinalizer(bc, v1alpha1.ConnectionFinalizer)
	}
	if !changed {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := r.client.Patch(ctx, bc, patch, statuswriter.FieldOwner)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change finalizer: %w", err)
	}
	return nil
}

// reconcileDelete keeps a deleted BrokerConnection and its connection while ConsumerQueues need them. While the connection is open, it
// does not read the Secret, which may be gone.
func (r *Reconciler) reconcileDelete(ctx context.Context, bc *v1alpha1.BrokerConnection) (ctrl.Result, error) {
	if !bc.IsProtected() { // another finalizer keeps it
		r.pool.Close(client.ObjectKeyFromObject(bc))
		return ctrl.Result{}, nil
	}
	needed, terminating, err := r.dependents(ctx, bc)
	if err != nil {
		return ctrl.Result{}, err
	}
	if bc.Spec.Suspend {
		return r.finalize(ctx, bc)
	}
	lastDeletion := time.Time{}
	if connection := r.openConnection(bc); connection != nil {
		lastDeletion = connection.LastDeletion()
	}
	left := graceRemaining(r.deletions.since(bc, terminating, lastDeletion, time.Now()), needed > 0, terminating > 0)
	if left <= 0 {
		return r.finalize(ctx, bc)
	}
	status := *bc.Status.DeepCopy()
	result := ctrl.Result{}
	if connection := r.openConnection(bc); connection != nil {
		result = setStatus(bc, connection.Health(), &status)
	} else if result, err = r.reconcileNormal(ctx, bc, &status); err != nil { // a missing Secret may come back
		return ctrl.Result{}, err
	}
	if result.RequeueAfter == 0 || result.RequeueAfter > left {
		result.RequeueAfter = left // the deletion of a ConsumerQueue enqueues the BrokerConnection earlier
	}
	return r.finish(ctx, bc, status, result)
}

// openConnection returns the connection of this BrokerConnection; nil if there is none. A connection of a deleted
// BrokerConnection of the same name does not count.
func (r *Reconciler) openConnection(bc *v1alpha1.BrokerConnection) *brokers.Broker {
	connection := r.pool.Get(client.ObjectKeyFromObject(bc))
	if connection == nil || connection.Owner() != string(bc.UID) {
		return nil
	}
	return connection
}

// finalize waits until no fence remains, or reports the fences. Then it removes the finalizer and closes the connection.
func (r *Reconciler) finalize(ctx context.Context, bc *v1alpha1.BrokerConnection) (ctrl.Result, error) {
	rest, err := r.remainingFences(ctx, bc)
	if err != nil {
		return ctrl.Result{}, err
	}
	if rest.wait > 0 {
		return ctrl.Result{RequeueAfter: rest.wait}, nil
	}
	if err := r.syncFinalizer(ctx, bc, false); err != nil {
		return ctrl.Result{}, err
	}
	key := client.ObjectKeyFromObject(bc)
	r.pool.Close(key)    // last, because a retry of the steps above needs the connection
	if rest.note != "" { // also logged, because the API server accepts no Event in a terminating namespace
		log.FromContext(ctx).Info("Deleted the BrokerConnection, but fences may remain at the broker", "fences", rest.note)
		r.recorder.Eventf(bc, nil, corev1.EventTypeWarning, eventFencesRetained, "Delete", "%s", text.Truncate(rest.note, 1024))
	}
	r.forget(key)
	return ctrl.Result{}, nil
}

// forget removes everything in memory about a BrokerConnection that is gone.
func (r *Reconciler) forget(key client.ObjectKey) {
	r.deletions.Forget(key)
	r.unneeded.Forget(key)
	r.suspendedClean.Forget(key)
	r.statuses.Forget(key)
}

// graceRemaining returns for how much longer Warren keeps a deleted BrokerConnection that has already waited.
func graceRemaining(waited time.Duration, needed, terminating bool) time.Duration {
	switch {
	case !needed:
		return 0
	case terminating:
		return deletionDrainTimeout - waited
	}
	return connectionGrace - waited
}

// dependents counts the ConsumerQueues with objects to delete through a BrokerConnection, and how many of them are being deleted.
func (r *Reconciler) dependents(ctx context.Context, bc *v1alpha1.BrokerConnection) (needed, terminating int, err error) {
	queues, err := brokers.QueuesOf(ctx, r.client, client.ObjectKeyFromObject(bc))
	if err != nil {
		return 0, 0, err
	}
	for i := range queues {
		if controllerutil.ContainsFinalizer(&queues[i], v1alpha1.TopologyFinalizer) {
			needed++
			if !queues[i].DeletionTimestamp.IsZero() {
				terminating++
			}
		}
	}
	return needed, terminating, nil
}
