package deadletterjob

import (
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/mover"
)

// redriveCounts has how many messages of a task the metrics have counted.
type redriveCounts struct {
	labels []string
	// moved, skipped and failed are the largest reported values. A task counts from zero again after it reconnects.
	moved, skipped, failed int
}

func newRedriveCounts(namespace, consumerQueue string, config mover.Config) redriveCounts {
	if config.DryRun {
		return redriveCounts{}
	}
	return redriveCounts{labels: []string{namespace, consumerQueue, string(Redrive)}, moved: config.Moved}
}

// add counts the messages since the last report. A dry run moves none.
func (c *redriveCounts) add(progress mover.Progress) {
	if c.labels == nil {
		return
	}
	skipped := 0
	for _, count := range progress.Skipped {
		skipped += count
	}
	for _, of := range []struct {
		result  string
		counted *int
		now     int
	}{
		{"moved", &c.moved, progress.Moved},
		{"skipped", &c.skipped, skipped},
		{"failed", &c.failed, progress.Failed},
	} {
		if more := of.now - *of.counted; more > 0 {
			metrics.RedriveMessages.With(append(c.labels, of.result)...).Add(float64(more))
			*of.counted = of.now
		}
	}
}

// EmitInFlight emits how many messages of each Redrive wait for their confirm.
func (t *Tasks) EmitInFlight(emit metrics.Emit) {
	for key, running := range t.begun(Redrive) {
		metrics.RedriveInFlight.Emit(emit, float64(running.Progress.InFlight), key.Namespace, key.Name)
	}
}
