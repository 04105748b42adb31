package snapshot

import (
	"slices"

	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// DropFence removes a fence, and reports whether it existed.
func (s *Snapshot) DropFence(name string) bool {
	before := len(s.Fences)
	isNamed := func(p vhost.Policy) bool { return p.Name == name }
	s.Fences = slices.DeleteFunc(slices.Clone(s.Fences), isNamed)
	s.left = slices.DeleteFunc(slices.Clone(s.left), isNamed)
	return len(s.Fences) != before
}

// splitFences separates the fences, which Warren sets, from all other policies.
func splitFences(patterns *vhost.Patterns, items []management.PolicyItem) (policies, fences []vhost.Policy) {
	for _, item := range items {
		policy := item.Observed(patterns, false)
		if _, own := fence.ParseName(policy.Name); own {
			fences = append(fences, policy)
		} else {
			policies = append(policies, policy)
		}
	}
	return policies, fences
}

// left lists the fences that no deletion of this process needs. A running deletion removes its own fences after a second or two, so Warren
// does not report them.
func left(fences []vhost.Policy, underWay map[string]bool) []vhost.Policy {
	return slices.DeleteFunc(slices.Clone(fences), func(policy vhost.Policy) bool { return underWay[policy.Name] })
}

// observedFences returns fences with the time that their names contain, and whether they refuse messages.
func observedFences(policies []vhost.Policy) []vhost.Fence {
	if len(policies) == 0 {
		return nil
	}
	fences := make([]vhost.Fence, len(policies))
	for i, policy := range policies {
		name, _ := fence.ParseName(policy.Name)
		fences[i] = vhost.Fence{Policy: policy, Since: name.Begun, Closed: fence.IsClosed(policy.Definition)}
	}
	return fences
}
