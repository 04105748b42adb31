package consumerqueue

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/byresource"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// orphanTimes records when objects were first seen to have left the spec of a ConsumerQueue. The snapshot may be as old as resyncInterval,
// and another client may have begun to use such an object. So Warren unbinds or deletes an object only after a refresh that began after
// that time. The zero value has none.
type orphanTimes struct {
	byresource.Map[map[vhost.ID]time.Time]
}

// latest replaces the recorded objects of a resource. It returns when the most recent of them was first seen; zero if there is none.
func (o *orphanTimes) latest(resource client.ObjectKey, leaving []v1alpha1.TopologyEntry, now time.Time) (newest time.Time) {
	if len(leaving) == 0 {
		o.Forget(resource)
		return newest
	}
	o.Change(resource, func(before map[vhost.ID]time.Time) map[vhost.ID]time.Time {
		seen := make(map[vhost.ID]time.Time, len(leaving))
		for _, entry := range leaving {
			id := topology.IDOf(entry)
			when, known := before[id]
			if !known {
				when = now
			}
			seen[id] = when
			if when.After(newest) {
				newest = when
			}
		}
		return seen
	})
	return newest
}

// removable returns the orphans that may be removed now, or as soon as missing objects are declared.
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

// awaitsRefreshBeforeRemoval reports whether a removal must wait for a refresh that began after the last orphan was first seen.
func (v *vhostScope) awaitsRefreshBeforeRemoval(comparison plan.Comparison, decided plan.Plan) bool {
	if v.cq.Spec.DriftPolicy == v1alpha1.DriftPolicyReport {
		return false
	}
	resource := v.key()
	since := v.orphaned.latest(resource, removable(comparison, decided), time.Now())
	if since.IsZero() || v.connection.Health().SyncedAt.After(since) {
		v.removals.Forget(resource)
		return false
	}
	return v.removals.Pending(resource, v.connection, brokers.Question{About: "removal", NotBefore: since})
}
