package retrybudget

import (
	"testing"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestFirstSeen(t *testing.T) {
	t.Parallel()
	s := NewFirstSeen(clock.RealClock{})
	cq := controllertest.Named(t, "shop", "orders", `{}`)
	first := s.At(cq)
	topologytest.Equal(t, "later", first, s.At(cq))
	again := controllertest.Named(t, "shop", "orders", `{}`)
	again.SetUID("another")
	topologytest.Equal(t, "first seen of a new object of the name", true, s.At(again).After(first))
	s.Forget(client.ObjectKeyFromObject(cq))
	topologytest.Equal(t, "remembered", false, s.Has(again))
}

// The budget counts for how long a deletion failed, and not for how long it waited for other deletions.
func TestFailures(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		after []time.Duration // the previous failure
		want  time.Duration
	}{
		"the first failure":            {[]time.Duration{0}, 0},
		"failures every three seconds": {[]time.Duration{0, 3 * time.Second, 3 * time.Second}, 6 * time.Second},
		"one wait for a slot":          {[]time.Duration{0, time.Hour}, longestTry},
		"several waits for a slot":     {[]time.Duration{0, time.Hour, 3 * time.Second, time.Hour}, 2*longestTry + 3*time.Second},
	} {
		trials, now, got := new(Failures), noon, time.Duration(0)
		for _, after := range test.after {
			now = now.Add(after)
			got = trials.Add(controllertest.Named(t, "shop", "orders", `{}`), now)
		}
		topologytest.Equal(t, name, test.want, got)
		again := controllertest.Named(t, "shop", "orders", `{}`)
		again.SetUID("another")
		topologytest.Equal(t, name+", for one that has the name now", 0, trials.Add(again, now.Add(time.Hour)))
		trials.Forget(client.ObjectKeyFromObject(again))
		topologytest.Equal(t, "remembered as", "", trials.of.Get(client.ObjectKeyFromObject(again)).uid)
	}
}
