package redrive

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
)

const kind = "Redrive"

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
	return counts{labels: []string{namespace, consumerQueue, kind}, moved: config.Moved}
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
		{"failed", &c.failed, len(progress.Failures)},
	} {
		if more := of.now - *of.counted; more > 0 {
			metrics.RedriveMessages.With(append(c.labels, of.result)...).Add(float64(more))
			*of.counted = of.now
		}
	}
}

// EmitMetrics emits what is known of all Redrives.
func (r *Reconciler) EmitMetrics(emit metrics.Emit) {
	for key, running := range r.tasks.begun() {
		metrics.RedriveInFlight.Emit(emit, float64(running.progress.InFlight), key.Namespace, key.Name)
	}
	list := &v1alpha1.RedriveList{}
	if err := r.client.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil { // the cache has ended
		return
	}
	tally := conditions.NewTally(kind)
	for i := range list.Items {
		tally.Add(emit, &list.Items[i], list.Items[i].Status.Conditions)
	}
	tally.Emit(emit)
}
