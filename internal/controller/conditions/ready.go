package conditions

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// ReadyOf is the condition Ready of a BrokerConnection.
func ReadyOf(bc *v1alpha1.BrokerConnection) metav1.Condition { return Ready(bc.Status.Conditions) }

// Ready finds the condition Ready; unknown and pending if there is none.
func Ready(conditions []metav1.Condition) metav1.Condition {
	if found := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); found != nil {
		return *found
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending}
}

// WhyNotReady says why a BrokerConnection cannot be used. How exactly a broker cannot be reached changes from one attempt to
// the next; that stands in the status of the BrokerConnection only, or each attempt would be a write to every ConsumerQueue.
func WhyNotReady(name string, ready metav1.Condition) string {
	if ready.Reason == v1alpha1.ReasonBrokerUnreachable {
		return fmt.Sprintf("BrokerConnection %q cannot reach its broker: its status says why", name)
	}
	return fmt.Sprintf("BrokerConnection %q is not ready: %s", name, ready.Message)
}

// ConnectionReason tells a broker that does not answer from a connection that lacks something on this side.
func ConnectionReason(ready metav1.Condition) string {
	if ready.Reason == v1alpha1.ReasonBrokerUnreachable {
		return v1alpha1.ReasonBrokerUnreachable
	}
	return v1alpha1.ReasonConnectionNotReady
}
