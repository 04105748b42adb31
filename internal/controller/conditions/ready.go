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

// WhyNotReady describes why a BrokerConnection cannot be used. It leaves out the network error, which changes with each attempt. With the
// error, each attempt would write the status of each ConsumerQueue. The status of the BrokerConnection has the error.
func WhyNotReady(name string, ready metav1.Condition) string {
	if ready.Reason == v1alpha1.ReasonBrokerUnreachable {
		return fmt.Sprintf("BrokerConnection %q cannot reach its broker. See the status of the BrokerConnection", name)
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
