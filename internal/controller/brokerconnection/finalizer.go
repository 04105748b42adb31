package brokerconnection

import (
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// protectionLost passes an update that removes the finalizer, which a BrokerConnection in use gets back.
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
