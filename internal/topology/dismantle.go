package topology

import (
	"fmt"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Dismantling is the next step in taking away what a ConsumerQueue leaves behind: the first of its lists that is not
// empty. After each step it is worked out anew, for what is gone makes others free to go.
type Dismantling struct {
	// Work are the delay tiers and after them the main queue: they go together or not at all.
	Work []string
	// WorkFedBy names a queue of somebody else that dead-letters into Work; empty if there is none.
	WorkFedBy string
	// DeadLetter are dead-letter queues that no queue dead-letters to. They go one by one.
	DeadLetter []string
	// Bindings lead to queues that stay for others, and nobody else wants them.
	Bindings []Binding
	// Exchanges are those that nothing needs any more.
	Exchanges []string
	// Stays is what is left where all lists are empty. Exchanges that messages come from are not counted: they are not
	// Warren's to delete.
	Stays []Stay
}

// Stay is an object of a deleted ConsumerQueue that stays at the broker.
type Stay struct {
	Entry v1alpha1.TopologyEntry
	Why   string
}

// Dismantle decides what to take away of the objects that a ConsumerQueue owned. Shared is what messages call the
// ConsumerQueue that an object is left to, or is empty; kept says of queues that were found not to be empty why they stay.
func Dismantle(
	owned []v1alpha1.TopologyEntry, observed Observed, shared func(v1alpha1.TopologyEntry) string, kept map[string]string,
) Dismantling {
	d := Dismantling{}
	var queues, bindings, exchanges []v1alpha1.TopologyEntry
	for _, entry := range owned {
		other := shared(entry)
		switch {
		case !observed.Has(entry), entry.Kind == v1alpha1.KindExchange && entry.Role == v1alpha1.RoleSource:
		case other != "" && entry.Kind != v1alpha1.KindBinding:
			d.Stays = append(d.Stays, Stay{entry, other + " has it too"})
		case other != "":
		case entry.Kind == v1alpha1.KindQueue:
			queues = append(queues, entry)
		case entry.Kind == v1alpha1.KindBinding:
			bindings = append(bindings, entry)
		default:
			exchanges = append(exchanges, entry)
		}
	}
	d.takeWork(queues, observed)
	d.takeDeadLetter(queues, observed, kept)
	d.takeBindings(bindings, queues, observed)
	d.takeExchanges(exchanges, observed)
	return d
}

// SplitByOrigin tells what Warren declared from what it found. A binding has no origin: it counts as declared if Warren
// declared both its ends.
func SplitByOrigin(owned []v1alpha1.TopologyEntry) (declared, found []v1alpha1.TopologyEntry) {
	isDeclared := func(kind v1alpha1.ObjectKind, name string) bool {
		return slices.ContainsFunc(owned, func(e v1alpha1.TopologyEntry) bool {
			return e.Kind == kind && e.Name == name && e.Origin == v1alpha1.OriginDeclared
		})
	}
	for _, entry := range owned {
		ours := entry.Origin == v1alpha1.OriginDeclared
		if entry.Kind == v1alpha1.KindBinding {
			ours = isDeclared(v1alpha1.KindExchange, entry.Source) && isDeclared(v1alpha1.KindQueue, entry.Destination)
		}
		if ours {
			declared = append(declared, entry)
		} else {
			found = append(found, entry)
		}
	}
	return declared, found
}

func (d *Dismantling) takeWork(queues []v1alpha1.TopologyEntry, observed Observed) {
	for _, role := range []v1alpha1.Role{v1alpha1.RoleDelayTier, v1alpha1.RoleMain} {
		for _, entry := range queues {
			if entry.Role == role {
				d.Work = append(d.Work, entry.Name)
			}
		}
	}
	for _, queue := range d.Work {
		if from := observed.feeds(queue, d.Work); from != "" {
			d.WorkFedBy = from
		}
	}
}

func (d *Dismantling) takeDeadLetter(queues []v1alpha1.TopologyEntry, observed Observed, kept map[string]string) {
	for _, entry := range queues {
		if entry.Role != v1alpha1.RoleDeadLetter {
			continue
		}
		from := observed.feeds(entry.Name, nil)
		switch {
		case kept[entry.Name] != "":
			d.Stays = append(d.Stays, Stay{entry, kept[entry.Name]})
		case from != "":
			d.Stays = append(d.Stays, Stay{entry, fmt.Sprintf("queue %q dead-letters to it", from)})
		default:
			d.DeadLetter = append(d.DeadLetter, entry.Name)
		}
	}
}

// takeBindings leaves those of our own queues: they go, or stay, with the queue.
func (d *Dismantling) takeBindings(bindings, queues []v1alpha1.TopologyEntry, observed Observed) {
	all := bindingsOf(bindings)
	leaving := setOf(all)
	for _, binding := range all {
		ours := slices.ContainsFunc(queues, func(queue v1alpha1.TopologyEntry) bool { return queue.Name == binding.Destination })
		if !ours && observed.neededBy(binding, leaving) == "" {
			d.Bindings = append(d.Bindings, binding)
		}
	}
}

func (d *Dismantling) takeExchanges(exchanges []v1alpha1.TopologyEntry, observed Observed) {
	leaving := setOf(d.Bindings)
	for _, entry := range exchanges {
		if use := observed.uses(entry.Name, leaving); use != "" {
			d.Stays = append(d.Stays, Stay{entry, use})
			continue
		}
		d.Exchanges = append(d.Exchanges, entry.Name)
	}
}
