package deadlettertext

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
)

func TestSeenLines(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		seen v1alpha1.Seen
		want []string
	}{
		"all messages": {v1alpha1.Seen{}, nil},
		"beside a Redrive": {
			v1alpha1.Seen{Partial: true, PartialReason: "JobRunning", Held: 7},
			[]string{
				"Not all messages were seen: a running Redrive or Purge holds messages (JobRunning).",
				"Held by the Redrive or Purge: 7.",
			},
		},
		"messages that are too large": {
			v1alpha1.Seen{Partial: true, PartialReason: "TooLargeMessage", TooLarge: 2},
			[]string{
				"Not all messages were seen: messages larger than 16 MiB were left out (TooLargeMessage).",
				"Left out because they are larger than 16 MiB: 2.",
			},
		},
		"an expression that failed": {
			v1alpha1.Seen{Skipped: map[string]int64{"NotEvaluated": 1204}, EvaluationError: "no such key: oder"},
			[]string{"Left out because the expression failed on them: 1204 (NotEvaluated). The first error: no such key: oder."},
		},
		"an error with control characters": {
			v1alpha1.Seen{Skipped: map[string]int64{"NotEvaluated": 1}, EvaluationError: "no such key: \x1b[2J"},
			[]string{`Left out because the expression failed on them: 1 (NotEvaluated). The first error: no such key: \x1b[2J.`},
		},
		"messages without a time, in a shared queue": {
			v1alpha1.Seen{Skipped: map[string]int64{"Undated": 3, "OtherOrigin": 2}},
			[]string{
				"Left out because their time of death is unknown: 3 (Undated).",
				"Left out because other ConsumerQueues share the queue: 2 from queues of other ConsumerQueues (OtherOrigin).",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if difference := cmp.Diff(test.want, SeenLines(test.seen)); difference != "" {
				t.Errorf("lines (-want +got):\n%s", difference)
			}
		})
	}
}
