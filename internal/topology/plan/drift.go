package plan

import (
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Drift returns the changes that count as drift. Objects that Warren declares for the first time do not. Under Report Warren
// declares nothing, so every missing object is drift.
func (c Comparison) Drift(known topology.Inventory, policy v1alpha1.DriftPolicy) []v1alpha1.Change {
	isNew := vhost.IDs{}
	for _, entry := range c.Entries {
		if entry.State == v1alpha1.StateMissing && !known.WasInSync(entry.ID(), entry.Hash) {
			isNew[entry.ID()] = policy != v1alpha1.DriftPolicyReport
		}
	}
	return slices.DeleteFunc(slices.Clone(c.ChangesBeyondUpgrade(known)), func(change v1alpha1.Change) bool {
		return change.Effect != v1alpha1.EffectNone && isNew[topology.IDOfChange(change)]
	})
}

// Without returns the changes that are not in others, ignoring their messages.
func Without(changes, others []v1alpha1.Change) []v1alpha1.Change {
	known := make(map[v1alpha1.Change]bool, len(others))
	for _, other := range others {
		other.Message = ""
		known[other] = true
	}
	return slices.DeleteFunc(slices.Clone(changes), func(change v1alpha1.Change) bool {
		change.Message = ""
		return known[change]
	})
}
