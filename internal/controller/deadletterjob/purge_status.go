package deadletterjob

import (
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/text"
)

// isDeleting reports whether more messages than status.deleted may be deleted.
func isDeleting(status *v1alpha1.PurgeStatus) bool { return status.AtMost != nil }

// afterCount returns the outcome of a Purge after the count; nil if the Purge deletes the matching messages next. hidden is why
// the count may not have seen all messages.
func afterCount(purge *v1alpha1.Purge, hidden unseen) *Blocker {
	status := &purge.Status
	matched, limit := *status.Matched, int64(purge.Spec.ExpectedAtMost)
	switch {
	case purge.Spec.DryRun && matched > limit:
		return ended(v1alpha1.ReasonDryRun, &status.JobStatus, hidden, purgeText(status, fmt.Sprintf(
			"none of %s would be deleted: %s match, and spec.expectedAtMost is %d",
			text.Count(ptr.Deref(status.Total, 0), "message"), text.Count(matched, "message"), limit)))
	case purge.Spec.DryRun:
		return ended(v1alpha1.ReasonDryRun, &status.JobStatus, hidden, purgeText(status, fmt.Sprintf(
			"%d of %s would be deleted", matched, text.Count(ptr.Deref(status.Total, 0), "message"))))
	case matched > limit:
		return failed(v1alpha1.ReasonMoreThanExpected, "%s", purgeText(status, fmt.Sprintf(
			"%s match, and spec.expectedAtMost is %d: no message was deleted. Create another Purge with a narrower selector or a "+
				"higher expectedAtMost",
			text.Count(matched, "message"), limit)))
	case matched == 0:
		return ended(v1alpha1.ReasonCompleted, &status.JobStatus, hidden, purgeSummary(status))
	}
	return nil
}

// afterDeletion returns the outcome of a Purge after the deletion.
func afterDeletion(status *v1alpha1.PurgeStatus, hidden unseen) *Blocker {
	if missing := ptr.Deref(status.Matched, 0) - ptr.Deref(status.Deleted, 0); missing > 0 {
		return failed(v1alpha1.ReasonIncomplete,
			"%s, %d not seen again after the count: another consumer of queue %q holds them or has taken them. Stop that consumer, "+
				"then count the remaining messages",
			purgeSummary(status), missing, status.Source)
	}
	return ended(v1alpha1.ReasonCompleted, &status.JobStatus, hidden, purgeSummary(status))
}

// interruption describes a deletion whose count of deleted messages is uncertain.
func interruption(status *v1alpha1.PurgeStatus) string {
	return fmt.Sprintf("the manager or its connection ended while Warren was deleting messages of queue %q: %s of them are "+
		"deleted. Count the remaining messages, then create another Purge", status.Source, rangeText(&status.JobStatus, status.Deleted))
}

func purgeSummary(status *v1alpha1.PurgeStatus) string {
	if status.Matched == nil {
		return "none of " + text.Count(ptr.Deref(status.Total, 0), "message") + " was deleted"
	}
	return purgeText(status, fmt.Sprintf("deleted %d of %s that match",
		ptr.Deref(status.Deleted, 0), text.Count(ptr.Deref(status.Matched, 0), "message")))
}

// purgeText adds the counts of messages of unknown origin and of skipped messages to a sentence.
func purgeText(status *v1alpha1.PurgeStatus, first string) string {
	return strings.Join(append([]string{first}, countTexts(&status.JobStatus)...), ", ")
}
