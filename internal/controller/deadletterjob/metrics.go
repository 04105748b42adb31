package deadletterjob

import (
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/mover"
)

// messageCounts adds the messages of a task to a counter, by result. counted is how many messages the counter already includes.
type messageCounts struct {
	counter *metrics.Counter
	labels  []string
	counted map[string]int
}

// count counts the messages since the last report. A task counts from zero again after it reconnects.
func (c *messageCounts) count(result string, now int) {
	if more := now - c.counted[result]; more > 0 {
		c.counter.Add(float64(more), append(c.labels, result)...)
		c.counted[result] = now
	}
}

func (c *messageCounts) countSkipped(progress mover.Progress) {
	c.count("skipped", progress.Examined()-progress.Moved-progress.Failed)
}

func newRedriveCounts(namespace, consumerQueue string, before int) *messageCounts {
	return &messageCounts{metrics.RedriveMessages, []string{namespace, consumerQueue, string(Redrive)}, map[string]int{"moved": before}}
}

func (c *messageCounts) redriven(progress mover.Progress) {
	c.count("moved", progress.Moved)
	c.count("failed", progress.Failed)
	c.countSkipped(progress)
}

func newPurgeCounts(namespace, consumerQueue string, before int) *messageCounts {
	return &messageCounts{metrics.PurgeMessages, []string{namespace, consumerQueue}, map[string]int{"deleted": before}}
}

// purged counts the messages that are known to be deleted.
func (c *messageCounts) purged(progress mover.Progress) { c.count("deleted", progress.Certain()) }

// EmitInFlight emits how many messages of each Redrive wait for their confirm.
func (t *Tasks) EmitInFlight(emit metrics.Emit) {
	for key, running := range t.begun(Redrive) {
		metrics.RedriveInFlight.Emit(emit, float64(running.Progress.InFlight), key.Namespace, key.Name)
	}
}
