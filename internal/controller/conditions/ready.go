package conditions

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// ReadyOf returns the condition Ready of a BrokerConnection.
func ReadyOf(bc *v1alpha1.BrokerConnection) metav1.Condition { return Ready(bc.Status.Conditions) }

// Ready returns the condition Ready; Unknown with reason Pending if there is none.
func Ready(conditions []metav1.Condition) metav1.Condition {
	if found := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); found != nil {
		return *found
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending}
}

// WhyNotReady describes why a BrokerConnection cannot be used. It leaves out a text of the network or of the broker, which may change with
// each attempt. With that text, each attempt would write the status of each ConsumerQueue. The status of the BrokerConnection has the text.
func WhyNotReady(name string, ready metav1.Condition) string {
	switch ready.Reason {
	case v1alpha1.ReasonBrokerUnreachable:
		return fmt.Sprintf("BrokerConnection %q cannot reach its broker. See the status of the BrokerConnection", name)
	case v1alpha1.ReasonAuthenticationFailed, v1alpha1.ReasonPermissionDenied, v1alpha1.ReasonVHostNotFound,
		v1alpha1.ReasonResponseTooLarge, v1alpha1.ReasonClusterMismatch:
		return fmt.Sprintf("BrokerConnection %q is not ready: %s. See the status of the BrokerConnection", name, ready.Reason)
	}
	return fmt.Sprintf("BrokerConnection %q is not ready: %s", name, ready.Message)
}

// ConnectionReason returns BrokerUnreachable if the broker does not answer, and ConnectionNotReady for all other reasons.
func ConnectionReason(ready metav1.Condition) string {
	if ready.Reason == v1alpha1.ReasonBrokerUnreachable {
		return v1alpha1.ReasonBrokerUnreachable
	}
	return v1alpha1.ReasonConnectionNotReady
}
