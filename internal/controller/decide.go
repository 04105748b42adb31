package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology"
)

// identity tells objects of a topology apart.
type identity struct {
	kind                                             v1alpha1.ObjectKind
	name, source, destination, routingKey, arguments string
}

func identityOf(entry v1alpha1.TopologyEntry) identity {
	return identity{entry.Kind, entry.Name, entry.Source, entry.Destination, entry.RoutingKey, entry.Arguments}
}

// history is what a status remembers of objects.
type history map[identity]v1alpha1.TopologyEntry

func historyOf(entries []v1alpha1.TopologyEntry) history {
	known := make(history, len(entries))
	for _, entry := range entries {
		known.add(entry)
	}
	return known
}

func (h history) add(entry v1alpha1.TopologyEntry) { h[identityOf(entry)] = entry }

// wasInSync says whether an object was once seen just as it is desired now.
func (h history) wasInSync(entry v1alpha1.TopologyEntry, shape string) bool {
	return shape != "" && h[identityOf(entry)].Shape == shape
}

// plan is what to do about a comparison.
type plan struct {
	// declare holds the objects to declare and bind now.
	declare topology.Topology
	// sources are bindings that bring messages in for the first time. They are bound when all of declare is at the broker:
	// a message must find the tiers, the dead-letter exchange and the dead-letter queue that its consumer relies on.
	sources []topology.Binding
	// planned tells of the same objects by their entries.
	planned history
	// failed are those of them of which the broker did not confirm that they were declared.
	failed objects
	// drift says that an object is missing that was once in sync.
	drift bool
}

// decide chooses which missing objects are declared. Under Report none is. While an object needs recreation, only what
// was in sync before comes back, and the bindings of that object stay as they are; if a broker upgrade is all that made
// it differ, its bindings come back too. What is missing and not declared cannot be bound. Messages are let in last: a source
// binding that is new waits for all else.
func decide(desired topology.Topology, comparison topology.Comparison, known history, policy v1alpha1.DriftPolicy) plan {
	decided := plan{planned: history{}}
	shapes := desired.Shapes()
	frozen := objects{}
	if !comparison.Upgraded {
		frozen = recreatedObjects(comparison)
	}
	recreate, absent := comparison.Recreate(), objects{}
	takes := func(at int) bool {
		entry := comparison.Entries[at]
		if entry.State != v1alpha1.StateMissing {
			return false
		}
		before := known.wasInSync(entry, shapes[at])
		decided.drift = decided.drift || before
		switch {
		case policy == v1alpha1.DriftPolicyReport:
			return false
		case recreate && !before:
			return false
		}
		return !frozen.holds(entry.Source, entry.Destination) && !absent.holds(entry.Source, entry.Destination)
	}
	at := 0
	for _, exchange := range desired.Exchanges {
		switch {
		case takes(at) && exchange.Declare:
			decided.planned.add(comparison.Entries[at])
			decided.declare.Exchanges = append(decided.declare.Exchanges, exchange)
		case comparison.Entries[at].State == v1alpha1.StateMissing:
			absent.add(comparison.Entries[at])
		}
		at++
	}
	for _, queue := range desired.Queues {
		switch {
		case takes(at):
			decided.planned.add(comparison.Entries[at])
			decided.declare.Queues = append(decided.declare.Queues, queue)
		case comparison.Entries[at].State == v1alpha1.StateMissing:
			absent.add(comparison.Entries[at])
		}
		at++
	}
	for _, binding := range desired.Bindings {
		entry := comparison.Entries[at]
		switch {
		case !takes(at):
		case entry.Role == v1alpha1.RoleSource && !known.wasInSync(entry, shapes[at]):
			decided.sources = append(decided.sources, binding)
		default:
			decided.planned.add(entry)
			decided.declare.Bindings = append(decided.declare.Bindings, binding)
		}
		at++
	}
	return decided
}

// binds is how many bindings a plan makes.
func (p plan) binds() int { return len(p.declare.Bindings) + len(p.sources) }

// objects is a set of exchanges and queues, which may have the same names.
type objects map[identity]bool

func (o objects) add(entry v1alpha1.TopologyEntry) {
	o[identity{kind: entry.Kind, name: entry.Name}] = true
}

// holds says whether the set has either end of a binding.
func (o objects) holds(source, destination string) bool {
	return o[identity{kind: v1alpha1.KindExchange, name: source}] || o[identity{kind: v1alpha1.KindQueue, name: destination}]
}

func recreatedObjects(comparison topology.Comparison) objects {
	set := objects{}
	for _, entry := range comparison.Entries {
		if entry.State == v1alpha1.StateRecreationRequired {
			set.add(entry)
		}
	}
	return set
}

// count is how many objects a plan declares.
func (p plan) count() int {
	return len(p.declare.Exchanges) + len(p.declare.Queues) + p.binds()
}

// summary counts what a plan declares: 1 exchange, 5 queues and 1 binding.
func (p plan) summary() string {
	var parts []string
	for _, part := range []struct {
		count int
		noun  string
	}{
		{len(p.declare.Exchanges), "exchange"},
		{len(p.declare.Queues), "queue"},
		{p.binds(), "binding"},
	} {
		switch part.count {
		case 0:
		case 1:
			parts = append(parts, "1 "+part.noun)
		default:
			parts = append(parts, fmt.Sprintf("%d %ss", part.count, part.noun))
		}
	}
	last := len(parts) - 1
	if last < 1 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}

// declares says whether a plan declares the object of an entry.
func (p plan) declares(entry v1alpha1.TopologyEntry) bool {
	_, planned := p.planned[identityOf(entry)]
	return planned
}

// remember adds to the entries of a comparison what outlives one look: where an object came from, and the shape in
// which it was last in sync. What is about to be declared is written down as declared, without a shape, so that nothing is
// at the broker that is not written down, even if the operator dies in between; see topology.Intended.
func remember(entries []v1alpha1.TopologyEntry, shapes []string, known history, done plan) []v1alpha1.TopologyEntry {
	remembered := slices.Clone(entries)
	for i := range remembered {
		entry := &remembered[i]
		if entry.Role == "" {
			continue // it is foreign
		}
		before := known[identityOf(*entry)]
		entry.Shape = before.Shape
		if entry.State == v1alpha1.StateInSync {
			entry.Shape = shapes[i]
		}
		if entry.Kind != v1alpha1.KindBinding {
			entry.Origin = origin(*entry, before, done)
		}
	}
	return remembered
}

// origin is where an exchange or queue came from. One that is not as it was to be declared, and never was, is somebody
// else's, who was there first. So may be one that was to be declared and is there, though nobody knows who declared it.
func origin(entry, before v1alpha1.TopologyEntry, done plan) v1alpha1.Origin {
	inSync := entry.State == v1alpha1.StateInSync
	unconfirmed := topology.Intended(before) || done.failed[identity{kind: entry.Kind, name: entry.Name}]
	switch {
	case entry.State == v1alpha1.StateRecreationRequired && entry.Shape == "":
		return v1alpha1.OriginAdopted
	case inSync && unconfirmed && !done.confirms(entry):
		return v1alpha1.OriginAdopted
	case entry.State != v1alpha1.StateRecreationRequired && done.declares(entry):
		return v1alpha1.OriginDeclared
	case before.Origin == "" && entry.State != v1alpha1.StateMissing:
		return v1alpha1.OriginAdopted
	}
	return before.Origin
}

// confirms says whether an object was declared by a plan, and the broker said so.
func (p plan) confirms(entry v1alpha1.TopologyEntry) bool {
	return p.declares(entry) && !p.failed[identity{kind: entry.Kind, name: entry.Name}]
}

// failing is the plan with what failed of it.
func (p plan) failing(err error) plan {
	p.failed = objects{}
	for _, failure := range failuresIn(err) {
		p.failed[identity{kind: kinds[failure.Kind], name: failure.Name}] = true
	}
	return p
}

// kinds are those of status.topology, by what a rabbit.ObjectError calls them.
var kinds = map[string]v1alpha1.ObjectKind{"exchange": v1alpha1.KindExchange, "queue": v1alpha1.KindQueue, "binding": v1alpha1.KindBinding}

// failuresIn finds the failures of single objects in an error.
func failuresIn(err error) []*rabbit.ObjectError {
	joined, several := err.(interface{ Unwrap() []error })
	if !several {
		if failure, ok := errors.AsType[*rabbit.ObjectError](err); ok {
			return []*rabbit.ObjectError{failure}
		}
		return nil
	}
	var failures []*rabbit.ObjectError
	for _, one := range joined.Unwrap() {
		failures = append(failures, failuresIn(one)...)
	}
	return failures
}

// newlyOwned says whether entries have an object that was not this resource's own before.
func newlyOwned(entries []v1alpha1.TopologyEntry, known history) bool {
	return slices.ContainsFunc(topology.Owned(entries), func(entry v1alpha1.TopologyEntry) bool {
		return len(topology.Owned([]v1alpha1.TopologyEntry{known[identityOf(entry)]})) == 0
	})
}
