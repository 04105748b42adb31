package consumerqueue

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// orphanTimes remembers when objects were first seen to have left the spec of a ConsumerQueue. What is known of the broker
// may be as old as resyncInterval, and somebody may have come to need such an object since: nothing is unbound or deleted
// before a refresh that began later.
type orphanTimes struct {
	mu sync.Mutex
	of map[client.ObjectKey]map[vhost.ID]time.Time
}

func newOrphanTimes() *orphanTimes {
	return &orphanTimes{of: map[client.ObjectKey]map[vhost.ID]time.Time{}}
}

// latest takes note of the objects that are about to go, forgets all others, and returns when the last of them was first
// seen; zero if there is none.
func (d *orphanTimes) latest(resource client.ObjectKey, leaving []v1alpha1.TopologyEntry, now time.Time) (newest time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := make(map[vhost.ID]time.Time, len(leaving))
	for _, entry := range leaving {
		id := topology.IDOf(entry)
		when, known := d.of[resource][id]
		if !known {
			when = now
		}
		seen[id] = when
		if when.After(newest) {
			newest = when
		}
	}
	if len(seen) == 0 {
		delete(d.of, resource)
	} else {
		d.of[resource] = seen
	}
	return newest
}

func (d *orphanTimes) forget(resource client.ObjectKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, resource)
}

// removable are the orphans that may go now, or as soon as what is about to be declared is there.
func removable(comparison plan.Comparison, decided plan.Plan) []v1alpha1.TopologyEntry {
	var entries []v1alpha1.TopologyEntry
	for _, orphan := range comparison.Orphans {
		waits := orphan.BlockedBy.Reason == v1alpha1.AdvisoryReasonReplacementPending && decided.Count() > 0
		if !orphan.Blocked() || waits {
			entries = append(entries, orphan.Entry)
		}
	}
	return entries
}

// refreshBeforeRemoval is zero if the vhost was refreshed since the last orphan was first seen, and otherwise how soon to
// ask again.
func (v *vhostScope) refreshBeforeRemoval(comparison plan.Comparison, decided plan.Plan) time.Duration {
	if v.cq.Spec.DriftPolicy == v1alpha1.DriftPolicyReport {
		return 0
	}
	now := time.Now()
	since := v.orphaned.latest(client.ObjectKeyFromObject(v.cq), removable(comparison, decided), now)
	if since.IsZero() || v.connection.Health().SyncedAt.After(since) {
		return 0
	}
	if since.Equal(now) { // otherwise the refresh has been asked for
		v.connection.RequestRefresh()
	}
	return min(max(now.Sub(since), brokers.MinRecheck), brokers.MaxRecheck)
}
