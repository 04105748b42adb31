package brokerconnection

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestFarewells(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	bc := controllertest.ConnectedTo("shop", "default", "rabbit@a", "/")
	f := newDeletionClock()
	for _, step := range []struct {
		name    string
		at      time.Duration
		waiting int
		deleted time.Duration // when queues were last deleted
		want    time.Duration
	}{
		{"when it is seen first", 0, 2, -time.Hour, 0},
		{"while nothing happens", time.Minute, 2, -time.Hour, time.Minute},
		{"when another one comes", 2 * time.Minute, 3, -time.Hour, 2 * time.Minute},
		{"when one is gone", 3 * time.Minute, 2, -time.Hour, 0},
		{"while nothing happens again", 4 * time.Minute, 2, -time.Hour, time.Minute},
		{"when queues of theirs were deleted", 20 * time.Minute, 2, 19 * time.Minute, time.Minute},
		{"while no further queues are deleted", 25 * time.Minute, 2, 19 * time.Minute, 6 * time.Minute},
		{"when the last is gone", 26 * time.Minute, 0, 19 * time.Minute, 26 * time.Minute},
	} {
		topologytest.Equal(t, step.name, step.want, f.since(bc, step.waiting, noon.Add(step.deleted), noon.Add(step.at)))
	}
	bc.SetUID("another")
	topologytest.Equal(t, "one that has the name now is seen for", 0, f.seen(bc))
	topologytest.Equal(t, "one that has the name now waits for", 0, f.since(bc, 1, time.Time{}, noon.Add(time.Hour)))
	f.forget(client.ObjectKeyFromObject(bc))
	topologytest.Equal(t, "remembered", 0, len(f.of))
}
