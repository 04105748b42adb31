package brokerconnection

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/trigger"
)

// protectionLost passes an update that removes the finalizer, which a BrokerConnection in use gets back.
func protectionLost() predicate.Predicate {
	return trigger.OnUpdate(func(before, after client.Object) bool {
		return controllerutil.ContainsFinalizer(before, v1alpha1.ConnectionFinalizer) &&
			!controllerutil.ContainsFinalizer(after, v1alpha1.ConnectionFinalizer)
	})
}
