package deadletterjob

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A million messages take about a minute at full speed, and three hours at 100 per second.
func TestWritesOfAStatusAreBounded(t *testing.T) {
	t.Parallel()
	for takes, most := range map[time.Duration]int{62 * time.Second: 13, 10000 * time.Second: 350} {
		start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		writes, written := 0, start
		for now := start; now.Before(start.Add(takes)); now = now.Add(250 * time.Millisecond) {
			if untilWrite(now, start, written, false) == 0 {
				writes, written = writes+1, now
			}
		}
		if writes > most || writes < most/2 {
			t.Errorf("%d writes in %v, want at most %d", writes, takes, most)
		}
	}
	late := time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)
	start := late.Add(-time.Hour)
	topologytest.Equal(t, "wait for a number", 30*time.Second, untilWrite(late, start, late, false))
	topologytest.Equal(t, "wait for another state", 5*time.Second, untilWrite(late, start, late, true))
	topologytest.Equal(t, "wait after a long time", time.Duration(0), untilWrite(late, start, start, false))
}

func TestNumberOf(t *testing.T) {
	t.Parallel()
	number, unlimited := intstr.FromInt32(5), intstr.FromString(v1alpha1.Unlimited)
	topologytest.Equal(t, "a number", 5, numberOf(&number, -1))
	topologytest.Equal(t, "Unlimited", -1, numberOf(&unlimited, -1))
	topologytest.Equal(t, "nothing", -1, numberOf(nil, -1))
}
