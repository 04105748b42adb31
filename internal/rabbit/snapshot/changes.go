package snapshot

import (
	"maps"
	"slices"

	"github.com/warren-mq/warren/internal/vhost"
)

// Changes lists the objects that a change from one snapshot to another concerns.
func Changes(old, fresh *Snapshot) Notice {
	queues, exchanges, routes := map[string]bool{}, map[string]bool{}, map[string]bool{}
	Differing(old.Queues, fresh.Queues, sameQueue, queues)
	Differing(old.bindingsTo, fresh.bindingsTo, sameBindings, queues)
	Differing(old.exchanges, fresh.exchanges, sameExchange, exchanges)
	Differing(old.BindingsFrom, fresh.BindingsFrom, sameBindings, routes)
	maps.Copy(routes, exchanges)
	differingAlternates(old, fresh, routes)
	upstream(routes, old, fresh)
	changed := slices.Concat(changedPolicies(old.Policies, fresh.Policies), changedPolicies(old.left, fresh.left))
	for _, policy := range changed {
		concerned(policy, old, queues)
		concerned(policy, fresh, queues)
	}
	return newNotice(queues, exchanges, routes)
}

// Difference lists the objects that only one of two snapshots has, and the names of policies that changed. The ID of a binding has no
// arguments, and does not show whether its destination is a queue or an exchange.
type Difference struct {
	Created, Deleted []vhost.ID
	Policies         []string
}

// Add appends the objects of another difference.
func (d *Difference) Add(other Difference) {
	d.Created = append(d.Created, other.Created...)
	d.Deleted = append(d.Deleted, other.Deleted...)
	d.Policies = append(d.Policies, other.Policies...)
}

// differenceOf compares two snapshots of one cluster. It returns an empty Difference if the snapshots are of two clusters.
func differenceOf(old, fresh *Snapshot) (d Difference) {
	if old.Cluster != fresh.Cluster {
		return d
	}
	d.Created, d.Deleted = onlyIn(fresh, old), onlyIn(old, fresh)
	for _, policy := range changedPolicies(old.Policies, fresh.Policies) {
		d.Policies = append(d.Policies, policy.Name)
	}
	return d
}

// onlyIn lists the objects of a snapshot that the other snapshot lacks.
func onlyIn(s, other *Snapshot) (ids []vhost.ID) {
	for name := range s.Queues {
		if _, exists := other.Queues[name]; !exists {
			ids = append(ids, vhost.QueueID(name))
		}
	}
	for name := range s.exchanges {
		if _, exists := other.exchanges[name]; !exists {
			ids = append(ids, vhost.ExchangeID(name))
		}
	}
	for source, bindings := range s.BindingsFrom {
		if sameBindings(bindings, other.BindingsFrom[source]) {
			continue
		}
		for _, b := range missingBindings(bindings, other.BindingsFrom[source]) {
			ids = append(ids, vhost.ID{Kind: vhost.KindBinding, Source: source, Destination: b.Destination, RoutingKey: b.RoutingKey})
		}
	}
	return ids
}

// Concerning lists the objects that a change of one object may concern, except exchanges that lead to the object only through other
// exchanges or as their alternate; see WithUpstream. Call it for a deletion before the deletion is applied, while the snapshot still has
// the object's bindings, and for a creation after it is applied.
func (s *Snapshot) Concerning(id vhost.ID) Notice {
	queues, exchanges, routes := map[string]bool{}, map[string]bool{}, map[string]bool{}
	switch id.Kind {
	case vhost.KindQueue:
		queues[id.Name] = true
		for _, binding := range s.bindingsTo[id.Name] {
			routes[binding.Source] = true
		}
	case vhost.KindExchange:
		exchanges[id.Name], routes[id.Name] = true, true
		for _, binding := range s.BindingsFrom[id.Name] {
			if !binding.ToExchange {
				queues[binding.Destination] = true
			}
		}
		addLeading(routes, s.addBound)
	case vhost.KindBinding:
		queues[id.Destination], routes[id.Source] = true, true
	}
	return newNotice(queues, exchanges, routes)
}

// WithUpstream adds the exchanges from which messages reach the exchanges in Routes of a notice.
func (s *Snapshot) WithUpstream(notice Notice) Notice {
	routes := map[string]bool{}
	for _, exchange := range notice.Routes {
		routes[exchange] = true
	}
	upstream(routes, s)
	notice.Routes = slices.Sorted(maps.Keys(routes))
	return notice
}

func newNotice(queues, exchanges, routes map[string]bool) Notice {
	return Notice{
		Queues: slices.Sorted(maps.Keys(queues)), Exchanges: slices.Sorted(maps.Keys(exchanges)), Routes: slices.Sorted(maps.Keys(routes)),
	}
}

// upstream adds to the set all exchanges that lead to one of its exchanges through bindings between exchanges or as alternates.
func upstream(set map[string]bool, snapshots ...*Snapshot) {
	if len(set) == 0 {
		return
	}
	var ways []func(map[string][]string)
	for _, s := range snapshots {
		ways = append(ways, s.addBound, s.addAlternating)
	}
	addLeading(set, ways...)
}

// addBound adds each exchange that is the source of a binding to the sources of the exchange that is bound.
func (s *Snapshot) addBound(sources map[string][]string) {
	for source, bindings := range s.BindingsFrom {
		for _, binding := range bindings {
			if binding.ToExchange {
				sources[binding.Destination] = append(sources[binding.Destination], source)
			}
		}
	}
}

// addLeading adds to the set all exchanges that lead to one of its exchanges. Each of ways adds the sources of exchanges.
func addLeading(set map[string]bool, ways ...func(sources map[string][]string)) {
	sources := map[string][]string{}
	for _, add := range ways {
		add(sources)
	}
	for source := range vhost.Reach(slices.Collect(maps.Keys(set)), func(name string) []string { return sources[name] }) {
		set[source] = true
	}
}

// Differing adds each key to changed that only one of the maps has, or whose values differ.
func Differing[V any](old, fresh map[string]V, same func(a, b V) bool, changed map[string]bool) {
	for name, was := range old {
		if is, exists := fresh[name]; !exists || !same(was, is) {
			changed[name] = true
		}
	}
	for name := range fresh {
		if _, existed := old[name]; !existed {
			changed[name] = true
		}
	}
}

// sameBindings ignores the order of bindings, because a confirmed change appends its binding, and a refresh sorts all bindings.
func sameBindings(a, b []vhost.Binding) bool {
	if len(a) != len(b) {
		return false
	}
	if slices.EqualFunc(a, b, sameBinding) {
		return true
	}
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, CompareBindings)
	slices.SortFunc(b, CompareBindings)
	return slices.EqualFunc(a, b, sameBinding)
}

// changedPolicies lists the policies that only one side has. It lists a changed policy twice, in its old and its new form.
func changedPolicies(old, fresh []vhost.Policy) []vhost.Policy {
	var changed []vhost.Policy
	for _, sides := range [][2][]vhost.Policy{{old, fresh}, {fresh, old}} {
		others := make(map[policyName]vhost.Policy, len(sides[1]))
		for _, policy := range sides[1] {
			others[policyName{policy.Operator, policy.Name}] = policy
		}
		for _, policy := range sides[0] {
			other, exists := others[policyName{policy.Operator, policy.Name}]
			if !exists || !SamePolicy(policy, other) {
				changed = append(changed, policy)
			}
		}
	}
	return changed
}

// concerned adds each queue to changed to which the policy may apply.
func concerned(policy vhost.Policy, s *Snapshot, changed map[string]bool) {
	for name, queue := range s.Queues {
		if policy.Match(name, queue.Type()) != vhost.MatchNo {
			changed[name] = true
		}
	}
}
