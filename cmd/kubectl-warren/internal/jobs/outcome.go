package jobs

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Outcome is how far a Redrive or a Purge is.
type Outcome string

// The outcomes.
const (
	Pending   Outcome = "pending"
	Completed Outcome = "completed"
	Cancelled Outcome = "cancelled"
	Failed    Outcome = "failed"
	// Stalled: no message is taken until somebody mends something.
	Stalled Outcome = "stalled"
)

// OutcomeOf is the outcome that a status tells of.
func OutcomeOf(status v1alpha1.TransferStatus) Outcome {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	switch {
	case status.CompletionTime == nil && meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled):
		return Stalled
	case status.CompletionTime == nil || ready == nil:
		return Pending
	case ready.Reason == v1alpha1.ReasonCancelled:
		return Cancelled
	case ready.Status == metav1.ConditionTrue:
		return Completed
	}
	return Failed
}

// Ended says whether no more messages are taken.
func (o Outcome) Ended() bool { return o == Completed || o == Cancelled || o == Failed }

// IsOver says whether nothing more comes by waiting.
func (o Outcome) IsOver() bool { return o.Ended() || o == Stalled }
