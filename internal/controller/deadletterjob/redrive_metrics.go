package deadletterjob

import (
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
)

// redriveCounts are the messages of a transfer that metrics count already.
type redriveCounts struct {
	labels []string
	// moved, skipped and failed are the most that were reported: a transfer that takes messages again begins to count from the start.
	moved, skipped, failed int
}

// newRedriveCounts redriveCounts the messages of a transfer from its beginning.
func newRedriveCounts(namespace, consumerQueue string, config transfer.Config) redriveCounts {
	if config.DryRun {
		return redriveCounts{}
	}
	return redriveCounts{labels: []string{namespace, consumerQueue, string(Redrive)}, moved: config.Moved}
}

// add redriveCounts what has come since the last report. A dry run moves nothing that could be counted.
func (c *redriveCounts) add(progress transfer.Progress) {
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
