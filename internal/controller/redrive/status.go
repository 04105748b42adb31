package redrive

import (
	"errors"
	"fmt"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/transfers"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
)

// maxFailuresListed is how many failures a status lists.
const maxFailuresListed = 10

// record records the progress of a transfer.
func record(status *v1alpha1.RedriveStatus, task transfers.Task) {
	progress := task.Progress
	transfers.Record(&status.TransferStatus, progress)
	status.Moved, status.Failed = transfers.RecordDone(&status.TransferStatus, task), new(int64(progress.Failed))
	status.Failures = nil
	for _, failure := range progress.Failures[:min(len(progress.Failures), maxFailuresListed)] {
		status.Failures = append(status.Failures, v1alpha1.RedriveFailure{
			ID: failure.ID, Reason: failure.Reason, Message: conditions.TruncateEncoded(failure.Message, 1024),
		})
	}
}

// Doing is the value of Ready while a transfer goes on.
func (w *work) Doing(progress transfer.Progress, m transfers.Move) conditions.Value {
	message := fmt.Sprintf("moves messages from queue %q", m.Turn.Queue)
	switch {
	case w.job.DryRun:
		message = fmt.Sprintf("looks at the messages of queue %q", m.Turn.Queue)
	case m.Destination != "":
		message += fmt.Sprintf(" to queue %q", m.Destination)
	}
	return transfers.Doing(progress, v1alpha1.ReasonMoving, message)
}

// outcome is what becomes of a Redrive whose transfer has ended by itself.
func outcome(status *v1alpha1.RedriveStatus, dryRun bool, limit *int32, err error) *transfers.Halt {
	switch {
	case errors.Is(err, transfer.ErrTooManyFailures):
		return transfers.Failed(v1alpha1.ReasonTooManyFailures, fmt.Sprintf(
			"%s: they stay in queue %q, and status.failures lists the first of them", tally(status, "moved"), status.Source))
	case errors.Is(err, transfer.ErrWaitedTooLong):
		return transfers.Failed(v1alpha1.ReasonWaitedTooLong, fmt.Sprintf(
			"%s; %s. Queue %q has a delivery limit: each further try could cost a message",
			tally(status, "moved"), conditions.ErrorSummary(err), status.Source))
	case errors.Is(err, transfer.ErrUnknownReturn):
		return transfers.Failed(v1alpha1.ReasonUnknownReturn, tally(status, "moved")+"; "+conditions.ErrorSummary(err))
	case err != nil:
		return transfers.WhyEnded(transfers.Redrive, &status.TransferStatus, tally(status, "moved"), err)
	case dryRun && limit != nil && *status.Moved > int64(*limit):
		matched := transfers.Messages(*status.Moved)
		status.Moved = new(int64(*limit))
		return transfers.Done(v1alpha1.ReasonDryRun, fmt.Sprintf(
			"%s: %s match, and spec.maxMessages is %d", tally(status, "would be moved"), matched, *limit))
	case dryRun:
		return transfers.Finished(v1alpha1.ReasonDryRun, &status.TransferStatus, tally(status, "would be moved"))
	case transfers.Number(status.Failed) > 0:
		return transfers.Failed(v1alpha1.ReasonIncomplete, fmt.Sprintf(
			"%s: they stay in queue %q, and status.failures says why. Fix the cause, then create another Redrive",
			tally(status, "moved"), status.Source))
	case limit != nil && max(transfers.Number(status.Moved), transfers.Number(status.AtMost)) >= int64(*limit):
		return transfers.Done(v1alpha1.ReasonCompleted, tally(status, "moved"))
	}
	return transfers.Finished(v1alpha1.ReasonCompleted, &status.TransferStatus, tally(status, "moved"))
}

// tally says in a sentence what was done.
func tally(status *v1alpha1.RedriveStatus, verb string) string {
	parts := []string{fmt.Sprintf("%s of %s %s",
		transfers.Range(&status.TransferStatus, status.Moved), transfers.Messages(transfers.Number(status.Total)), verb)}
	parts = append(parts, transfers.CountParts(&status.TransferStatus)...)
	if failed := transfers.Number(status.Failed); failed > 0 {
		parts = append(parts, fmt.Sprintf("%d could not be moved", failed))
	}
	return strings.Join(parts, ", ")
}

// quoted lists names for people.
func quoted(names []string) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(texts, ", ")
}
