package deadletterjob

import (
	"errors"
	"fmt"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// Blocker is why a job or a browse cannot take messages now. A job that has ended has a Blocker, too.
type Blocker struct {
	// Ready is the value of the condition Ready of a job. Its reason is empty if something is suspended.
	Ready conditions.Value
	// Progress is Reconciling if the operator or the broker must act first, Stalled if a user must, and ProgressNone otherwise.
	Progress conditions.Progress
	// Final: the job has ended.
	Final bool
	// Retry is how soon to try again; zero means never.
	Retry time.Duration
	// Suspended: the job, its ConsumerQueue or its BrokerConnection is suspended.
	Suspended bool
	// KeepRunning: a task that takes messages already may continue.
	KeepRunning bool
}

// How soon to try again if no event enqueues the job.
const (
	soonRetry   = time.Second
	waitRetry   = 30 * time.Second
	deniedRetry = time.Minute
)

// NeedsUser reports whether a user must act to remove the Blocker.
func (b *Blocker) NeedsUser() bool { return b.Progress != conditions.Reconciling }

func suspended(format string, args ...any) *Blocker {
	return &Blocker{Ready: conditions.Value{Message: fmt.Sprintf(format, args...)}, Suspended: true}
}

// waiting returns the Blocker of a job that waits for the operator or the broker.
func waiting(reason, format string, args ...any) *Blocker {
	return &Blocker{Ready: conditions.Unknown(reason, fmt.Sprintf(format, args...)), Progress: conditions.Reconciling, Retry: waitRetry}
}

// stalled returns the Blocker of a job that continues only if a user changes something.
func stalled(reason, format string, args ...any) *Blocker {
	return &Blocker{Ready: conditions.False(reason, fmt.Sprintf(format, args...)), Progress: conditions.Stalled, Retry: waitRetry}
}

// failed ends a job that cannot continue.
func failed(reason, format string, args ...any) *Blocker {
	return &Blocker{Ready: conditions.False(reason, fmt.Sprintf(format, args...)), Progress: conditions.Stalled, Final: true}
}

// completed ends a job that has done its work.
func completed(reason, format string, args ...any) *Blocker {
	return &Blocker{Ready: conditions.True(reason, fmt.Sprintf(format, args...)), Final: true}
}

// brief marks a Blocker that lasts for seconds.
func (b *Blocker) brief() *Blocker {
	b.Retry, b.KeepRunning = soonRetry, true
	return b
}

// missingBudget is how long a job that has not begun waits for a missing ConsumerQueue. A ConsumerQueue with that name that is created much
// later may not be the ConsumerQueue that the user meant.
const missingBudget = time.Minute

// limitWait makes the Blocker of a missing ConsumerQueue final after missingBudget, which begins when the status first reports it.
func limitWait(blocker Blocker, job Job, now time.Time) Blocker {
	if blocker.Ready.Reason != v1alpha1.ReasonConsumerQueueNotFound || job.hasBegun() {
		return blocker
	}
	left := missingBudget
	if ready := conditions.Ready(job.Status.Conditions); ready.Reason == v1alpha1.ReasonConsumerQueueNotFound {
		left -= now.Sub(ready.LastTransitionTime.Time)
	}
	if left > 0 {
		blocker.Retry = min(blocker.Retry, left)
		return blocker
	}
	return *failed(blocker.Ready.Reason, "%s, and Warren has waited %s for a ConsumerQueue of this name. Create it, then create another %s",
		blocker.Ready.Message, contract.Duration(missingBudget), job.Kind)
}

// brokerRefused is the Blocker for an error of the broker.
func brokerRefused(err error) *Blocker {
	if errors.Is(err, brokererr.ErrAccessRefused) {
		blocker := stalled(v1alpha1.ReasonPermissionDenied, "%s", conditions.ErrorSummary(err))
		blocker.Retry = deniedRetry
		return blocker
	}
	return waiting(v1alpha1.ReasonBrokerUnreachable, "%s", conditions.ErrorSummary(err))
}
