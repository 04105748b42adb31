package transfers

import (
	"errors"
	"fmt"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/deadletterqueue"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// Halt is why no messages are taken, and what the conditions say of that.
type Halt struct {
	Value    conditions.Value
	Progress conditions.Progress
	// Final says that the object has ended.
	Final bool
	// Retry is when to look again; never if zero.
	Retry time.Duration
	// suspended says that somebody asked for a rest; Value has the message.
	suspended bool
	// harmless says that a transfer which runs may go on.
	harmless bool
}

// The pauses before what may have changed is looked at again where nothing tells of the change.
const (
	soonRetry   = time.Second
	waitRetry   = 30 * time.Second
	deniedRetry = time.Minute
)

func suspended(message string) *Halt {
	return &Halt{Value: conditions.Value{Message: message}, suspended: true}
}

// Waiting is the Halt of an object that waits for something.
func Waiting(reason, message string) *Halt {
	return &Halt{Value: conditions.Unknown(reason, message), Progress: conditions.Reconciling, Retry: waitRetry}
}

// Stalled is the Halt of an object for which somebody has to do something.
func Stalled(reason, message string) *Halt {
	return &Halt{Value: conditions.False(reason, message), Progress: conditions.Stalled, Retry: waitRetry}
}

// Failed is the Halt of an object that has begun and cannot go on.
func Failed(reason, message string) *Halt {
	return &Halt{Value: conditions.False(reason, message), Progress: conditions.Stalled, Final: true}
}

// Done is the Halt of an object that has ended well.
func Done(reason, message string) *Halt {
	return &Halt{Value: conditions.True(reason, message), Final: true}
}

// missingBudget is how long a job that has not begun waits for a ConsumerQueue that does not exist. One that is created later is not what
// the job was meant for.
const missingBudget = time.Minute

// limitWait makes a Halt because of a missing ConsumerQueue final after missingBudget, which counts from the status that said so first.
func limitWait(why Halt, job Job, now time.Time) Halt {
	if why.Value.Reason != v1alpha1.ReasonConsumerQueueNotFound || job.hasBegun() {
		return why
	}
	left := missingBudget
	if ready := conditions.Ready(job.Status.Conditions); ready.Reason == v1alpha1.ReasonConsumerQueueNotFound {
		left -= now.Sub(ready.LastTransitionTime.Time)
	}
	if left > 0 {
		why.Retry = min(why.Retry, left)
		return why
	}
	return *Failed(why.Value.Reason, fmt.Sprintf(
		"%s: waited %v. Create the ConsumerQueue, then another %s", why.Value.Message, missingBudget, job.Kind))
}

// HaltOf is the Halt because of an obstacle; nil if there is none.
func HaltOf(obstacle *deadletterqueue.Obstacle) *Halt {
	if obstacle == nil {
		return nil
	}
	stop := Waiting(obstacle.Reason, obstacle.Message)
	switch obstacle.Kind {
	case deadletterqueue.Suspended:
		return suspended(obstacle.Message)
	case deadletterqueue.Stalled:
		stop = Stalled(obstacle.Reason, obstacle.Message)
	}
	stop.harmless = obstacle.Harmless
	if obstacle.Brief {
		stop.Retry = soonRetry
	}
	return stop
}

// WhyBrokerRefuses is the Halt where the broker does not do what it is asked to.
func WhyBrokerRefuses(err error) *Halt {
	if errors.Is(err, brokererr.ErrAccessRefused) {
		stop := Stalled(v1alpha1.ReasonPermissionDenied, conditions.ErrorSummary(err))
		stop.Retry = deniedRetry
		return stop
	}
	return Waiting(v1alpha1.ReasonBrokerUnreachable, conditions.ErrorSummary(err))
}
