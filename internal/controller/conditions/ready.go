package conditions

import (
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
