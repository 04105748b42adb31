package plan

import (
	"fmt"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Diff compares a topology with what a broker has of it.
func Diff(desired topology.Topology, observed vhost.Observed, input Input) Comparison {
	comparison := Comparison{}
	for _, exchange := range desired.Exchanges {
		comparison.addExchange(exchange, observed)
	}
	for _, queue := range desired.Queues {
		comparison.addQueue(queue, observed)
	}
	bound, others := bindingsInto(desired, observed)
	for _, binding := range desired.Bindings {
		comparison.addBinding(binding, bound)
	}
	older := matchingOlderVersion(comparison, observed, input.Older)
	comparison.Upgraded = older != nil
	comparison.collectOrphans(desired, observed, input)
	comparison.addForeign(others, desired.Return, observed, input.Wanted, older)
	comparison.checkReturnRoute(desired, observed)
	comparison.Advisories = append(comparison.Advisories, shadowed(desired, observed.Policies)...)
	comparison.Advisories = append(comparison.Advisories, fenced(desired, observed, input.ClearPolicy)...)
	comparison.Advisories = append(comparison.Advisories, fewMembers(desired, observed)...)
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
			"exchange %q does not exist and Warren is not asked to declare it: "+
				"declare it, or give the binding's exchange a type", desired.Name)))
	case !exists:
		entry.State = v1alpha1.StateMissing
		c.Changes = append(c.Changes, changeOf(entry, v1alpha1.EffectDeclare,
			fmt.Sprintf("%s exchange %q is missing", desired.Type, desired.Name)))
	case len(differences) > 0:
		entry.State = v1alpha1.StateRecreationRequired
		c.Changes = append(c.Changes, changesOf(differences, entry, "an exchange cannot be changed")...)
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
		c.Changes = append(c.Changes, changesOf(differences, entry, "a queue's arguments cannot be changed")...)
	}
	c.Entries = append(c.Entries, Entry{TopologyEntry: entry, Hash: desired.Hash(), Queue: &desired})
}

func (c *Comparison) addBinding(desired topology.Binding, bound vhost.IDs) {
	id := desired.ID()
	entry := topology.EntryOf(id)
	entry.Role, entry.State = desired.Role, v1alpha1.StateInSync
	if !bound[id] {
		entry.State = v1alpha1.StateMissing
		c.Changes = append(c.Changes, changeOf(entry, v1alpha1.EffectBind, fmt.Sprintf(
			"queue %q is not bound to exchange %q with routing key %q%s",
			desired.Destination, desired.Source, desired.RoutingKey, withArguments(desired.Arguments))))
	}
	c.Entries = append(c.Entries, Entry{TopologyEntry: entry, Hash: desired.Hash(), Binding: &desired})
}

func withArguments(arguments vhost.Arguments) string {
	if len(arguments) == 0 {
		return ""
	}
	return " and arguments " + arguments.JSON()
}

// bindingsInto tells those observed bindings of a topology's queues that the topology wants from the others.
func bindingsInto(desired topology.Topology, observed vhost.Observed) (wanted vhost.IDs, others []vhost.ID) {
	all, wanted := topology.IDsOf(desired.Bindings), vhost.IDs{}
	for _, queue := range desired.Queues {
		for _, binding := range observed.BindingsTo[queue.Name] {
			if binding.ToExchange {
				continue
			}
			id := binding.ID()
			if all[id] {
				wanted[id] = true
			} else {
				others = append(others, id)
			}
		}
	}
	return wanted, others
}
