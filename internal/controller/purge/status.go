package purge

import (
	"fmt"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/transfers"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
)

// recordCount takes over how the count fares. What is counted so far is not yet what matched.
func recordCount(status *v1alpha1.PurgeStatus, progress transfer.Progress) {
	transfers.Record(&status.TransferStatus, progress)
}

// recordDeletion takes over how the deletion fares: how many messages are deleted for certain, and whether there may be more.
func recordDeletion(status *v1alpha1.PurgeStatus, task transfers.Task) {
	progress := task.Progress
	status.Deleted = new(max(transfers.Number(status.Deleted), int64(progress.Moved-progress.Unsure)))
	status.Deleting = nil
	if !task.Ended || progress.Unsure > 0 {
		status.Deleting = new(true)
	}
}

func isSet(field *bool) bool { return field != nil && *field }

// isDeleting says whether more messages may be deleted than the status says.
func isDeleting(status *v1alpha1.PurgeStatus) bool { return isSet(status.Deleting) }

// afterCount is what becomes of a Purge that knows how many messages match; nil if they are to be deleted.
func afterCount(purge *v1alpha1.Purge) *transfers.Halt {
	status := &purge.Status
	matched, limit := *status.Matched, int64(purge.Spec.Limit)
	switch {
	case isSet(purge.Spec.DryRun) && matched > limit:
		return transfers.Done(v1alpha1.ReasonDryRun, sentence(status, fmt.Sprintf(
			"none of %s would be deleted: %s match, and spec.limit is %d",
			transfers.Messages(transfers.Number(status.Total)), transfers.Messages(matched), limit)))
	case isSet(purge.Spec.DryRun):
		return transfers.Done(v1alpha1.ReasonDryRun, sentence(status, fmt.Sprintf(
			"%d of %s would be deleted", matched, transfers.Messages(transfers.Number(status.Total)))))
	case matched > limit:
		return transfers.Failed(v1alpha1.ReasonMoreThanExpected, sentence(status, fmt.Sprintf(
			"%s match, and spec.limit is %d: none was deleted. Create another Purge with a narrower selection or a higher limit",
			transfers.Messages(matched), limit)))
	case matched == 0:
		return transfers.Done(v1alpha1.ReasonCompleted, tally(status))
	}
	return nil
}

// interruption says between which numbers it is.
func interruption(status *v1alpha1.PurgeStatus) string {
	return fmt.Sprintf("the manager or its connection ended while messages were deleted: at least %d and at most %d of queue %q are "+
		"deleted. Count what is left, then create another Purge",
		transfers.Number(status.Deleted), transfers.Number(status.Matched), status.Source)
}

// tally says in a sentence what was done.
func tally(status *v1alpha1.PurgeStatus) string {
	if status.Matched == nil {
		return "none of " + transfers.Messages(transfers.Number(status.Total)) + " was deleted"
	}
	return sentence(status, fmt.Sprintf("%d of %s that match deleted",
		transfers.Number(status.Deleted), transfers.Messages(transfers.Number(status.Matched))))
}

// sentence adds how many messages are of unknown origin, and how many were skipped.
func sentence(status *v1alpha1.PurgeStatus, first string) string {
	return strings.Join(append([]string{first}, transfers.CountParts(&status.TransferStatus)...), ", ")
}
