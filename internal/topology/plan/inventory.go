package plan

import (
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
)

// MergeInventory adds to the entries of a comparison what outlives one reconciliation: where an object came from, and the hash
// with which it was last in sync. What is about to be declared is recorded as declared, without a hash, so that nothing is at
// the broker that is not recorded, even if the operator dies in between; see topology.Intended.
func MergeInventory(comparison Comparison, known topology.Inventory, done Plan) []v1alpha1.TopologyEntry {
	merged := make([]v1alpha1.TopologyEntry, len(comparison.Entries))
	for i, found := range comparison.Entries {
		entry := found.TopologyEntry
		if entry.Role != "" { // otherwise it is foreign
			before := known[found.ID()]
			entry.LastSyncedHash = before.LastSyncedHash
			if entry.State == v1alpha1.StateInSync {
				entry.LastSyncedHash = found.Hash
			}
			if entry.Kind != v1alpha1.KindBinding {
				entry.Origin = origin(entry, before, done)
			}
		}
		merged[i] = entry
	}
	return merged
}

// origin is where an exchange or queue came from. One that is not as it was to be declared, and never was, is somebody
// else's, who was there first. So may be one that was to be declared and is there, though nobody knows who declared it.
func origin(entry, before v1alpha1.TopologyEntry, done Plan) v1alpha1.Origin {
	id := topology.IDOf(entry)
	inSync := entry.State == v1alpha1.StateInSync
	unconfirmed := topology.Intended(before) || done.Failed[id]
	switch {
	case entry.State == v1alpha1.StateRecreationRequired && entry.LastSyncedHash == "":
		return v1alpha1.OriginAdopted
	case inSync && unconfirmed && !done.confirms(id):
		return v1alpha1.OriginAdopted
	case entry.State != v1alpha1.StateRecreationRequired && done.declares(id):
		return v1alpha1.OriginDeclared
	case before.Origin == "" && entry.State != v1alpha1.StateMissing:
		return v1alpha1.OriginAdopted
	}
	return before.Origin
}

// HasNewObjects says whether entries have an object that was not the ConsumerQueue's own before.
func HasNewObjects(entries []v1alpha1.TopologyEntry, known topology.Inventory) bool {
	return slices.ContainsFunc(topology.Owned(entries), func(entry v1alpha1.TopologyEntry) bool {
		return !topology.Owns(known[topology.IDOf(entry)])
	})
}
