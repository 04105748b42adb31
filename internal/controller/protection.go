package controller

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// isProtected says whether a BrokerConnection has the finalizer. Nothing is declared through one that has not: it could be
// gone, with its Secret, before its ConsumerQueues can clean up.
func isProtected(bc *v1alpha1.BrokerConnection) bool {
	return controllerutil.ContainsFinalizer(bc, v1alpha1.ConnectionFinalizer)
}

// protectionLost lets pass an update that takes the finalizer off: a BrokerConnection that is in use gets it again.
func protectionLost() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return controllerutil.ContainsFinalizer(e.ObjectOld, v1alpha1.ConnectionFinalizer) &&
				!controllerutil.ContainsFinalizer(e.ObjectNew, v1alpha1.ConnectionFinalizer)
		},
	}
}

// errUnprotected ends a look that would have declared something for the first time.
var errUnprotected = errors.New("the BrokerConnection has no finalizer yet, or is being deleted")

// checkProtected asks the API server whether the BrokerConnection of an open connection is protected and is to stay: the
// cache may not have heard yet that it is being deleted.
func (l *look) checkProtected(ctx context.Context, owner string) error {
	bc := &v1alpha1.BrokerConnection{}
	err := l.live.Get(ctx, connectionKey(l.cq), bc)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get BrokerConnection %q: %w", l.cq.ConnectionName(), err)
	}
	if apierrors.IsNotFound(err) || string(bc.UID) != owner || !isProtected(bc) || !bc.DeletionTimestamp.IsZero() {
		return errUnprotected
	}
	return nil
}
