package purge

import (
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
)

// counts are the messages of a transfer that metrics count already: the most that were reported.
type counts struct {
	labels           []string
	skipped, deleted int
}

// countSkipped counts the messages that stay.
func (c *counts) countSkipped(progress transfer.Progress) {
	skipped := 0
	for _, count := range progress.Skipped {
		skipped += count
	}
	c.count("skipped", &c.skipped, skipped)
}

// countDeleted counts the messages that were deleted, as far as is known.
func (c *counts) countDeleted(progress transfer.Progress) {
	c.count("deleted", &c.deleted, progress.Certain())
}

func (c *counts) count(result string, counted *int, now int) {
	if more := now - *counted; more > 0 {
		metrics.PurgeMessages.With(append(c.labels, result)...).Add(float64(more))
		*counted = now
	}
}
