package letters

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
)

// partialTexts say why there are messages that could not be seen.
var partialTexts = map[v1alpha1.PartialReason]string{
	v1alpha1.PartialHeldByConsumers: "others consume the queue; what they hold cannot be seen",
	v1alpha1.PartialJobRunning:      "a Redrive or a Purge runs; what it holds cannot be seen",
	v1alpha1.PartialDepth:           "there are more messages; what is further down was not looked at",
	v1alpha1.PartialTime:            "the look took too long; the rest was not looked at",
	v1alpha1.PartialDelayed:         "the queue hides messages for some time after they were given back",
	v1alpha1.PartialUnreadable:      "RabbitMQ cannot deliver a message over AMQP 0-9-1, nor what stands behind it",
}

// sharedTexts say which messages of a shared queue were left out.
var sharedTexts = map[string]string{
	"OtherOrigin": "from queues of other ConsumerQueues",
	"NoOrigin":    "of unknown origin, which --unknown-origin selects",
}

// The reasons to leave out messages for which the selection has no answer.
const (
	skippedNotEvaluated = "NotEvaluated"
	skippedUndated      = "Undated"
)

// SeenLines describe the messages that an answer lacks.
func SeenLines(seen v1alpha1.Seen) []string {
	var lines []string
	if seen.Partial {
		reason := printable.Text(string(seen.PartialReason))
		lines = append(lines, fmt.Sprintf("Not all messages were seen: %s (%s).", PartialText(seen.PartialReason), reason))
	}
	if seen.Held > 0 {
		lines = append(lines, fmt.Sprintf("Held by the Redrive or Purge: %d.", seen.Held))
	}
	if count := seen.Skipped[skippedNotEvaluated]; count > 0 {
		line := fmt.Sprintf("Left out, as the expression failed on them: %d (%s)", count, skippedNotEvaluated)
		if seen.EvaluationError != "" {
			line += ". The first error: " + printable.Text(seen.EvaluationError)
		}
		lines = append(lines, line+".")
	}
	if count := seen.Skipped[skippedUndated]; count > 0 {
		lines = append(lines, fmt.Sprintf("Left out, as they do not tell when they died: %d (%s).", count, skippedUndated))
	}
	var shared []string
	for _, reason := range slices.Sorted(maps.Keys(seen.Skipped)) {
		if reason == skippedNotEvaluated || reason == skippedUndated {
			continue
		}
		because := sharedTexts[reason]
		if because == "" {
			because = "for another reason"
		}
		shared = append(shared, fmt.Sprintf("%d %s (%s)", seen.Skipped[reason], because, printable.Text(reason)))
	}
	if len(shared) > 0 {
		lines = append(lines, "Left out, as others share the queue: "+strings.Join(shared, ", ")+".")
	}
	return lines
}

// PartialText is why there are messages that could not be seen.
func PartialText(reason v1alpha1.PartialReason) string {
	if known := partialTexts[reason]; known != "" {
		return known
	}
	return "for a reason that this version of kubectl warren does not know"
}
