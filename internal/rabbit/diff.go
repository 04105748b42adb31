package rabbit

import (
	"maps"
	"regexp"
	"slices"

	"github.com/warren-mq/warren/internal/topology"
)

// diff lists what changed from one snapshot to another, sorted: the queues whose object, bindings or applying policies
// differ, and the exchanges whose object or outgoing bindings differ.
func diff(old, fresh *snapshot) (queues, exchanges []string) {
	changedQueues, changedExchanges := map[string]bool{}, map[string]bool{}
	differing(old.queues, fresh.queues, sameQueue, changedQueues)
	differing(old.bindingsTo, fresh.bindingsTo, sameBindings, changedQueues)
	differing(old.exchanges, fresh.exchanges, sameExchange, changedExchanges)
	differing(old.bindingsFrom, fresh.bindingsFrom, sameBindings, changedExchanges)
	for _, policy := range changedPolicies(old.policies, fresh.policies) {
		concerned(policy, old, changedQueues)
		concerned(policy, fresh, changedQueues)
	}
	return slices.Sorted(maps.Keys(changedQueues)), slices.Sorted(maps.Keys(changedExchanges))
}

// differing adds the keys that only one of the maps has, or that have other values.
func differing[V any](old, fresh map[string]V, same func(a, b V) bool, changed map[string]bool) {
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

// sameBindings compares without regard to order: what was written through stands at the end.
func sameBindings(a, b []topology.ObservedBinding) bool {
	if len(a) != len(b) {
		return false
	}
	if slices.EqualFunc(a, b, sameBinding) {
		return true
	}
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, compareBindings)
	slices.SortFunc(b, compareBindings)
	return slices.EqualFunc(a, b, sameBinding)
}

// changedPolicies lists those that only one side has; of a policy that changed, both forms.
func changedPolicies(old, fresh []topology.Policy) []topology.Policy {
	var changed []topology.Policy
	for _, sides := range [][2][]topology.Policy{{old, fresh}, {fresh, old}} {
		for _, policy := range sides[0] {
			if !slices.ContainsFunc(sides[1], func(other topology.Policy) bool { return samePolicy(policy, other) }) {
				changed = append(changed, policy)
			}
		}
	}
	return changed
}

// concerned adds the queues that a policy can apply to. The broker's patterns are Perl's: one that Go cannot read is
// taken to match every name, for one look too many does no harm.
func concerned(policy topology.Policy, s *snapshot, changed map[string]bool) {
	if policy.ApplyTo == "exchanges" {
		return
	}
	pattern, err := regexp.Compile(policy.Pattern)
	for name := range s.queues {
		if err != nil || pattern.MatchString(name) {
			changed[name] = true
		}
	}
}
