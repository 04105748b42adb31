package jobs

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Outcome is how a Redrive or Purge ended, or its current state.
type Outcome string

// The values of Outcome.
const (
	Pending   Outcome = "pending"
	Completed Outcome = "completed"
	// Incomplete: the job has ended, and messages failed or may not have been seen; see v1alpha1.ReasonIncomplete.
	Incomplete Outcome = "incomplete"
	Cancelled  Outcome = "cancelled"
	Failed     Outcome = "failed"
	// Stalled: the job moves or deletes no message until a user fixes the cause.
	Stalled Outcome = "stalled"
)

func outcomeOf(status v1alpha1.JobStatus) Outcome {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	switch {
	case status.CompletionTime == nil && meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled):
		return Stalled
	case status.CompletionTime == nil || ready == nil:
		return Pending
	case ready.Reason == v1alpha1.ReasonCancelled:
		return Cancelled
	case ready.Reason == v1alpha1.ReasonIncomplete:
		return Incomplete
	case ready.Status != metav1.ConditionTrue:
		return Failed
	}
	return Completed
}

// Ended reports whether the job reads no more messages.
func (o Outcome) Ended() bool { return o.HasCounted() || o == Cancelled || o == Failed }

// HasCounted reports whether the counts of a dry run can be used.
func (o Outcome) HasCounted() bool { return o == Completed || o == Incomplete }

// IsSettled reports whether the job has ended, or waits for a user.
func (o Outcome) IsSettled() bool { return o.Ended() || o == Stalled }
