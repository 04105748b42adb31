package plan

import (
	"maps"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// maxForeign is the number of foreign bindings that a comparison lists. Unlisted counts the others.
const maxForeign = 64

// addForeign lists up to maxForeign foreign bindings in order. They lead into queues of this topology, or from its dead-letter and
// retry exchanges to other queues and exchanges. No ConsumerQueue with a right to them specifies them. Warren never removes them,
// because other programs may need them.
func (c *Comparison) addForeign(desired topology.Topology, observed vhost.Observed, input Input, older *topology.Topology) {
	known := topology.IDsOf(desired.Bindings)
	if older != nil {
		maps.Copy(known, topology.IDsOf(older.Bindings))
	}
	for _, orphan := range c.Orphans {
		known[topology.IDOf(orphan.Entry)] = true
	}
	var foreign []vhost.ID
	for _, queue := range desired.Queues {
		for _, id := range unwanted(input.Unwanted, queue.Name, observed.BindingsTo[queue.Name]) {
			if !known[id] && !isReturnBinding(desired.Return, id, observed) {
				foreign = append(foreign, id)
			}
		}
	}
	for _, exchange := range desired.Exchanges {
		if exchange.Role != v1alpha1.RoleSource {
			foreign = append(foreign, leadingAway(desired, exchange.Name, observed, known, input)...)
		}
	}
	slices.SortFunc(foreign, vhost.ID.Compare)
	foreign = slices.Compact(foreign)
	c.Unlisted = max(0, len(foreign)-maxForeign)
	for _, id := range foreign[:len(foreign)-c.Unlisted] {
		entry := topology.EntryOf(id)
		entry.State = v1alpha1.StateForeign
		c.Entries = append(c.Entries, Entry{TopologyEntry: entry})
	}
}

// leadingAway returns the unwanted bindings from an exchange to other queues and exchanges than this topology's. They copy messages there.
// Warren binds no exchanges to exchanges, so such a binding is always unwanted.
func leadingAway(desired topology.Topology, exchange string, observed vhost.Observed, known vhost.IDs, input Input) []vhost.ID {
	ours := map[string]bool{}
	for _, queue := range desired.Queues {
		ours[queue.Name] = true
	}
	bindings := observed.BindingsFrom[exchange]
	var away []vhost.ID
	for _, id := range unwanted(input.UnwantedFrom, exchange, bindings) {
		if !ours[id.Destination] && !known[id] {
			away = append(away, id)
		}
	}
	for _, binding := range bindings {
		if binding.ToExchange {
			away = append(away, binding.ID())
		}
	}
	return away
}

// unwanted returns those bindings of a queue or exchange that no other ConsumerQueue specifies.
func unwanted(ask func(string, []vhost.Binding) []vhost.ID, name string, bindings []vhost.Binding) []vhost.ID {
	if ask == nil {
		return vhost.BindingIDs(bindings)
	}
	return ask(name, bindings)
}
