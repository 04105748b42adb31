package preview

import (
	"maps"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// maxSteps is the maximum number of simulated reconciliations: new objects are declared, then bindings are removed, then queues,
// then exchanges.
const maxSteps = 8

// settled is the result for the objects that left the spec, after as many reconciliations as necessary.
type settled struct {
	removals map[vhost.ID]plan.Action
	// blocked is why objects stay.
	blocked map[vhost.ID]string
}

// settle simulates Warren's reconciliations: it plans, changes the simulated broker, and plans again. Warren removes objects that
// left the spec only once their replacement exists, so a single plan would report that they stay.
func settle(
	desired topology.Topology, observed vhost.Observed, input plan.Input, known topology.Inventory, policy v1alpha1.DriftPolicy,
) settled {
	observed = copyOf(observed)
	s := settled{removals: map[vhost.ID]plan.Action{}, blocked: map[vhost.ID]string{}}
	for range maxSteps {
		comparison := plan.Diff(desired, observed, input)
		clear(s.blocked)
		for _, orphan := range comparison.Orphans {
			s.blocked[orphan.ID()] = orphan.BlockedBy.Message
		}
		changed := false
		for _, action := range plan.Decide(comparison, known, policy).Actions {
			changed = carryOut(action, &observed) || changed
			switch action.Verb {
			case plan.Unbind, plan.Delete, plan.DeleteWhenEmpty:
				s.removals[action.Entry.ID()] = action
			}
		}
		if !changed {
			break
		}
		observed.DeadLetterRoutes = vhost.DeadLetterRoutesIn(observed.Queues)
	}
	return s
}

// carryOut applies an action to the simulated broker, and reports whether it changed anything. It assumes that queues are empty.
func carryOut(action plan.Action, observed *vhost.Observed) bool {
	entry := action.Entry
	switch action.Verb {
	case plan.Declare:
		if entry.Exchange != nil {
			observed.Exchanges[entry.Name] = vhost.Exchange{Type: string(entry.Exchange.Type), Durable: true}
		} else {
			observed.Queues[entry.Name] = vhost.Queue{Durable: true, Arguments: entry.Queue.Arguments}
		}
	case plan.Bind, plan.BindSource:
		bind(observed, entry.Binding.AtBroker())
	case plan.Unbind:
		unbind(observed, func(binding vhost.Binding) bool { return binding.Is(entry.ID()) })
	case plan.Delete:
		delete(observed.Exchanges, entry.Name)
		unbind(observed, func(binding vhost.Binding) bool { return binding.Source == entry.Name })
	case plan.DeleteWhenEmpty:
		delete(observed.Queues, entry.Name)
		unbind(observed, func(binding vhost.Binding) bool { return binding.Destination == entry.Name })
	default:
		return false
	}
	return true
}

func bind(observed *vhost.Observed, binding vhost.Binding) {
	observed.BindingsTo[binding.Destination] = append(observed.BindingsTo[binding.Destination], binding)
	observed.BindingsFrom[binding.Source] = append(observed.BindingsFrom[binding.Source], binding)
}

func unbind(observed *vhost.Observed, goes func(vhost.Binding) bool) {
	for _, bindings := range []map[string][]vhost.Binding{observed.BindingsTo, observed.BindingsFrom} {
		for name := range bindings {
			bindings[name] = slices.DeleteFunc(bindings[name], goes)
		}
	}
}

func copyOf(observed vhost.Observed) vhost.Observed {
	observed.Exchanges, observed.Queues = maps.Clone(observed.Exchanges), maps.Clone(observed.Queues)
	to, from := map[string][]vhost.Binding{}, map[string][]vhost.Binding{}
	for name, bindings := range observed.BindingsTo {
		to[name] = slices.Clone(bindings)
	}
	for name, bindings := range observed.BindingsFrom {
		from[name] = slices.Clone(bindings)
	}
	observed.BindingsTo, observed.BindingsFrom = to, from
	return observed
}
