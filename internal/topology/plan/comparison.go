package plan

import (
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Input holds the inputs of Diff besides the desired and the observed topology.
type Input struct {
	// Older returns the topology of the same spec on older RabbitMQ versions. An object in such a form requires recreation only because of
	// an upgrade of the broker.
	Older func() []topology.Topology
	// Unwanted returns those bindings of a queue that no other ConsumerQueue specifies. If Unwanted is nil, there is no other
	// ConsumerQueue.
	Unwanted func(queue string, bindings []vhost.Binding) []vhost.ID
	// UnwantedFrom returns those bindings of an exchange that no other ConsumerQueue with a right to the exchange specifies. If
	// UnwantedFrom is nil, there is no other ConsumerQueue.
	UnwantedFrom func(exchange string, bindings []vhost.Binding) []vhost.ID
	// Owned are the objects that Warren declared or adopted for this ConsumerQueue.
	Owned []v1alpha1.TopologyEntry
	// OtherInstance describes another instance of Warren on the vhost; empty if there is none. Warren removes nothing while there is one.
	OtherInstance string
	// ContractPending is why consumers may still publish to objects that have left the spec; empty if they do not.
	ContractPending string
	// Shared reports whether another ConsumerQueue has, or will have, an object. If Shared is nil, none does.
	Shared func(v1alpha1.TopologyEntry) bool
	// WarrenRecreates: Warren recreates queues itself; see spec.recreatePolicy.
	WarrenRecreates bool
	// Version of the broker. If it is zero, there are no advisories about dead letters.
	Version vhost.Version
}

// Entry is an object of a comparison: its entry in status.topology and its desired form.
type Entry struct {
	v1alpha1.TopologyEntry

	// Hash identifies the desired form; empty if the object is not desired.
	Hash string
	// OlderHash identifies the form of an object that is in sync for an older RabbitMQ only; otherwise empty.
	OlderHash string
	// Exchange, Queue or Binding is the desired object. All are nil if Hash is empty.
	Exchange *topology.Exchange
	Queue    *topology.Queue
	Binding  *topology.Binding
}

// ID identifies the object.
func (e Entry) ID() vhost.ID { return topology.IDOf(e.TopologyEntry) }

// Comparison is the result of Diff.
type Comparison struct {
	// Entries has every object of the topology with its state, then orphans, then foreign bindings.
	Entries []Entry
	// Changes are the differences, in the order of the entries; empty when in sync.
	Changes []v1alpha1.Change
	// Orphans are objects that are no longer desired and still exist.
	Orphans []Orphan
	// Advisories describe configuration that is applied but risky.
	Advisories []v1alpha1.Advisory
	// MissingExchanges are exchanges that do not exist and that Warren does not declare.
	MissingExchanges []string
	// MissingReturn describes what is wrong with the return route; empty if it is correct.
	MissingReturn string
	// Unlisted is the number of foreign bindings that Entries leaves out.
	Unlisted int
	// Upgraded is true if every object that requires recreation has the form that this spec has on an older RabbitMQ.
	Upgraded bool
	// OlderIncomplete is true if that form lacks an object other than a source.
	OlderIncomplete bool
	// WarrenRecreates: Warren recreates queues itself, so it first declares the objects that the new queues need.
	WarrenRecreates bool
}

// RequiresRecreation reports whether any object requires recreation.
func (c Comparison) RequiresRecreation() bool {
	return slices.ContainsFunc(c.Changes, func(change v1alpha1.Change) bool { return change.Effect == v1alpha1.EffectRecreate })
}

// Desired returns the number of desired objects.
func (c Comparison) Desired() int {
	count := 0
	for _, entry := range c.Entries {
		if entry.Hash != "" {
			count++
		}
	}
	return count
}

// recreated returns the exchanges and queues that require recreation.
func (c Comparison) recreated() vhost.IDs {
	ids := vhost.IDs{}
	for _, entry := range c.Entries {
		if entry.State == v1alpha1.StateRecreationRequired {
			ids[entry.ID()] = true
		}
	}
	return ids
}

// changeOf returns a change of an entry's object.
func changeOf(entry v1alpha1.TopologyEntry, effect v1alpha1.Effect, message string) v1alpha1.Change {
	return v1alpha1.Change{
		Kind: entry.Kind, Name: entry.Name, Source: entry.Source, Destination: entry.Destination,
		RoutingKey: entry.RoutingKey, Arguments: entry.Arguments, Effect: effect, Message: message,
	}
}
