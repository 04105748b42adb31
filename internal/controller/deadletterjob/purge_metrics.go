package deadletterjob

import (
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/mover"
)

// purgeCounts has how many messages of a task the metrics have counted.
type purgeCounts struct {
	labels           []string
	skipped, deleted int
}

func (c *purgeCounts) countSkipped(progress mover.Progress) {
	skipped := 0
	for _, count := range progress.Skipped {
		skipped += count
	}
	c.count("skipped", &c.skipped, skipped)
}

// countDeleted counts the messages that are known to be deleted.
func (c *purgeCounts) countDeleted(progress mover.Progress) {
	c.count("deleted", &c.deleted, progress.Certain())
}

func (c *purgeCounts) count(result string, counted *int, now int) {
	if more := now - *counted; more > 0 {
		metrics.PurgeMessages.With(append(c.labels, result)...).Add(float64(more))
		*counted = now
	}
}
