package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Context is what Diff has to know beyond the two sides that it compares.
type Context struct {
	// Older is what the same spec asks for on older RabbitMQ versions: such objects only need recreation because the
	// broker was upgraded.
	Older []Topology
	// Wanted says whether another ConsumerQueue wants a binding. Nil if none does.
	Wanted func(BindingID) bool
	// Owned are the objects that Warren declared or took over for this ConsumerQueue.
	Owned []v1alpha1.TopologyEntry
	// Hold says why nothing may be removed for now; empty if it may.
	Hold string
	// Shared says whether another ConsumerQueue has, or is to have, an object. Nil if none does.
	Shared func(v1alpha1.TopologyEntry) bool
	// ClearPolicy is the command that deletes a policy. Without it there are no advisories about fences.
	ClearPolicy func(name string) string
}

// Comparison is what Diff found.
type Comparison struct {
	// Entries lists every object of the topology with its state, then what has left it, then foreign bindings.
	Entries []v1alpha1.TopologyEntry
	// Changes is what differs, in the order of the entries; empty when in sync.
	Changes []v1alpha1.Change
	// Departures are the objects that are not wanted any more and still there.
	Departures []Departure
	// Advisories are traps in what is as asked for.
	Advisories []v1alpha1.Advisory
	// MissingExchanges names exchanges that do not exist and that Warren does not declare.
	MissingExchanges []string
	// MissingReturn says what is wrong with the return route; empty if nothing is.
	MissingReturn string
	// Unlisted is how many foreign bindings there are beyond those among the entries.
	Unlisted int
	// Upgraded says that whatever needs recreation is as this spec asks for it on an older RabbitMQ.
	Upgraded bool
}

// Recreate says whether any object needs recreation.
func (c Comparison) Recreate() bool {
	return slices.ContainsFunc(c.Changes, func(change v1alpha1.Change) bool { return change.Effect == v1alpha1.EffectRecreate })
}

// Diff compares a topology with what a broker has of it.
func Diff(desired Topology, observed Observed, context Context) Comparison {
	comparison := Comparison{}
	for _, exchange := range desired.Exchanges {
		comparison.exchange(exchange, observed)
	}
	for _, queue := range desired.Queues {
		comparison.queue(queue, observed)
	}
	bound, others := observed.bindingsOf(desired)
	for _, binding := range desired.Bindings {
		comparison.binding(binding, bound)
	}
	older := explaining(comparison, observed, context.Older)
	comparison.Upgraded = older != nil
	comparison.departing(desired, observed, context)
	comparison.foreign(others, desired.Return, observed, context.Wanted, older)
	comparison.returnRoute(desired, observed)
	comparison.Advisories = append(comparison.Advisories, shadowed(desired, observed.Policies)...)
	comparison.Advisories = append(comparison.Advisories, fenced(desired, observed, context)...)
	comparison.Advisories = append(comparison.Advisories, fewMembers(desired, observed)...)
	return comparison
}

func (c *Comparison) exchange(desired Exchange, observed Observed) {
	found, exists := observed.Exchanges[desired.Name]
	entry := v1alpha1.TopologyEntry{Kind: v1alpha1.KindExchange, Name: desired.Name, Role: desired.Role, State: v1alpha1.StateInSync}
	differences := exchangeDifferences(desired, found)
	switch {
	case !exists && !desired.Declare:
		entry.State = v1alpha1.StateMissing
		c.MissingExchanges = append(c.MissingExchanges, desired.Name)
		c.Changes = append(c.Changes, v1alpha1.Change{
			Kind: v1alpha1.KindExchange, Name: desired.Name, Effect: v1alpha1.EffectNone,
			Message: fmt.Sprintf("exchange %q does not exist and Warren is not asked to declare it: "+
				"declare it, or give the binding's exchange a type", desired.Name),
		})
	case !exists:
		entry.State = v1alpha1.StateMissing
		c.Changes = append(c.Changes, v1alpha1.Change{
			Kind: v1alpha1.KindExchange, Name: desired.Name, Effect: v1alpha1.EffectDeclare,
			Message: fmt.Sprintf("%s exchange %q is missing", desired.Type, desired.Name),
		})
	case len(differences) > 0:
		entry.State = v1alpha1.StateRecreationRequired
		for _, d := range differences {
			c.Changes = append(c.Changes, d.change(v1alpha1.KindExchange, desired.Name, "an exchange cannot be changed"))
		}
	}
	c.Entries = append(c.Entries, entry)
}

func (c *Comparison) queue(desired Queue, observed Observed) {
	found, exists := observed.Queues[desired.Name]
	entry := v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: desired.Name, Role: desired.Role, State: v1alpha1.StateInSync}
	differences := queueDifferences(desired, found)
	switch {
	case !exists:
		entry.State = v1alpha1.StateMissing
		c.Changes = append(c.Changes, v1alpha1.Change{
			Kind: v1alpha1.KindQueue, Name: desired.Name, Effect: v1alpha1.EffectDeclare,
			Message: fmt.Sprintf("queue %q is missing", desired.Name),
		})
	case len(differences) > 0:
		entry.State = v1alpha1.StateRecreationRequired
		for _, d := range differences {
			c.Changes = append(c.Changes, d.change(v1alpha1.KindQueue, desired.Name, "a queue's arguments cannot be changed"))
		}
	}
	c.Entries = append(c.Entries, entry)
}

// bindingsOf tells those observed bindings of a topology's queues that the topology wants from the others.
func (o Observed) bindingsOf(desired Topology) (wanted bindingSet, others []BindingID) {
	all, wanted := setOf(desired.Bindings), bindingSet{}
	for _, queue := range desired.Queues {
		for _, binding := range o.BindingsTo[queue.Name] {
			if binding.ToExchange {
				continue
			}
			id := binding.id()
			if all[id] {
				wanted[id] = true
			} else {
				others = append(others, id)
			}
		}
	}
	return wanted, others
}

func (c *Comparison) binding(desired Binding, bound bindingSet) {
	entry := bindingEntry(desired)
	if bound[desired.ID()] {
		c.Entries = append(c.Entries, entry)
		return
	}
	entry.State = v1alpha1.StateMissing
	c.Entries = append(c.Entries, entry)
	c.Changes = append(c.Changes, v1alpha1.Change{
		Kind: entry.Kind, Source: entry.Source, Destination: entry.Destination, RoutingKey: entry.RoutingKey, Arguments: entry.Arguments,
		Effect: v1alpha1.EffectBind,
		Message: fmt.Sprintf("queue %q is not bound to exchange %q with routing key %q%s",
			desired.Destination, desired.Source, desired.RoutingKey, withArguments(desired.Arguments)),
	})
}

func bindingEntry(binding Binding) v1alpha1.TopologyEntry {
	return v1alpha1.TopologyEntry{
		Kind: v1alpha1.KindBinding, Source: binding.Source, Destination: binding.Destination, RoutingKey: binding.RoutingKey,
		Arguments: binding.Arguments.JSON(), Role: binding.Role, State: v1alpha1.StateInSync,
	}
}

func withArguments(arguments Arguments) string {
	if len(arguments) == 0 {
		return ""
	}
	return " and arguments " + arguments.JSON()
}

func (o ObservedBinding) binding() Binding {
	return Binding{Source: o.Source, Destination: o.Destination, RoutingKey: o.RoutingKey, Arguments: o.Arguments}
}

// listedForeign is how many foreign bindings are listed. The others are counted.
const listedForeign = 64

// foreign lists bindings into our queues that nobody wants, the first ones in order. They are never removed: they may be
// somebody's.
func (c *Comparison) foreign(others []BindingID, route *Return, observed Observed, wanted func(BindingID) bool, older *Topology) {
	known := bindingSet{}
	if older != nil {
		known = setOf(older.Bindings)
	}
	for _, departure := range c.Departures {
		if departure.Entry.Kind == v1alpha1.KindBinding {
			known[departure.id()] = true
		}
	}
	foreign := slices.DeleteFunc(others, func(id BindingID) bool {
		return known[id] || route.has(id, observed) || (wanted != nil && wanted(id))
	})
	slices.SortFunc(foreign, BindingID.Compare)
	c.Unlisted = max(0, len(foreign)-listedForeign)
	for _, id := range foreign[:len(foreign)-c.Unlisted] {
		entry := id.entry()
		entry.State = v1alpha1.StateForeign
		c.Entries = append(c.Entries, entry)
	}
}

// explaining is the older topology that the observed objects are; nil if there is none, or nothing needs recreation. It
// must have every object that needs recreation just as it was observed, and also what decides where dead letters go: the
// main queue and the exchanges. Otherwise it may be another change of the spec that made a part alike, and messages would
// take a way that neither topology means.
func explaining(comparison Comparison, observed Observed, older []Topology) *Topology {
	if !comparison.Recreate() {
		return nil
	}
	for i := range older {
		unexplained := func(entry v1alpha1.TopologyEntry) bool {
			leads := entry.State == v1alpha1.StateInSync && (entry.Role == v1alpha1.RoleMain || entry.Kind == v1alpha1.KindExchange)
			return (leads || entry.State == v1alpha1.StateRecreationRequired) && !older[i].has(entry, observed)
		}
		if !slices.ContainsFunc(comparison.Entries, unexplained) {
			return &older[i]
		}
	}
	return nil
}

// has says whether the observed exchange or queue of an entry is as this topology wants it.
func (t Topology) has(entry v1alpha1.TopologyEntry, observed Observed) bool {
	if entry.Kind == v1alpha1.KindExchange {
		return slices.ContainsFunc(t.Exchanges, func(e Exchange) bool {
			return e.Name == entry.Name && len(exchangeDifferences(e, observed.Exchanges[e.Name])) == 0
		})
	}
	return slices.ContainsFunc(t.Queues, func(q Queue) bool {
		return q.Name == entry.Name && len(queueDifferences(q, observed.Queues[q.Name])) == 0
	})
}

// difference is one property that cannot be changed on an existing object.
type difference struct {
	path              string
	desired, observed any
}

// absent is the side of a difference that does not have the property; nil is an argument without a value.
type absent struct{}

func exchangeDifferences(desired Exchange, found ObservedExchange) []difference {
	if !desired.Declare {
		return nil
	}
	differences := propertyDifferences([]difference{
		{path: "type", desired: string(desired.Type), observed: found.Type},
		{path: "durable", desired: true, observed: found.Durable},
		{path: "autoDelete", desired: false, observed: found.AutoDelete},
		{path: "internal", desired: false, observed: found.Internal},
	})
	if desired.Role == v1alpha1.RoleSource {
		return differences // its owner may have given it an alternate exchange
	}
	return append(differences, argumentDifferences(nil, found.Arguments)...)
}

func queueDifferences(desired Queue, found ObservedQueue) []difference {
	differences := propertyDifferences([]difference{
		{path: "durable", desired: true, observed: found.Durable},
		{path: "autoDelete", desired: false, observed: found.AutoDelete},
		{path: "exclusive", desired: false, observed: found.Exclusive},
	})
	return append(differences, argumentDifferences(desired.Arguments, found.Arguments)...)
}

func propertyDifferences(properties []difference) []difference {
	return slices.DeleteFunc(properties, func(d difference) bool { return sameValue(d.desired, d.observed) })
}

// argumentDifferences compares arguments one by one. Absent and present with the broker's default differ, as they do to
// the broker.
func argumentDifferences(desired, found Arguments) []difference {
	var differences []difference
	names := append(desired.Keys(), found.Keys()...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		want, isWanted := desired[name]
		have, isThere := found[name]
		if isWanted == isThere && sameValue(want, have) {
			continue
		}
		d := difference{path: "arguments." + name, desired: want, observed: have}
		if !isWanted {
			d.desired = absent{}
		}
		if !isThere {
			d.observed = absent{}
		}
		differences = append(differences, d)
	}
	return differences
}

func (d difference) change(kind v1alpha1.ObjectKind, object, why string) v1alpha1.Change {
	change := v1alpha1.Change{Kind: kind, Name: object, Path: d.path, Effect: v1alpha1.EffectRecreate}
	name, is, should := strings.TrimPrefix(d.path, "arguments."), "is not set", "should not be set"
	if d.observed != any(absent{}) {
		change.Observed = display(d.observed)
		is = "is " + change.Observed
	}
	if d.desired != any(absent{}) {
		change.Desired = display(d.desired)
		should = "should be " + change.Desired
	}
	change.Message = fmt.Sprintf("%s %s, %s; %s: it must be recreated", name, is, should, why)
	return change
}

func quoted(names []string) []string {
	quotes := make([]string, len(names))
	for i, name := range names {
		quotes[i] = strconv.Quote(name)
	}
	return quotes
}
