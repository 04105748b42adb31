package plan

import (
	"fmt"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/text"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Diff compares a desired topology with the observed one.
func Diff(desired topology.Topology, observed vhost.Observed, input Input) Comparison {
	comparison := Comparison{WarrenRecreates: input.WarrenRecreates}
	for _, exchange := range desired.Exchanges {
		comparison.addExchange(exchange, observed)
	}
	for _, queue := range desired.Queues {
		comparison.addQueue(queue, observed)
	}
	isBound := bindingLookup(desired, observed)
	for _, binding := range desired.Bindings {
		comparison.addBinding(binding, isBound)
	}
	older := matchingOlderVersion(comparison, observed, input.Older)
	if comparison.Upgraded = older != nil; comparison.Upgraded {
		comparison.OlderIncomplete = !works(*older, observed)
		for i := range comparison.Entries {
			if entry := &comparison.Entries[i]; entry.State == v1alpha1.StateRecreationRequired {
				entry.OlderHash = older.HashOf(entry.ID())
			}
		}
	}
	comparison.collectOrphans(desired, observed, input)
	comparison.addForeign(desired, observed, input, older)
	comparison.checkReturnRoute(desired, observed)
	comparison.Advisories = append(comparison.Advisories, shadowed(desired, observed.Policies)...)
	comparison.Advisories = append(comparison.Advisories, fenced(desired, observed)...)
	comparison.Advisories = append(comparison.Advisories, fewMembers(desired, observed)...)
	comparison.Advisories = append(comparison.Advisories, riskyDeadLetters(desired, observed, input.Version)...)
	comparison.Advisories = append(comparison.Advisories, topology.RefusedLater(desired, observed.Exchanges, input.Version)...)
	return comparison
}

func (c *Comparison) addExchange(desired topology.Exchange, observed vhost.Observed) {
	found, exists := observed.Exchanges[desired.Name]
	entry := topology.EntryOf(desired.ID())
	entry.Role, entry.State = desired.Role, v1alpha1.StateInSync
	differences := exchangeDifferences(desired, found)
	switch {
	case !exists && !desired.Declare:
		entry.State = v1alpha1.StateMissing
		c.MissingExchanges = append(c.MissingExchanges, desired.Name)
		c.Changes = append(c.Changes, changeOf(entry, v1alpha1.EffectNone, fmt.Sprintf(
			"exchange %q does not exist, and Warren does not declare it without a type: "+
				"declare it, or set spec.bindings[].exchange.type", desired.Name)))
	case !exists:
		entry.State = v1alpha1.StateMissing
		c.Changes = append(c.Changes, changeOf(entry, v1alpha1.EffectDeclare,
			fmt.Sprintf("%s exchange %q is missing", desired.Type, desired.Name)))
	case len(differences) > 0:
		entry.State = v1alpha1.StateRecreationRequired
		c.Changes = append(c.Changes, changesOf(differences, entry)...)
	}
	c.Entries = append(c.Entries, Entry{TopologyEntry: entry, Hash: desired.Hash(), Exchange: &desired})
}

func (c *Comparison) addQueue(desired topology.Queue, observed vhost.Observed) {
	found, exists := observed.Queues[desired.Name]
	entry := topology.EntryOf(desired.ID())
	entry.Role, entry.State = desired.Role, v1alpha1.StateInSync
	differences := queueDifferences(desired, found)
	switch {
	case !exists:
		entry.State = v1alpha1.StateMissing
		c.Changes = append(c.Changes, changeOf(entry, v1alpha1.EffectDeclare, fmt.Sprintf("queue %q is missing", desired.Name)))
	case len(differences) > 0:
		entry.State = v1alpha1.StateRecreationRequired
		c.Changes = append(c.Changes, changesOf(differences, entry)...)
	}
	c.Entries = append(c.Entries, Entry{TopologyEntry: entry, Hash: desired.Hash(), Queue: &desired})
}

func (c *Comparison) addBinding(desired topology.Binding, isBound func(vhost.ID) bool) {
	id := desired.ID()
	entry := topology.EntryOf(id)
	entry.Role, entry.State = desired.Role, v1alpha1.StateInSync
	if !isBound(id) {
		entry.State = v1alpha1.StateMissing
		c.Changes = append(c.Changes, changeOf(entry, v1alpha1.EffectBind, fmt.Sprintf(
			"queue %q is not bound to exchange %q with routing key %q%s",
			desired.Destination, desired.Source, desired.RoutingKey, withArguments(desired.Arguments))))
	}
	c.Entries = append(c.Entries, Entry{TopologyEntry: entry, Hash: desired.Hash(), Binding: &desired})
}

// maxShownArguments limits the arguments of a binding in a message, in bytes. A spec can have thousands of bindings with long arguments.
const maxShownArguments = 256

func withArguments(arguments vhost.Arguments) string {
	if len(arguments) == 0 {
		return ""
	}
	return " and arguments " + text.Truncate(arguments.JSON(), maxShownArguments)
}

// fewBindings is the maximum number of desired bindings for which Diff searches each one. A queue that thousands of ConsumerQueues share
// has thousands of bindings, and this topology has few of them. A search is then cheaper than building an index.
const fewBindings = 16

// bindingLookup returns a function that reports whether a binding of the topology is observed.
func bindingLookup(desired topology.Topology, observed vhost.Observed) func(vhost.ID) bool {
	if len(desired.Bindings) <= fewBindings {
		return observed.Has
	}
	all := vhost.IDs{}
	for _, queue := range desired.Queues {
		for _, binding := range observed.BindingsTo[queue.Name] {
			all[binding.ID()] = true
		}
	}
	return func(id vhost.ID) bool { return all[id] }
}
