package plan

import (
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Input is what Diff has to know beyond the two sides that it compares.
type Input struct {
	// Older returns what the same spec asks for on older RabbitMQ versions: such objects only need recreation because the
	// broker was upgraded.
	Older func() []topology.Topology
	// Unwanted lists those of a queue's bindings that no other ConsumerQueue wants. Nil if there is none that could.
	Unwanted func(queue string, bindings []vhost.Binding) []vhost.ID
	// UnwantedFrom lists those of an exchange's bindings that no other ConsumerQueue wants that may. Nil if there is none that could.
	UnwantedFrom func(exchange string, bindings []vhost.Binding) []vhost.ID
	// Owned are the objects that Warren declared or took over for this ConsumerQueue.
	Owned []v1alpha1.TopologyEntry
	// Hold says why nothing may be removed for now; empty if it may.
	Hold string
	// ContractHold says why consumers may still publish to what has left the spec; empty if they do not.
	ContractHold string
	// Shared says whether another ConsumerQueue has, or is to have, an object. Nil if none does.
	Shared func(v1alpha1.TopologyEntry) bool
	// ClearPolicy is the command that deletes a policy. Without it there are no advisories about fences.
	ClearPolicy func(name string) string
	// Recreates: Warren recreates queues itself; see spec.recreatePolicy.
	Recreates bool
	// Version is that of the broker. Without it there are no advisories about dead letters.
	Version vhost.Version
}

// Entry is an object of a comparison: as status.topology tells of it, and as it is desired.
type Entry struct {
	v1alpha1.TopologyEntry

	// Hash tells how the object is desired; empty if it is not desired any more, or never was.
	Hash string
	// Exchange, Queue or Binding is the desired object; all are nil where Hash is empty.
	Exchange *topology.Exchange
	Queue    *topology.Queue
	Binding  *topology.Binding
}

// ID identifies the object.
func (e Entry) ID() vhost.ID { return topology.IDOf(e.TopologyEntry) }

// Comparison is what Diff found.
type Comparison struct {
	// Entries lists every object of the topology with its state, then orphans, then foreign bindings.
	Entries []Entry
	// Changes is what differs, in the order of the entries; empty when in sync.
	Changes []v1alpha1.Change
	// Orphans are the objects that are no longer desired and still there.
	Orphans []Orphan
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
	// Recreates: Warren recreates the queues that need recreation, so what these need is declared before.
	Recreates bool
}

// Recreate says whether any object needs recreation.
func (c Comparison) Recreate() bool {
	return slices.ContainsFunc(c.Changes, func(change v1alpha1.Change) bool { return change.Effect == v1alpha1.EffectRecreate })
}

// Desired counts the objects that are desired.
func (c Comparison) Desired() int {
	count := 0
	for _, entry := range c.Entries {
		if entry.Hash != "" {
			count++
		}
	}
	return count
}

// recreated are the exchanges and queues that need recreation.
func (c Comparison) recreated() vhost.IDs {
	ids := vhost.IDs{}
	for _, entry := range c.Entries {
		if entry.State == v1alpha1.StateRecreationRequired {
			ids[entry.ID()] = true
		}
	}
	return ids
}

// changeOf is a change of the object of an entry.
func changeOf(entry v1alpha1.TopologyEntry, effect v1alpha1.Effect, message string) v1alpha1.Change {
	return v1alpha1.Change{
		Kind: entry.Kind, Name: entry.Name, Source: entry.Source, Destination: entry.Destination,
		RoutingKey: entry.RoutingKey, Arguments: entry.Arguments, Effect: effect, Message: message,
	}
}
