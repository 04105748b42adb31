// Package conditions writes conditions by the API conventions and kstatus: Ready with Reconciling and Stalled, reasons, shortened messages.
package conditions

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Progress says what a resource that is not as it should be is doing about it, in the words of kstatus.
type Progress int

const (
	// ProgressNone is that of a resource with which nothing is going on.
	ProgressNone Progress = iota
	// Reconciling is that of a resource that will become Ready by itself.
	Reconciling
	// Stalled is that of a resource for which somebody has to do something.
	Stalled
)

// Value is the value of a condition with its reason and message.
type Value struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// True is the value of a condition that holds.
func True(reason, message string) Value { return Value{metav1.ConditionTrue, reason, message} }

// False is the value of a condition that does not hold.
func False(reason, message string) Value { return Value{metav1.ConditionFalse, reason, message} }

// Unknown is the value of a condition of which nobody knows whether it holds.
func Unknown(reason, message string) Value { return Value{metav1.ConditionUnknown, reason, message} }

// Writer changes conditions for one generation; times of transition are kept where the status stays.
type Writer struct {
	conditions *[]metav1.Condition
	generation int64
}

// For changes the conditions of a resource, for its generation.
func For(conditions *[]metav1.Condition, generation int64) Writer {
	return Writer{conditions, generation}
}

// Set changes a condition.
func (w Writer) Set(condition string, value Value) {
	meta.SetStatusCondition(w.conditions, metav1.Condition{
		Type: condition, Status: value.Status, Reason: value.Reason, Message: TruncateEncoded(value.Message, maxConditionMessage),
		ObservedGeneration: w.generation,
	})
}

// Keep leaves a condition's value and says that it holds for this generation.
func (w Writer) Keep(condition string) {
	if found := meta.FindStatusCondition(*w.conditions, condition); found != nil {
		found.ObservedGeneration = w.generation
	}
}

// SetReady sets Ready, and Reconciling or Stalled with the same reason and message; at most one of them remains.
func (w Writer) SetReady(value Value, p Progress) {
	w.Set(v1alpha1.ConditionReady, value)
	w.setProgress(value, p)
}

// SetEnded sets Complete if a job has ended with the value True of Ready, and Failed otherwise, with the same reason and message.
func (w Writer) SetEnded(ready Value) {
	condition := v1alpha1.ConditionFailed
	if ready.Status == metav1.ConditionTrue {
		condition = v1alpha1.ConditionComplete
	}
	w.Set(condition, True(ready.Reason, ready.Message))
}

func (w Writer) setProgress(value Value, p Progress) {
	for condition, holds := range map[string]bool{
		v1alpha1.ConditionReconciling: p == Reconciling,
		v1alpha1.ConditionStalled:     p == Stalled,
	} {
		if holds {
			w.Set(condition, True(value.Reason, value.Message))
		} else {
			meta.RemoveStatusCondition(w.conditions, condition)
		}
	}
}

// SetSuspended says that nothing is compared; what was last seen stays.
func (w Writer) SetSuspended(message string) {
	for _, condition := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionDrifted, v1alpha1.ConditionRecreationRequired,
	} {
		w.Keep(condition)
	}
	w.setProgress(Value{}, ProgressNone)
	w.Set(v1alpha1.ConditionSuspended, True(v1alpha1.ReasonSuspended, message))
}

// ClearSuspended says that the resource is not suspended.
func (w Writer) ClearSuspended() {
	meta.RemoveStatusCondition(w.conditions, v1alpha1.ConditionSuspended)
}

// maxConditionMessage is how long the message of a condition is at most, in bytes of JSON.
const maxConditionMessage = 8 << 10
