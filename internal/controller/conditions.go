package controller

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// progress says what a resource that is not as it should be is doing about it, in the words of kstatus.
type progress int

const (
	// settled: nothing is going on.
	settled progress = iota
	// reconciling: it will become Ready by itself.
	reconciling
	// stalled: somebody has to do something.
	stalled
)

// truth is the value of a condition with its reason and message.
type truth struct {
	status          metav1.ConditionStatus
	reason, message string
}

func yes(reason, message string) truth   { return truth{metav1.ConditionTrue, reason, message} }
func no(reason, message string) truth    { return truth{metav1.ConditionFalse, reason, message} }
func maybe(reason, message string) truth { return truth{metav1.ConditionUnknown, reason, message} }

// conditionWriter changes conditions for one generation; times of transition are kept where the status stays.
type conditionWriter struct {
	conditions *[]metav1.Condition
	generation int64
}

func (w conditionWriter) set(condition string, value truth) {
	meta.SetStatusCondition(w.conditions, metav1.Condition{
		Type: condition, Status: value.status, Reason: value.reason, Message: cutEncoded(value.message, maxConditionMessage),
		ObservedGeneration: w.generation,
	})
}

// keep leaves a condition's value and says that it holds for this generation.
func (w conditionWriter) keep(condition string) {
	if found := meta.FindStatusCondition(*w.conditions, condition); found != nil {
		found.ObservedGeneration = w.generation
	}
}

// ready sets Ready, and Reconciling or Stalled with the same reason and message; at most one of them remains.
func (w conditionWriter) ready(value truth, p progress) {
	w.set(v1alpha1.ConditionReady, value)
	w.progress(value, p)
}

func (w conditionWriter) progress(value truth, p progress) {
	for condition, holds := range map[string]bool{
		v1alpha1.ConditionReconciling: p == reconciling,
		v1alpha1.ConditionStalled:     p == stalled,
	} {
		if holds {
			w.set(condition, yes(value.reason, value.message))
		} else {
			meta.RemoveStatusCondition(w.conditions, condition)
		}
	}
}

// suspended says that nothing is looked at; what was last seen stays.
func (w conditionWriter) suspended(message string) {
	for _, condition := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionDrifted, v1alpha1.ConditionRecreationRequired,
	} {
		w.keep(condition)
	}
	w.progress(truth{}, settled)
	w.set(v1alpha1.ConditionSuspended, yes(v1alpha1.ReasonSuspended, message))
}

func (w conditionWriter) resumed() {
	meta.RemoveStatusCondition(w.conditions, v1alpha1.ConditionSuspended)
}

// maxConditionMessage is how long the message of a condition is at most, in bytes of JSON.
const maxConditionMessage = 8 << 10
