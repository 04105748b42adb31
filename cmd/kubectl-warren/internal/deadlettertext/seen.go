package deadlettertext

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
)

// partialTexts describe why messages may be missing.
var partialTexts = map[v1alpha1.PartialReason]string{
	v1alpha1.PartialHeldByConsumers: "other consumers of the queue hold messages",
	v1alpha1.PartialJobRunning:      "a running Redrive or Purge holds messages",
	v1alpha1.PartialDepth:           "the queue has more messages than were examined",
	v1alpha1.PartialTime:            "the request took too long; the rest was not examined",
	v1alpha1.PartialDelayed:         "the queue hides messages for some time after they were returned",
	v1alpha1.PartialTooLarge:        "messages larger than 16 MiB were left out",
	v1alpha1.PartialUnreadable:      "RabbitMQ cannot deliver a message over AMQP 0-9-1, and the messages behind it were not examined",
}

// sharedTexts describe messages of a shared queue that were left out.
var sharedTexts = map[string]string{
	"OtherOrigin": "from queues of other ConsumerQueues",
	"NoOrigin":    "of unknown origin, which the flag --unknown-origin of `dlq peek` and `dlq redrive` selects",
}

// The reasons to leave out messages that the selector could not evaluate.
const (
	skippedNotEvaluated = "NotEvaluated"
	skippedUndated      = "Undated"
)

// SeenLines describes the messages that a response lacks.
func SeenLines(seen v1alpha1.Seen) []string {
	var lines []string
	if seen.Partial {
		reason := printable.Text(string(seen.PartialReason))
		lines = append(lines, fmt.Sprintf("Not all messages were seen: %s (%s).", PartialText(seen.PartialReason), reason))
	}
	if seen.Held > 0 {
		lines = append(lines, fmt.Sprintf("Held by the Redrive or Purge: %d.", seen.Held))
	}
	if seen.TooLarge > 0 {
		lines = append(lines, fmt.Sprintf("Left out because they are larger than 16 MiB: %d.", seen.TooLarge))
	}
	if count := seen.Skipped[skippedNotEvaluated]; count > 0 {
		line := fmt.Sprintf("Left out because the expression failed on them: %d (%s)", count, skippedNotEvaluated)
		if seen.EvaluationError != "" {
			line += ". The first error: " + printable.Text(seen.EvaluationError)
		}
		lines = append(lines, line+".")
	}
	if count := seen.Skipped[skippedUndated]; count > 0 {
		lines = append(lines, fmt.Sprintf("Left out because their time of death is unknown: %d (%s).", count, skippedUndated))
	}
	var shared []string
	for _, reason := range slices.Sorted(maps.Keys(seen.Skipped)) {
		count := seen.Skipped[reason]
		switch because := sharedTexts[reason]; {
		case reason == skippedNotEvaluated, reason == skippedUndated:
		case because == "":
			lines = append(lines, fmt.Sprintf("Left out for a reason that this version of kubectl warren does not know: %d (%s).",
				count, printable.Text(reason)))
		default:
			shared = append(shared, fmt.Sprintf("%d %s (%s)", count, because, reason))
		}
	}
	if len(shared) > 0 {
		lines = append(lines, "Left out because other ConsumerQueues share the queue: "+strings.Join(shared, ", ")+".")
	}
	return lines
}

// PartialText describes why messages may be missing.
func PartialText(reason v1alpha1.PartialReason) string {
	if known := partialTexts[reason]; known != "" {
		return known
	}
	return "for a reason that this version of kubectl warren does not know"
}
