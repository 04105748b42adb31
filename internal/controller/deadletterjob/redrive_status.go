package deadletterjob

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/text"
)

const maxFailuresListed = 10

func recordRedrive(status *v1alpha1.RedriveStatus, task Task) {
	progress := task.Progress
	recordProgress(&status.JobStatus, task)
	status.Moved, status.Failed = recordDone(&status.JobStatus, task), new(int64(progress.Failed))
	status.Failures = nil
	for _, failure := range progress.Failures[:min(len(progress.Failures), maxFailuresListed)] {
		status.Failures = append(status.Failures, v1alpha1.RedriveFailure{
			ID: failure.ID, Reason: failure.Reason, Message: conditions.TruncateEncoded(failure.Message, 1024),
		})
	}
}

func (w *redriveWork) RunningCondition(progress mover.Progress, m Move) conditions.Value {
	message := fmt.Sprintf("moving messages from queue %q", m.Queue.Name)
	switch {
	case w.job.DryRun:
		message = fmt.Sprintf("examining the messages of queue %q", m.Queue.Name)
	case m.Destination != "":
		message += fmt.Sprintf(" to queue %q", m.Destination)
	}
	return runningCondition(progress, v1alpha1.ReasonMoving, message)
}

// redriveOutcome returns the outcome of a Redrive whose task has ended. hidden is why the task may not have seen all messages.
func redriveOutcome(status *v1alpha1.RedriveStatus, dryRun bool, limit *int32, hidden unseen, err error) *Blocker {
	switch {
	case errors.Is(err, mover.ErrTooManyFailures):
		return failed(v1alpha1.ReasonTooManyFailures,
			"%s. The failed messages remain in queue %q, and status.failures lists the first of them",
			redriveSummary(status, dryRun), status.Source)
	case errors.Is(err, mover.ErrWaitedTooLong):
		return failed(v1alpha1.ReasonWaitedTooLong, "%s; %s. Queue %q has a delivery limit, so each further attempt could lose a message. "+
			"Create another Redrive when the destination accepts messages",
			redriveSummary(status, dryRun), conditions.ErrorSummary(err), status.Source)
	case errors.Is(err, mover.ErrUnknownReturn):
		return failed(v1alpha1.ReasonUnknownReturn, "%s; %s, so Warren cannot determine which messages arrived. "+
			"Create another Redrive, and report a defect", redriveSummary(status, dryRun), conditions.ErrorSummary(err))
	case err != nil:
		return taskFailed(Redrive, &status.JobStatus, redriveSummary(status, dryRun), err)
	case dryRun && limit != nil && *status.Moved > int64(*limit):
		matched := text.Count(*status.Moved, "message")
		status.Moved = new(int64(*limit))
		return ended(v1alpha1.ReasonDryRun, &status.JobStatus, hidden, fmt.Sprintf(
			"%s: %s match, and spec.maxMessages is %d", redriveSummary(status, dryRun), matched, *limit))
	case dryRun:
		return ended(v1alpha1.ReasonDryRun, &status.JobStatus, hidden, redriveSummary(status, dryRun))
	case ptr.Deref(status.Failed, 0) > 0:
		return failed(v1alpha1.ReasonIncomplete,
			"%s. The failed messages remain in queue %q, and status.failures has the reasons. Fix the cause, then create another Redrive",
			redriveSummary(status, dryRun), status.Source)
	case limit != nil && ptr.Deref(status.AtMost, 0) >= int64(*limit):
		return failed(v1alpha1.ReasonIncomplete,
			"%s: the manager or its connection ended meanwhile, so messages may remain although spec.maxMessages is reached. Count the "+
				"remaining messages, then create another Redrive", redriveSummary(status, dryRun))
	case limit != nil && ptr.Deref(status.Moved, 0) >= int64(*limit):
		return completed(v1alpha1.ReasonCompleted, "%s", redriveSummary(status, dryRun))
	}
	return ended(v1alpha1.ReasonCompleted, &status.JobStatus, hidden, redriveSummary(status, dryRun))
}

func redriveSummary(status *v1alpha1.RedriveStatus, dryRun bool) string {
	verb := "moved"
	if dryRun {
		verb = "would be moved"
	}
	parts := []string{fmt.Sprintf("%s of %s %s",
		rangeText(&status.JobStatus, status.Moved), text.Count(ptr.Deref(status.Total, 0), "message"), verb)}
	parts = append(parts, countTexts(&status.JobStatus)...)
	if failed := ptr.Deref(status.Failed, 0); failed > 0 {
		parts = append(parts, fmt.Sprintf("%d could not be moved", failed))
	}
	return strings.Join(parts, ", ")
}
