package jobs

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Outcome is how far a Redrive or a Purge is.
type Outcome string

// The outcomes.
const (
	Pending   Outcome = "pending"
	Completed Outcome = "completed"
	// Incomplete: the job has ended, and messages failed or were not seen.
	Incomplete Outcome = "incomplete"
	Cancelled  Outcome = "cancelled"
	Failed     Outcome = "failed"
	// Stalled: the job takes no message until a user fixes the cause.
	Stalled Outcome = "stalled"
)

// reasonIncomplete is the reason of Ready of a job that has ended, and for which messages failed or were not seen.
const reasonIncomplete = "Incomplete"

// OutcomeOf returns the outcome of a Redrive or a Purge.
func OutcomeOf(job client.Object) Outcome {
	status := statusOf(job)
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	switch {
	case status.CompletionTime == nil && meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled):
		return Stalled
	case status.CompletionTime == nil || ready == nil:
		return Pending
	case ready.Reason == v1alpha1.ReasonCancelled:
		return Cancelled
	case ready.Reason == reasonIncomplete:
		return Incomplete
	case ready.Status != metav1.ConditionTrue:
		return Failed
	case lacksMessages(job):
		return Incomplete
	}
	return Completed
}

func statusOf(job client.Object) v1alpha1.TransferStatus {
	switch job := job.(type) {
	case *v1alpha1.Redrive:
		return job.Status.TransferStatus
	case *v1alpha1.Purge:
		return job.Status.TransferStatus
	}
	return v1alpha1.TransferStatus{}
}

// lacksMessages reports whether a job that has ended could not move or delete messages, or has not seen all of them. A Redrive that
// reaches its limit looks at no more messages.
func lacksMessages(job client.Object) bool {
	switch job := job.(type) {
	case *v1alpha1.Redrive:
		status := job.Status
		reachedLimit := job.Spec.Limit != nil && number(status.Moved) >= int64(*job.Spec.Limit)
		return number(status.Failed) > 0 || number(status.Examined) < number(status.Total) && !reachedLimit
	case *v1alpha1.Purge:
		status := job.Status
		isDryRun := job.Spec.DryRun != nil && *job.Spec.DryRun
		return number(status.Examined) < number(status.Total) || number(status.Deleted) < number(status.Matched) && !isDryRun
	}
	return false
}

func number(field *int64) int64 {
	if field == nil {
		return 0
	}
	return *field
}

// Ended reports whether the job takes no more messages.
func (o Outcome) Ended() bool { return o.HasCounted() || o == Cancelled || o == Failed }

// HasCounted reports whether the counts of a dry run can be used.
func (o Outcome) HasCounted() bool { return o == Completed || o == Incomplete }

// IsOver reports whether waiting for the job changes nothing.
func (o Outcome) IsOver() bool { return o.Ended() || o == Stalled }
