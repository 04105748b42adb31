package brokerconnection

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestDeletionClock(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	bc := controllertest.ConnectedTo("shop", "default", "rabbit@a", "/")
	var f deletionClock
	for _, step := range []struct {
		name    string
		at      time.Duration
		waiting int
		deleted time.Duration // when queues were last deleted
		want    time.Duration
	}{
		{"seen for the first time", 0, 2, -time.Hour, 0},
		{"no progress", time.Minute, 2, -time.Hour, time.Minute},
		{"another ConsumerQueue waits", 2 * time.Minute, 3, -time.Hour, 2 * time.Minute},
		{"one ConsumerQueue is gone", 3 * time.Minute, 2, -time.Hour, 0},
		{"no progress since", 4 * time.Minute, 2, -time.Hour, time.Minute},
		{"queues were deleted a minute ago", 20 * time.Minute, 2, 19 * time.Minute, time.Minute},
		{"no further queues were deleted", 25 * time.Minute, 2, 19 * time.Minute, 6 * time.Minute},
		{"the last ConsumerQueue is gone", 26 * time.Minute, 0, 19 * time.Minute, 26 * time.Minute},
	} {
		topologytest.Equal(t, step.name, step.want, f.since(bc, step.waiting, noon.Add(step.deleted), noon.Add(step.at)))
	}
	bc.SetUID("another")
	topologytest.Equal(t, "a new object of the name is seen for", 0, f.seen(bc))
	topologytest.Equal(t, "a new object of the name waits for", 0, f.since(bc, 1, time.Time{}, noon.Add(time.Hour)))
	f.Forget(client.ObjectKeyFromObject(bc))
	topologytest.Equal(t, "remembered", 0, f.seen(bc))
}
