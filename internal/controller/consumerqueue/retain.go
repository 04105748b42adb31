package consumerqueue

import (
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// deletesDeclaredOnly says whether a deletion takes away only what Warren declared: with driftPolicy Report, unless the
// user asks for everything to go.
func (l *scope) deletesDeclaredOnly() bool {
	return l.cq.Spec.DriftPolicy == v1alpha1.DriftPolicyReport && l.cq.Spec.DeletionPolicy != v1alpha1.DeletionPolicyDelete
}

// isDeclaredByOthers says whether others declare this topology: Warren was to report only, and found the main queue, or declared
// nothing of the rest either.
func (l *scope) isDeclaredByOthers(owned []v1alpha1.TopologyEntry) bool {
	if !l.deletesDeclaredOnly() || len(owned) == 0 {
		return false
	}
	declared, _ := topology.SplitByOrigin(owned)
	return len(declared) == 0 || slices.ContainsFunc(l.status.Topology, func(entry v1alpha1.TopologyEntry) bool {
		return isMain(entry) && entry.Origin == v1alpha1.OriginAdopted
	})
}

func isMain(entry v1alpha1.TopologyEntry) bool {
	return entry.Kind == v1alpha1.KindQueue && entry.Role == v1alpha1.RoleMain
}

// mainIsForeign says whether the broker has a main queue that is not this resource's own. Somebody uses it together with
// the delay tiers that were found.
func (d *teardown) mainIsForeign(cq *v1alpha1.ConsumerQueue, observed vhost.Observed) bool {
	_, exists := observed.Queues[cq.QueueName()]
	return exists && !slices.ContainsFunc(d.owned, isMain)
}

// retainAdopted has everything stay that Warren found.
func (d *teardown) retainAdopted(why string) {
	declared, found := topology.SplitByOrigin(d.owned)
	d.owned = declared
	for _, entry := range found {
		d.retained = append(d.retained, plan.Retained{Entry: entry, Reason: why})
	}
}

// resolveIntents decides about objects that were about to be declared when they were last heard of. What the broker has just
// as it was to be declared may be Warren's: it counts as found, and goes without messages only. Anything else is somebody's.
func (d *teardown) resolveIntents(cq *v1alpha1.ConsumerQueue, observed vhost.Observed) {
	if !slices.ContainsFunc(d.owned, topology.Intended) {
		return
	}
	desired, _ := topology.Desired(cq, d.version) // what cannot become a topology was not declared as it is now
	states := map[vhost.ID]v1alpha1.ObjectState{}
	for _, found := range plan.Diff(desired, observed, plan.Input{}).Entries {
		states[found.ID()] = found.State
	}
	d.unconfirmed = map[string]bool{}
	var owned []v1alpha1.TopologyEntry
	for _, entry := range d.owned {
		switch {
		case !topology.Intended(entry) || !observed.Has(topology.IDOf(entry)):
			owned = append(owned, entry)
		case states[topology.IDOf(entry)] == v1alpha1.StateInSync:
			entry.Origin, entry.LastSyncedHash = v1alpha1.OriginAdopted, desired.HashOf(topology.IDOf(entry))
			d.unconfirmed[entry.Name] = d.unconfirmed[entry.Name] || entry.Kind == v1alpha1.KindQueue
			owned = append(owned, entry)
		default:
			why := "it is not as Warren was about to declare it, so somebody else did"
			d.retained = append(d.retained, plan.Retained{Entry: entry, Reason: why})
		}
	}
	d.owned = owned
}

// retain has a queue stay.
func (d *teardown) retain(queue, why string) {
	d.owned = slices.DeleteFunc(slices.Clone(d.owned), func(entry v1alpha1.TopologyEntry) bool {
		spared := entry.Kind == v1alpha1.KindQueue && entry.Name == queue
		if spared {
			d.retained = append(d.retained, plan.Retained{Entry: entry, Reason: why})
		}
		return spared
	})
}

// retainedAt are the spared objects that the broker still has.
func (d *teardown) retainedAt(observed vhost.Observed) []plan.Retained {
	return slices.DeleteFunc(slices.Clone(d.retained), func(stay plan.Retained) bool { return !observed.Has(topology.IDOf(stay.Entry)) })
}

// inventory are the objects of this resource, those that stay among them.
func (d *teardown) inventory() []v1alpha1.TopologyEntry {
	all := slices.Clone(d.owned)
	for _, stay := range d.retained {
		all = append(all, stay.Entry)
	}
	return all
}
