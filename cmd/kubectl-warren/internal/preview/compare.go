package preview

import (
	"maps"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// compare runs the planner, and lists each object with its action.
func (p *Preview) compare(
	cq *v1alpha1.ConsumerQueue, desired topology.Topology, found reported, input plan.Input, known topology.Inventory,
) plan.Comparison {
	comparison := plan.Diff(desired, found.observed, input)
	if comparison.Upgraded {
		p.note("the differing objects match this spec on an older RabbitMQ: they work, and the ConsumerQueue is Ready")
	}
	decided := plan.Decide(comparison, known, cq.Spec.DriftPolicy)
	actions := map[vhost.ID]plan.Action{}
	for _, action := range decided.Actions {
		actions[action.Entry.ID()] = action
	}
	left := settle(desired, found.observed, input, known, cq.Spec.DriftPolicy)
	maps.Copy(actions, left.removals)
	for _, entry := range comparison.Entries {
		id := entry.ID()
		object := objectOf(entry)
		switch {
		case found.uncertain[id]:
			object.Action, object.State = Unknown, v1alpha1.StateUnknown
			object.Message = "the status does not contain the state of this object"
		case entry.State == v1alpha1.StateInSync:
			object.Action = Unchanged
		case entry.State == v1alpha1.StateForeign:
			object.Action, object.Message = Keep, "no ConsumerQueue specifies this binding, and Warren does not remove it"
		case entry.State == v1alpha1.StateRecreationRequired:
			object.Action, object.Message = Recreate, recreation(comparison.Upgraded, input.WarrenRecreates)
			object.Differences = differences(id, comparison.Changes)
		default:
			object.Action, object.Message = decision(actions[id], left.blocked[id])
		}
		p.Objects = append(p.Objects, object)
	}
	return comparison
}

func objectOf(entry plan.Entry) Object {
	object := Object{
		State: entry.State, Kind: entry.Kind, Name: entry.Name, Source: entry.Source, Destination: entry.Destination,
		RoutingKey: entry.RoutingKey, Role: entry.Role,
	}
	switch {
	case entry.Exchange != nil:
		object.Type = entry.Exchange.Type
	case entry.Queue != nil:
		object.Arguments = entry.Queue.Arguments
	case entry.Kind == v1alpha1.KindBinding:
		object.Arguments = topology.BindingOf(entry.TopologyEntry).Arguments
	}
	return object
}

func differences(id vhost.ID, changes []v1alpha1.Change) []Difference {
	own := changesOf(id, changes)
	list := make([]Difference, 0, len(own))
	for _, change := range own {
		list = append(list, Difference{Path: change.Path, Desired: change.Desired, Observed: change.Observed})
	}
	return list
}

func recreation(upgraded, recreates bool) string {
	switch {
	case upgraded && recreates:
		return "matches this spec on an older RabbitMQ and works: Warren recreates it after `kubectl warren approve`"
	case upgraded:
		return "matches this spec on an older RabbitMQ and works: delete it by hand when it is empty, then Warren declares it again"
	case recreates:
		return "cannot be changed: Warren recreates the object"
	}
	return "cannot be changed: the object stays as it is until you delete it, then Warren declares it again"
}

// decision returns the action of the planner for an object that is missing or no longer desired.
func decision(action plan.Action, blockedBy string) (Action, string) {
	switch action.Verb {
	case plan.Declare:
		return Declare, ""
	case plan.Bind:
		return Bind, ""
	case plan.BindSource:
		return Bind, "after all other objects exist"
	case plan.Unbind:
		return Unbind, "no longer in the spec"
	case plan.Delete:
		return Delete, "no longer in the spec"
	case plan.DeleteWhenEmpty:
		return DeleteWhenEmpty, "no longer in the spec; deleted once it is proven empty"
	}
	switch action.Reason {
	case plan.ReasonBlocked:
		return Keep, "no longer in the spec; retained: " + blockedBy
	case plan.ReasonReportOnly:
		return Wait, "spec.driftPolicy is Report: Warren writes nothing"
	case plan.ReasonNotOurs:
		return Wait, "the exchange must exist: declare it, or set spec.bindings[].exchange.type"
	case plan.ReasonRecreationRequired:
		return Wait, "nothing new is declared while an object must be recreated"
	case plan.ReasonEndRecreated:
		return Wait, "the exchange or queue must be recreated first"
	case plan.ReasonEndMissing:
		return Wait, "the exchange or queue is missing and is not declared"
	}
	return Unknown, ""
}
