package topology

import (
	"cmp"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// BindingID is what makes a binding of a queue the same binding to the broker. It is comparable: bindings come in tens of
// thousands, and are looked up, not searched for.
type BindingID struct {
	Source, Destination, RoutingKey string
	// Arguments as JSON.
	Arguments string
}

// ID identifies a binding.
func (b Binding) ID() BindingID {
	return BindingID{b.Source, b.Destination, b.RoutingKey, b.Arguments.JSON()}
}

// id identifies a binding to a queue.
func (o ObservedBinding) id() BindingID {
	return BindingID{o.Source, o.Destination, o.RoutingKey, o.Arguments.JSON()}
}

// is says whether an entry is about the binding. Arguments come last: to render them takes longest.
func (b Binding) is(entry v1alpha1.TopologyEntry) bool {
	return entry.Kind == v1alpha1.KindBinding && b.Source == entry.Source && b.Destination == entry.Destination &&
		b.RoutingKey == entry.RoutingKey && b.Arguments.JSON() == entry.Arguments
}

// Compare orders bindings.
func (id BindingID) Compare(other BindingID) int {
	return cmp.Or(cmp.Compare(id.Source, other.Source), cmp.Compare(id.Destination, other.Destination),
		cmp.Compare(id.RoutingKey, other.RoutingKey), cmp.Compare(id.Arguments, other.Arguments))
}

func (id BindingID) entry() v1alpha1.TopologyEntry {
	return v1alpha1.TopologyEntry{
		Kind: v1alpha1.KindBinding, Source: id.Source, Destination: id.Destination, RoutingKey: id.RoutingKey, Arguments: id.Arguments,
	}
}

// bindingSet holds bindings of queues.
type bindingSet map[BindingID]bool

func setOf(bindings []Binding) bindingSet {
	set := make(bindingSet, len(bindings))
	for _, binding := range bindings {
		set[binding.ID()] = true
	}
	return set
}

// has says whether an observed binding is in the set. Bindings of exchanges never are.
func (s bindingSet) has(binding ObservedBinding) bool {
	return len(s) > 0 && !binding.ToExchange && s[binding.id()]
}
