package redrive

import (
	"github.com/warren-mq/warren/internal/controller/transfers"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
)

// counts are the messages of a transfer that metrics count already.
type counts struct {
	labels []string
	// moved, skipped and failed are the most that were reported: a transfer that takes messages again begins to count from the start.
	moved, skipped, failed int
}

// newCounts counts the messages of a transfer from its beginning.
func newCounts(namespace, consumerQueue string, config transfer.Config) counts {
	if config.DryRun {
		return counts{}
	}
	return counts{labels: []string{namespace, consumerQueue, string(transfers.Redrive)}, moved: config.Moved}
}

// add counts what has come since the last report. A dry run moves nothing that could be counted.
func (c *counts) add(progress transfer.Progress) {
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
func EmitInFlight(tasks *transfers.Tasks) func(metrics.Emit) {
	return func(emit metrics.Emit) {
		for key, running := range tasks.Begun(transfers.Redrive) {
			metrics.RedriveInFlight.Emit(emit, float64(running.Progress.InFlight), key.Namespace, key.Name)
		}
	}
}
