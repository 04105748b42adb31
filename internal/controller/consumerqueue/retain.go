package consumerqueue

import (
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// holdings are the objects of a ConsumerQueue that is being deleted.
type holdings struct {
	// owned are the objects that may be deleted.
	owned []v1alpha1.TopologyEntry
	// retained are the objects that are not deleted, with the reasons.
	retained []plan.Retained
	// unconfirmed are queues that either Warren or another client declared.
	unconfirmed map[string]bool
}

func isMain(entry v1alpha1.TopologyEntry) bool {
	return entry.Kind == v1alpha1.KindQueue && entry.Role == v1alpha1.RoleMain
}

// mainIsForeign reports whether another client has declared the main queue. Such a client also uses the delay tiers.
func (h *holdings) mainIsForeign(cq *v1alpha1.ConsumerQueue, observed vhost.Observed) bool {
	_, exists := observed.Queues[cq.QueueName()]
	return exists && !slices.ContainsFunc(h.owned, isMain)
}

// retainAdopted retains everything that Warren found at the broker.
func (h *holdings) retainAdopted(why string) {
	declared, found := topology.SplitByOrigin(h.owned)
	h.owned = declared
	for _, entry := range found {
		h.retained = append(h.retained, plan.Retained{Entry: entry, Reason: why})
	}
}

// retainForeign retains exchanges and queues that never matched the spec, and the bindings to such queues: another client declared these
// objects. A main queue of another client retains more; see mainIsForeign.
func (h *holdings) retainForeign(all []v1alpha1.TopologyEntry) {
	for _, entry := range all {
		canBeForeign := entry.Role == v1alpha1.RoleDelayTier || entry.Role == v1alpha1.RoleRetry || entry.Role == v1alpha1.RoleDeadLetter
		if entry.Kind == v1alpha1.KindBinding || !canBeForeign || topology.Owns(entry) {
			continue
		}
		h.retained = append(h.retained, plan.Retained{Entry: entry, Reason: "it never matched the spec, and another client declared it"})
		h.owned = slices.DeleteFunc(slices.Clone(h.owned), func(owned v1alpha1.TopologyEntry) bool {
			return entry.Kind == v1alpha1.KindQueue && owned.Kind == v1alpha1.KindBinding && owned.Destination == entry.Name
		})
	}
}

// resolveIntents resolves the intents of a status: objects that Warren may have declared before a crash. An object that matches the
// spec counts as adopted, and is deleted only without messages. An object that differs is retained.
func (h *holdings) resolveIntents(cq *v1alpha1.ConsumerQueue, version vhost.Version, observed vhost.Observed) {
	if !slices.ContainsFunc(h.owned, topology.Intended) {
		return
	}
	desired, _ := topology.Desired(cq, version) // a spec without a topology has declared nothing
	states := map[vhost.ID]v1alpha1.ObjectState{}
	for _, found := range plan.Diff(desired, observed, plan.Input{}).Entries {
		states[found.ID()] = found.State
	}
	h.unconfirmed = map[string]bool{}
	var owned []v1alpha1.TopologyEntry
	for _, entry := range h.owned {
		switch {
		case !topology.Intended(entry) || !observed.Has(topology.IDOf(entry)):
			owned = append(owned, entry)
		case states[topology.IDOf(entry)] == v1alpha1.StateInSync:
			entry.Origin, entry.LastSyncedHash = v1alpha1.OriginAdopted, desired.HashOf(topology.IDOf(entry))
			h.unconfirmed[entry.Name] = h.unconfirmed[entry.Name] || entry.Kind == v1alpha1.KindQueue
			owned = append(owned, entry)
		default:
			why := "the object differs from the spec, and Warren has no record of declaring it"
			h.retained = append(h.retained, plan.Retained{Entry: entry, Reason: why})
		}
	}
	h.owned = owned
}

// retain marks a queue as retained.
func (h *holdings) retain(queue, why string) {
	h.owned = slices.DeleteFunc(slices.Clone(h.owned), func(entry v1alpha1.TopologyEntry) bool {
		stays := entry.Kind == v1alpha1.KindQueue && entry.Name == queue
		if stays {
			h.retained = append(h.retained, plan.Retained{Entry: entry, Reason: why})
		}
		return stays
	})
}

// retainedAt returns the retained objects that the broker still has.
func (h *holdings) retainedAt(observed vhost.Observed) []plan.Retained {
	return slices.DeleteFunc(slices.Clone(h.retained), func(stay plan.Retained) bool { return !observed.Has(topology.IDOf(stay.Entry)) })
}

// inventory returns all objects of this resource, retained ones included.
func (h *holdings) inventory() []v1alpha1.TopologyEntry {
	all := slices.Clone(h.owned)
	for _, stay := range h.retained {
		all = append(all, stay.Entry)
	}
	return all
}
