package plan

import (
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// matchingOlderVersion returns the topology of this spec on an older RabbitMQ, if the broker still has that topology. It returns nil if the
// broker has none of them, or if nothing requires recreation. That topology must match every object that requires recreation, and also the
// objects that route dead letters: the main queue and the exchanges. A partial match may come from another change of the spec, and messages
// would then take a route of neither topology.
func matchingOlderVersion(comparison Comparison, observed vhost.Observed, onOlder func() []topology.Topology) *topology.Topology {
	if !comparison.RequiresRecreation() || onOlder == nil {
		return nil
	}
	older := onOlder()
	for i := range older {
		unexplained := func(entry Entry) bool {
			leads := entry.State == v1alpha1.StateInSync && (entry.Role == v1alpha1.RoleMain || entry.Kind == v1alpha1.KindExchange)
			return (leads || entry.State == v1alpha1.StateRecreationRequired) && !matches(older[i], entry.ID(), observed)
		}
		if !slices.ContainsFunc(comparison.Entries, unexplained) {
			return &older[i]
		}
	}
	return nil
}

// works reports whether the broker has all objects of a topology, except for sources.
func works(wanted topology.Topology, observed vhost.Observed) bool {
	for _, exchange := range wanted.Exchanges {
		if exchange.Role != v1alpha1.RoleSource && !observed.Has(exchange.ID()) {
			return false
		}
	}
	for _, queue := range wanted.Queues {
		if !observed.Has(queue.ID()) {
			return false
		}
	}
	return !slices.ContainsFunc(wanted.Bindings, func(binding topology.Binding) bool {
		return binding.Role != v1alpha1.RoleSource && !observed.Has(binding.ID())
	})
}

// matches reports whether an observed exchange or queue matches a topology.
func matches(wanted topology.Topology, id vhost.ID, observed vhost.Observed) bool {
	if id.Kind == vhost.KindExchange {
		return slices.ContainsFunc(wanted.Exchanges, func(e topology.Exchange) bool {
			return e.ID() == id && len(exchangeDifferences(e, observed.Exchanges[e.Name])) == 0
		})
	}
	return slices.ContainsFunc(wanted.Queues, func(q topology.Queue) bool {
		return q.ID() == id && len(queueDifferences(q, observed.Queues[q.Name])) == 0
	})
}

// ChangesBeyondUpgrade returns the changes that a broker upgrade does not explain. It leaves out objects that match an older
// RabbitMQ, and their new bindings except those of sources.
func (c Comparison) ChangesBeyondUpgrade(known topology.Inventory) []v1alpha1.Change {
	if !c.Upgraded {
		return c.Changes
	}
	upgraded, explained := c.recreated(), vhost.IDs{}
	for _, entry := range c.Entries {
		isNew := entry.Binding != nil && entry.Role != v1alpha1.RoleSource
		if isNew && upgraded.HasEitherEnd(entry.ID()) && !known.WasInSync(entry.ID(), entry.Hash) {
			explained[entry.ID()] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(c.Changes), func(change v1alpha1.Change) bool {
		return change.Effect == v1alpha1.EffectRecreate || change.Effect == v1alpha1.EffectBind && explained[topology.IDOfChange(change)]
	})
}
