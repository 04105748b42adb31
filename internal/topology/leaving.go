package topology

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Departure is an object of ours that the spec does not want any more.
type Departure struct {
	Entry v1alpha1.TopologyEntry
	// Blocked says why it has to stay for now; empty if it may go: a binding or an exchange at once, a queue as soon as it
	// is provably empty.
	Blocked string
}

// departing lists what a topology owned and does not want any more, as far as it is still there. What another
// ConsumerQueue wants or holds is left to it, and exchanges that messages come from are never ours to delete.
func (c *Comparison) departing(desired Topology, observed Observed, context Context) {
	gone := slices.DeleteFunc(slices.Clone(context.Owned), func(entry v1alpha1.TopologyEntry) bool {
		return desired.Wants(entry) || !observed.Has(entry) || (context.Shared != nil && context.Shared(entry)) ||
			(entry.Kind == v1alpha1.KindExchange && entry.Role == v1alpha1.RoleSource)
	})
	blocked := make([]string, len(gone))
	leaving, unbound := setOf(bindingsOf(gone)), bindingSet{}
	for i, entry := range gone {
		if entry.Kind == v1alpha1.KindBinding {
			if blocked[i] = context.Hold; blocked[i] == "" {
				blocked[i] = c.bindingBlocked(entry, leaving, observed)
			}
			if blocked[i] == "" {
				unbound[bindingOf(entry).ID()] = true
			}
		}
	}
	for i, entry := range gone {
		if entry.Kind != v1alpha1.KindBinding {
			if blocked[i] = context.Hold; blocked[i] == "" {
				blocked[i] = c.objectBlocked(entry, unbound, observed)
			}
		}
		entry.State = v1alpha1.StateOrphaned
		departure := Departure{Entry: entry, Blocked: blocked[i]}
		c.Departures, c.Entries = append(c.Departures, departure), append(c.Entries, entry)
		if change, now := departure.change(); now {
			c.Changes = append(c.Changes, change)
		}
	}
}

// Binding is the binding that departs.
func (d Departure) Binding() Binding { return bindingOf(d.Entry) }

func (d Departure) id() BindingID {
	return BindingID{d.Entry.Source, d.Entry.Destination, d.Entry.RoutingKey, d.Entry.Arguments}
}

// Keep has exchanges stay that were to be deleted at once, for a reason that only the broker knew.
func (c *Comparison) Keep(exchanges []string, why string) {
	kept := func(kind v1alpha1.ObjectKind, name string) bool {
		return kind == v1alpha1.KindExchange && slices.Contains(exchanges, name)
	}
	for i := range c.Departures {
		if kept(c.Departures[i].Entry.Kind, c.Departures[i].Entry.Name) {
			c.Departures[i].Blocked = why
		}
	}
	c.Changes = slices.DeleteFunc(c.Changes, func(change v1alpha1.Change) bool {
		return change.Effect == v1alpha1.EffectDelete && kept(change.Kind, change.Name)
	})
}

// change is what is to be done about a departure at once. A queue has none: it goes when it is empty, and that it waits
// for that is not drift.
func (d Departure) change() (v1alpha1.Change, bool) {
	if d.Blocked != "" || d.Entry.Kind == v1alpha1.KindQueue {
		return v1alpha1.Change{}, false
	}
	change := v1alpha1.Change{
		Kind: d.Entry.Kind, Name: d.Entry.Name, Source: d.Entry.Source, Destination: d.Entry.Destination,
		RoutingKey: d.Entry.RoutingKey, Arguments: d.Entry.Arguments, Effect: v1alpha1.EffectDelete,
		Message: fmt.Sprintf("exchange %q is not wanted any more", d.Entry.Name),
	}
	if d.Entry.Kind == v1alpha1.KindBinding {
		change.Effect = v1alpha1.EffectUnbind
		change.Message = fmt.Sprintf("queue %q is still bound to exchange %q with routing key %q",
			d.Entry.Destination, d.Entry.Source, d.Entry.RoutingKey)
	}
	return change, true
}

// NotThereYet is why what has left the spec stays at first. What is new comes first: until everything that is wanted is
// there as wanted, only bindings of sources go, and even they not while their queue waits to be recreated.
const NotThereYet = "what is wanted instead is not there yet"

// bindingBlocked says why a binding has to stay for now.
func (c *Comparison) bindingBlocked(entry v1alpha1.TopologyEntry, leaving bindingSet, observed Observed) string {
	recreate := func(kind v1alpha1.ObjectKind, name string) bool {
		return !c.Upgraded && c.stateOf(kind, name) == v1alpha1.StateRecreationRequired
	}
	switch {
	case recreate(v1alpha1.KindQueue, entry.Destination):
		return fmt.Sprintf("queue %q must be recreated first, and is left as it is until then", entry.Destination)
	case recreate(v1alpha1.KindExchange, entry.Source):
		return fmt.Sprintf("exchange %q must be recreated first, and is left as it is until then", entry.Source)
	case entry.Role != v1alpha1.RoleSource && c.unfinished():
		return NotThereYet
	}
	if queue := observed.neededBy(bindingOf(entry), leaving); queue != "" {
		return fmt.Sprintf("queue %q still dead-letters by it", queue)
	}
	return ""
}

// objectBlocked says why an exchange or queue has to stay for now.
func (c *Comparison) objectBlocked(entry v1alpha1.TopologyEntry, unbound bindingSet, observed Observed) string {
	if c.unfinished() {
		return NotThereYet
	}
	if entry.Kind == v1alpha1.KindExchange {
		return observed.uses(entry.Name, unbound)
	}
	if queue := observed.feeds(entry.Name, nil); queue != "" {
		return fmt.Sprintf("queue %q still dead-letters to it", queue)
	}
	if bindings := observed.BindingsTo[entry.Name]; len(bindings) > 0 {
		return fmt.Sprintf("it is still bound to exchange %q", bindings[0].Source)
	}
	return ""
}

// unfinished says whether something that is wanted is not there, or not as wanted; but for what Warren cannot bring
// about, and for what only a broker upgrade explains.
func (c *Comparison) unfinished() bool {
	return slices.ContainsFunc(c.Entries, func(entry v1alpha1.TopologyEntry) bool {
		switch entry.State {
		case v1alpha1.StateMissing:
			return entry.Role != v1alpha1.RoleSource
		case v1alpha1.StateRecreationRequired:
			return !c.Upgraded
		}
		return false
	})
}

func (c *Comparison) stateOf(kind v1alpha1.ObjectKind, name string) v1alpha1.ObjectState {
	for _, entry := range c.Entries {
		if entry.Kind == kind && entry.Name == name {
			return entry.State
		}
	}
	return v1alpha1.StateUnknown
}

// Wants says whether an object is part of a topology, in whatever shape.
func (t Topology) Wants(entry v1alpha1.TopologyEntry) bool {
	switch entry.Kind {
	case v1alpha1.KindExchange:
		return slices.ContainsFunc(t.Exchanges, func(e Exchange) bool { return e.Name == entry.Name })
	case v1alpha1.KindQueue:
		return slices.ContainsFunc(t.Queues, func(q Queue) bool { return q.Name == entry.Name })
	}
	return slices.ContainsFunc(t.Bindings, func(b Binding) bool { return b.is(entry) })
}

// Has says whether the broker has an object, in whatever shape.
func (o Observed) Has(entry v1alpha1.TopologyEntry) bool {
	switch entry.Kind {
	case v1alpha1.KindExchange:
		_, exists := o.Exchanges[entry.Name]
		return exists
	case v1alpha1.KindQueue:
		_, exists := o.Queues[entry.Name]
		return exists
	}
	return slices.ContainsFunc(o.BindingsTo[entry.Destination], func(b ObservedBinding) bool {
		return !b.ToExchange && b.binding().is(entry)
	})
}

// SameObject says whether two entries are about one object.
func SameObject(a, b v1alpha1.TopologyEntry) bool {
	return a.Kind == b.Kind && a.Name == b.Name && a.Source == b.Source && a.Destination == b.Destination &&
		a.RoutingKey == b.RoutingKey && a.Arguments == b.Arguments
}

// bindingOf is the binding of an entry.
func bindingOf(entry v1alpha1.TopologyEntry) Binding {
	var arguments map[string]any
	decoder := json.NewDecoder(strings.NewReader(entry.Arguments))
	decoder.UseNumber()
	_ = decoder.Decode(&arguments) // of a binding without arguments there is nothing to read
	return Binding{
		Source: entry.Source, Destination: entry.Destination, RoutingKey: entry.RoutingKey,
		Arguments: Normalize(arguments), Role: entry.Role,
	}
}

// bindingsOf are the bindings among entries.
func bindingsOf(entries []v1alpha1.TopologyEntry) []Binding {
	var bindings []Binding
	for _, entry := range entries {
		if entry.Kind == v1alpha1.KindBinding {
			bindings = append(bindings, bindingOf(entry))
		}
	}
	return bindings
}

// Owned are the entries of objects that are a ConsumerQueue's own: exchanges and queues that Warren declared for it, or is
// about to, or has seen just as it wants them, and all bindings but foreign ones. An exchange or queue that was found
// otherwise is somebody else's until it is recreated.
func Owned(entries []v1alpha1.TopologyEntry) []v1alpha1.TopologyEntry {
	return slices.DeleteFunc(slices.Clone(entries), func(entry v1alpha1.TopologyEntry) bool { return !owns(entry) })
}

// Intended says whether an object was about to be declared and has never been seen as wanted since: the broker may have it
// from Warren, from somebody else, or not at all.
func Intended(entry v1alpha1.TopologyEntry) bool {
	return entry.Kind != v1alpha1.KindBinding && entry.Origin == v1alpha1.OriginDeclared && entry.Shape == ""
}

func owns(entry v1alpha1.TopologyEntry) bool {
	if entry.Kind == v1alpha1.KindBinding {
		return entry.Role != ""
	}
	return entry.Origin == v1alpha1.OriginDeclared || entry.Shape != ""
}

// With adds the objects that a topology owned to those that it has to do with.
func (n Names) With(owned []v1alpha1.TopologyEntry) Names {
	all := Names{Queues: slices.Clone(n.Queues), Exchanges: slices.Clone(n.Exchanges), Route: n.Route, Surroundings: n.Surroundings}
	for _, entry := range owned {
		switch entry.Kind {
		case v1alpha1.KindQueue:
			all.Queues = append(all.Queues, entry.Name)
		case v1alpha1.KindExchange:
			all.Exchanges = append(all.Exchanges, entry.Name)
		case v1alpha1.KindBinding:
			all.Queues, all.Exchanges = append(all.Queues, entry.Destination), append(all.Exchanges, entry.Source)
		}
	}
	slices.Sort(all.Queues)
	slices.Sort(all.Exchanges)
	all.Queues, all.Exchanges = slices.Compact(all.Queues), slices.Compact(all.Exchanges)
	return all
}
