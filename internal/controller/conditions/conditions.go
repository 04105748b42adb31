// Package conditions writes conditions that follow the Kubernetes API conventions and kstatus. Ready comes with Reconciling or Stalled, and
// messages have a size limit.
package conditions

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Progress is whether a resource that is not Ready becomes Ready by itself, in the terms of kstatus.
type Progress int

const (
	// ProgressNone means that neither Reconciling nor Stalled applies.
	ProgressNone Progress = iota
	// Reconciling means that the resource becomes Ready by itself.
	Reconciling
	// Stalled means that a user must act.
	Stalled
)

// Value is the status, reason and message of a condition.
type Value struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// True returns the Value of a condition that is True.
func True(reason, message string) Value { return Value{metav1.ConditionTrue, reason, message} }

// False returns the Value of a condition that is False.
func False(reason, message string) Value { return Value{metav1.ConditionFalse, reason, message} }

// Unknown returns the Value of a condition that is Unknown.
func Unknown(reason, message string) Value { return Value{metav1.ConditionUnknown, reason, message} }

// Writer sets conditions for one generation. It keeps lastTransitionTime if the status of a condition does not change.
type Writer struct {
	conditions *[]metav1.Condition
	generation int64
}

// For returns a Writer for the conditions of a resource.
func For(conditions *[]metav1.Condition, generation int64) Writer {
	return Writer{conditions, generation}
}

// Set sets a condition.
func (w Writer) Set(condition string, value Value) {
	meta.SetStatusCondition(w.conditions, metav1.Condition{
		Type: condition, Status: value.Status, Reason: value.Reason, Message: TruncateEncoded(value.Message, maxConditionMessage),
		ObservedGeneration: w.generation,
	})
}

// Keep keeps the value of a condition for this generation.
func (w Writer) Keep(condition string) {
	if found := meta.FindStatusCondition(*w.conditions, condition); found != nil {
		found.ObservedGeneration = w.generation
	}
}

// SetReady sets Ready. It sets Reconciling or Stalled with the same reason and message, and removes the other.
func (w Writer) SetReady(value Value, p Progress) {
	w.Set(v1alpha1.ConditionReady, value)
	w.setProgress(value, p)
}

// SetEnded sets Complete for a job that has ended with Ready True, and Failed otherwise, with the reason and message of Ready.
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

// SetSuspended records that nothing is compared. The other conditions keep their values.
func (w Writer) SetSuspended(message string) {
	for _, condition := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionDrifted, v1alpha1.ConditionRecreationRequired,
	} {
		w.Keep(condition)
	}
	w.setProgress(Value{}, ProgressNone)
	w.Set(v1alpha1.ConditionSuspended, True(v1alpha1.ReasonSuspended, message))
}

// ClearSuspended removes the condition Suspended.
func (w Writer) ClearSuspended() {
	meta.RemoveStatusCondition(w.conditions, v1alpha1.ConditionSuspended)
}

// maxConditionMessage limits the message of a condition, in bytes of JSON.
const maxConditionMessage = 8 << 10
