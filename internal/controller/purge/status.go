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

// isDeleting says whether more messages may be deleted than the status says.
func isDeleting(status *v1alpha1.PurgeStatus) bool { return status.AtMost != nil }

// afterCount is what becomes of a Purge that knows how many messages match; nil if they are to be deleted.
func afterCount(purge *v1alpha1.Purge) *transfers.Halt {
	status := &purge.Status
	matched, limit := *status.Matched, int64(purge.Spec.ExpectedAtMost)
	switch {
	case purge.Spec.DryRun && matched > limit:
		return transfers.Finished(v1alpha1.ReasonDryRun, &status.TransferStatus, sentence(status, fmt.Sprintf(
			"none of %s would be deleted: %s match, and spec.expectedAtMost is %d",
			transfers.Messages(transfers.Number(status.Total)), transfers.Messages(matched), limit)))
	case purge.Spec.DryRun:
		return transfers.Finished(v1alpha1.ReasonDryRun, &status.TransferStatus, sentence(status, fmt.Sprintf(
			"%d of %s would be deleted", matched, transfers.Messages(transfers.Number(status.Total)))))
	case matched > limit:
		return transfers.Failed(v1alpha1.ReasonMoreThanExpected, sentence(status, fmt.Sprintf(
			"%s match, and spec.expectedAtMost is %d: no message was deleted. Create another Purge with a narrower selector or a higher expectedAtMost",
			transfers.Messages(matched), limit)))
	case matched == 0:
		return transfers.Finished(v1alpha1.ReasonCompleted, &status.TransferStatus, tally(status))
	}
	return nil
}

// afterDeletion is the Halt of a Purge that has deleted what is left of the messages that match.
func afterDeletion(status *v1alpha1.PurgeStatus) *transfers.Halt {
	if missing := transfers.Number(status.Matched) - transfers.Number(status.Deleted); missing > 0 {
		return transfers.Failed(v1alpha1.ReasonIncomplete, fmt.Sprintf(
			"%s, %d not seen again after the count: another consumer of queue %q holds them or has taken them. Stop it, then count "+
				"what is left",
			tally(status), missing, status.Source))
	}
	return transfers.Finished(v1alpha1.ReasonCompleted, &status.TransferStatus, tally(status))
}

// interruption says between which numbers it is.
func interruption(status *v1alpha1.PurgeStatus) string {
	return fmt.Sprintf("the manager or its connection ended while messages were deleted: %s of queue %q are "+
		"deleted. Count what is left, then create another Purge", transfers.Range(&status.TransferStatus, status.Deleted), status.Source)
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
