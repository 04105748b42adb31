package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// A BrokerConnection is often deleted together with its ConsumerQueues, and with its Secret: by `kubectl delete -f`, by
// GitOps, with a namespace. These come in any order. So it stays for farewell, in case ConsumerQueues are about to be deleted;
// and while some are, for as long as that may take, but no longer than longFarewell. An open connection outlives its Secret
// by farewell, too.
const (
	farewell     = 10 * time.Second
	longFarewell = 5 * time.Minute
)

// protect adds the finalizer to a BrokerConnection that is in use, and takes it off when it is not.
func (r *BrokerConnectionReconciler) protect(ctx context.Context, bc *v1alpha1.BrokerConnection, used bool) error {
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
	err := r.client.Patch(ctx, bc, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change finalizer: %w", err)
	}
	return nil
}

// terminate keeps the connection of a BrokerConnection that is being deleted while it is needed, and then lets go of both.
// It does not read the Secret if the connection is open: that may be gone already.
func (r *BrokerConnectionReconciler) terminate(ctx context.Context, bc *v1alpha1.BrokerConnection) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(bc)
	needed, terminating, err := r.neededBy(ctx, bc)
	if err != nil {
		return ctrl.Result{}, err
	}
	suspended := bc.Spec.Suspend != nil && *bc.Spec.Suspend
	left := stay(time.Since(bc.DeletionTimestamp.Time), needed, terminating)
	if left > 0 && !suspended && r.connections.Get(key) == nil {
		if _, err := r.connect(ctx, bc); err != nil {
			if _, lasting := errors.AsType[*unusable](err); !lasting {
				return ctrl.Result{}, err
			}
			left = 0
		}
	}
	if left > 0 && !suspended {
		return ctrl.Result{RequeueAfter: left}, nil // each ConsumerQueue that goes is told, too
	}
	r.connections.Close(key)
	return ctrl.Result{}, r.protect(ctx, bc, false)
}

// stay is for how much longer a BrokerConnection is kept that was deleted some time ago.
func stay(since time.Duration, needed, terminating bool) time.Duration {
	switch {
	case !needed:
		return 0
	case terminating:
		return longFarewell - since
	}
	return farewell - since
}

// neededBy says whether there are ConsumerQueues that have something to clean up through a BrokerConnection, and whether any
// of them is being deleted.
func (r *BrokerConnectionReconciler) neededBy(ctx context.Context, bc *v1alpha1.BrokerConnection) (needed, terminating bool, err error) {
	list, err := r.users(ctx, bc)
	if err != nil {
		return false, false, err
	}
	for i := range list.Items {
		if controllerutil.ContainsFinalizer(&list.Items[i], v1alpha1.TopologyFinalizer) {
			needed = true
			terminating = terminating || !list.Items[i].DeletionTimestamp.IsZero()
		}
	}
	return needed, terminating, nil
}

// users are the ConsumerQueues of a BrokerConnection. They are shared and must not be changed.
func (r *BrokerConnectionReconciler) users(ctx context.Context, bc *v1alpha1.BrokerConnection) (*v1alpha1.ConsumerQueueList, error) {
	list := &v1alpha1.ConsumerQueueList{}
	err := r.client.List(ctx, list, client.InNamespace(bc.Namespace),
		client.MatchingFields{indexConnection: bc.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list ConsumerQueues: %w", err)
	}
	return list, nil
}
