package plan

import (
	"cmp"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
)

// MergeInventory adds the facts that outlive one reconciliation to the entries of a comparison: the origin of each object, and
// the hash with which it was last in sync. An object that Warren is about to declare is recorded as declared, without a hash.
// Every object at the broker is therefore recorded, even if Warren crashes between the record and the declaration; see
// topology.Intended.
func MergeInventory(comparison Comparison, known topology.Inventory, done Plan) []v1alpha1.TopologyEntry {
	merged := make([]v1alpha1.TopologyEntry, len(comparison.Entries))
	for i, found := range comparison.Entries {
		entry := found.TopologyEntry
		if entry.Role != "" { // a foreign binding has no role
			before := known[found.ID()]
			entry.LastSyncedHash = before.LastSyncedHash
			inSync := entry.State == v1alpha1.StateInSync || found.OlderHash != ""
			if inSync {
				entry.LastSyncedHash = cmp.Or(found.OlderHash, found.Hash)
			}
			if entry.Kind != v1alpha1.KindBinding {
				entry.Origin = origin(entry, before, done, inSync)
			}
		}
		merged[i] = entry
	}
	return merged
}

// origin returns the origin of an exchange or queue. An object that differs from its desired form, and was never in sync, belongs to
// another client and is adopted. An object that Warren was about to declare, without the broker's confirmation, may also belong to another
// client.
func origin(entry, before v1alpha1.TopologyEntry, done Plan, inSync bool) v1alpha1.Origin {
	id := topology.IDOf(entry)
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

// HasNewObjects reports whether entries contain an object that the ConsumerQueue did not own before.
func HasNewObjects(entries []v1alpha1.TopologyEntry, known topology.Inventory) bool {
	return slices.ContainsFunc(topology.Owned(entries), func(entry v1alpha1.TopologyEntry) bool {
		return !topology.Owns(known[topology.IDOf(entry)])
	})
}
