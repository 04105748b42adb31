package deadletterjob

import (
	"crypto/rand"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// Reports repeat their totals, and a restarted move counts from zero. The counters count each message once.
func TestPurgeCounts(t *testing.T) {
	t.Parallel()
	name := rand.Text() // whose counters are at zero
	deleted := metrics.PurgeMessages.With("shop", name, "deleted")
	skipped := metrics.PurgeMessages.With("shop", name, "skipped")
	counted := newPurgeCounts("shop", name, 2)
	counted.purged(mover.Progress{Moved: 2})
	topologytest.Equal(t, "deleted by an earlier run", 0.0, testutil.ToFloat64(deleted))
	counted.purged(mover.Progress{Moved: 7, Unsure: 2})
	topologytest.Equal(t, "deleted for certain", 3.0, testutil.ToFloat64(deleted))
	counted.purged(mover.Progress{Moved: 7})
	topologytest.Equal(t, "deleted in all", 5.0, testutil.ToFloat64(deleted))
	for _, now := range []int{3, 1, 3, 4} {
		counted.countSkipped(mover.Progress{Skipped: map[string]int{"NotSelected": now - 1, "OtherOrigin": 1}})
	}
	topologytest.Equal(t, "skipped", 4.0, testutil.ToFloat64(skipped))
}
