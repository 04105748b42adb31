package deadletterjob

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/text"
)

// recordProgress records how many messages were examined, how many are of unknown origin, and why some stay.
func recordProgress(status *v1alpha1.JobStatus, task Task) {
	progress := task.Progress
	examined := int64(progress.Examined() - progress.Skipped[string(deadletter.CameBack)]) // counted when they were moved
	if status.Total != nil {                                                               // a message that was moved twice counts twice
		examined = min(examined, *status.Total)
	}
	status.Examined = new(examined)
	status.UnknownOrigin = nil
	if progress.Apart > 0 {
		status.UnknownOrigin = new(int64(progress.Apart))
	}
	if evaluated, is := task.config.Filter.(interface{ EvaluationError() string }); is {
		status.EvaluationError = text.Truncate(evaluated.EvaluationError(), 1024)
	}
	status.Skipped = nil
	if len(progress.Skipped) > 0 {
		status.Skipped = map[string]int64{}
	}
	for reason, count := range progress.Skipped {
		status.Skipped[reason] = int64(count)
	}
}

// recordDone returns how many messages are known to be moved or deleted. After the end of the task it sets status.atMost to the
// number that may be moved or deleted, or clears it if no message is uncertain.
func recordDone(status *v1alpha1.JobStatus, task Task) *int64 {
	if task.Ended {
		status.AtMost = nil
		if task.Progress.Unsure > 0 {
			status.AtMost = new(int64(task.Progress.Moved))
		}
	}
	return new(int64(task.Progress.Certain()))
}

// unseen is why a task may not have seen all messages of its queue.
type unseen struct {
	// consumers is how many other consumers the queue had at the end.
	consumers int
	// delayed: the broker hides returned messages for some time.
	delayed bool
}

func unseenBy(task Task) unseen {
	return unseen{consumers: task.Progress.Consumers, delayed: task.Move.DelaysReturned}
}

// ended returns the outcome of a job whose task ended by itself. The reason is Incomplete if the task did not see all messages that were
// ready when the job began, or if the queue may hide such messages. Newer messages may have been examined instead.
func ended(reason string, status *v1alpha1.JobStatus, hidden unseen, summary string) *Blocker {
	missing := ptr.Deref(status.Total, 0) - ptr.Deref(status.Examined, 0)
	switch {
	case missing > 0:
		return failed(v1alpha1.ReasonIncomplete,
			"%s, %d not seen: another consumer of queue %q holds them or has taken them. Stop that consumer, then count the remaining "+
				"messages", summary, missing, status.Source)
	case hidden.consumers > 0:
		return failed(v1alpha1.ReasonIncomplete,
			"%s, and another consumer of queue %q may hold messages that were not seen. Stop that consumer, then count the remaining "+
				"messages", summary, status.Source)
	case status.Skipped[mover.SkippedTooLarge] > 0:
		return failed(v1alpha1.ReasonIncomplete, "%s. Warren cannot read messages of more than %d bytes: consume them from queue %q with "+
			"another client", summary, amqpconn.LargestBody, status.Source)
	case hidden.delayed:
		return failed(v1alpha1.ReasonIncomplete,
			"%s, and queue %q may hide returned messages, because it delays their redelivery. Wait for that delay, then count the "+
				"remaining messages", summary, status.Source)
	}
	return completed(reason, "%s", summary)
}

// doneBefore returns mover.Config.Moved and Unsure for a job that continues. done is how many messages it is known to have moved or
// deleted.
func doneBefore(status *v1alpha1.JobStatus, done *int64) (moved, unsure int) {
	certain := int(ptr.Deref(done, 0))
	moved = max(certain, int(ptr.Deref(status.AtMost, 0)))
	return moved, moved - certain
}

// rangeText describes how many messages were moved or deleted.
func rangeText(status *v1alpha1.JobStatus, done *int64) string {
	if status.AtMost == nil || *status.AtMost <= ptr.Deref(done, 0) {
		return fmt.Sprint(ptr.Deref(done, 0))
	}
	return fmt.Sprintf("at least %d and at most %d", ptr.Deref(done, 0), *status.AtMost)
}

// runningCondition returns the value of Ready while a task runs, with the current work or the reason why the task waits.
func runningCondition(progress mover.Progress, reason, message string) conditions.Value {
	switch {
	case progress.State == mover.Connecting && progress.Detail != "":
		return conditions.Unknown(v1alpha1.ReasonBrokerUnreachable, "cannot connect: "+progress.Detail)
	case progress.State == mover.Connecting, progress.State == mover.Moving, progress.State == "":
		return conditions.Unknown(reason, message)
	}
	reason = string(progress.State) // the names of the other states are reasons, too
	return conditions.Unknown(reason, progress.Detail)
}

// The pauses between two writes of a status while a task runs.
const (
	firstMinute   = time.Minute
	earlyInterval = 5 * time.Second
	lateInterval  = 30 * time.Second
)

// untilWrite returns how long a changed status waits until it is written. A transition waits less.
func untilWrite(now, started, written time.Time, transition bool) time.Duration {
	interval := lateInterval
	if transition || now.Sub(started) < firstMinute {
		interval = earlyInterval
	}
	return max(0, written.Add(interval).Sub(now))
}

// taskFailed returns the Blocker of a job whose task ended with an error.
func taskFailed(kind Kind, status *v1alpha1.JobStatus, summary string, err error) *Blocker {
	if errors.Is(err, mover.ErrUnreadable) {
		return failed(v1alpha1.ReasonUnreadableMessage,
			"%s; the message at the head of queue %q cannot be read over AMQP 0-9-1. It has a UUID among the application properties of "+
				"AMQP 1.0, or headers of more than 32 levels or 8192 entries. Consume it with a client of AMQP 1.0, then create "+
				"another %s",
			summary, status.Source, kind)
	}
	if errors.Is(err, mover.ErrTooManyHeld) {
		return failed(v1alpha1.ReasonTooManyToHold,
			"%s; %s. Move the first messages of queue %q without a selector, or raise channel_max of the broker, "+
				"then create another %s",
			summary, conditions.ErrorSummary(err), status.Source, kind)
	}
	if errors.Is(err, mover.ErrTooSlow) {
		return failed(v1alpha1.ReasonTooSlow,
			"%s; %s. Select by reasons, headers or diedBefore instead of an expression on the body, then create another %s",
			summary, conditions.ErrorSummary(err), kind)
	}
	return brokerRefused(err)
}

// countTexts describes how many messages are of unknown origin and how many stay, by reason.
func countTexts(status *v1alpha1.JobStatus) []string {
	parts := make([]string, 0, len(status.Skipped)+1)
	if count := ptr.Deref(status.UnknownOrigin, 0); count > 0 {
		parts = append(parts, fmt.Sprintf("%d of them of unknown origin", count))
	}
	for _, reason := range slices.Sorted(maps.Keys(status.Skipped)) {
		why := reason
		if reason == string(deadletter.NotEvaluated) && status.EvaluationError != "" {
			why += ": " + status.EvaluationError
		}
		parts = append(parts, fmt.Sprintf("%d skipped (%s)", status.Skipped[reason], why))
	}
	return parts
}

// numberOf returns the number of a field; unlimited if the field is absent or Unlimited.
func numberOf(field *intstr.IntOrString, unlimited int) int {
	if field == nil || field.Type == intstr.String {
		return unlimited
	}
	return field.IntValue()
}
