package controller

import (
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
)

// deletesDeclaredOnly says whether a deletion takes away only what Warren declared: with driftPolicy Report, unless the
// user asks for everything to go.
func (l *look) deletesDeclaredOnly() bool {
	return l.cq.Spec.DriftPolicy == v1alpha1.DriftPolicyReport && l.cq.Spec.DeletionPolicy != v1alpha1.DeletionPolicyDelete
}

// onlyWatched says whether others declare this topology: Warren was to report only, and found the main queue, or declared
// nothing of the rest either.
func (l *look) onlyWatched(owned []v1alpha1.TopologyEntry) bool {
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
func (d *dismantling) mainIsForeign(cq *v1alpha1.ConsumerQueue, observed topology.Observed) bool {
	_, exists := observed.Queues[cq.QueueName()]
	return exists && !slices.ContainsFunc(d.owned, isMain)
}

// spareFound has everything stay that Warren found.
func (d *dismantling) spareFound(why string) {
	declared, found := topology.SplitByOrigin(d.owned)
	d.owned = declared
	for _, entry := range found {
		d.spared = append(d.spared, topology.Stay{Entry: entry, Why: why})
	}
}

// sparedAt are the spared objects that the broker still has.
func (d *dismantling) sparedAt(observed topology.Observed) []topology.Stay {
	return slices.DeleteFunc(slices.Clone(d.spared), func(stay topology.Stay) bool { return !observed.Has(stay.Entry) })
}

// all are the objects of this resource, those that stay among them.
func (d *dismantling) all() []v1alpha1.TopologyEntry {
	all := slices.Clone(d.owned)
	for _, stay := range d.spared {
		all = append(all, stay.Entry)
	}
	return all
}
