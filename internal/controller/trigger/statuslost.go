package trigger

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
)

// StatusLost passes an update that removed the status of a ConsumerQueue or BrokerConnection, or the inventory in it. That happens when a
// backup is restored without the status. Without StatusLost, no event would make the controller write the status again.
func StatusLost() predicate.Predicate {
	return OnUpdate(func(former, now client.Object) bool {
		before, after := statusOf(former), statusOf(now)
		return before.isWritten && !after.isWritten || before.objects > 0 && after.objects == 0
	})
}

// writtenStatus is what StatusLost compares.
type writtenStatus struct {
	isWritten bool
	objects   int // in status.topology
}

func statusOf(object client.Object) writtenStatus {
	isWritten := func(of []metav1.Condition) bool { return conditions.Ready(of).Reason != v1alpha1.ReasonPending }
	switch of := object.(type) {
	case *v1alpha1.ConsumerQueue:
		return writtenStatus{isWritten: isWritten(of.Status.Conditions), objects: len(of.Status.Topology)}
	case *v1alpha1.BrokerConnection:
		return writtenStatus{isWritten: isWritten(of.Status.Conditions)}
	}
	return writtenStatus{}
}
