package rabbit

import (
	"slices"

	"github.com/warren-mq/warren/internal/topology"
)

// refusing lists the closed fences, without those that deletions which are under way have put up: these last a second or
// two, and are no news to anybody.
func refusing(fences []topology.Policy, underWay map[string]bool) []topology.Policy {
	return slices.DeleteFunc(slices.Clone(fences), func(policy topology.Policy) bool {
		closed := policy.Definition[keyMaxLength] == int64(0) && policy.Definition[keyOverflow] == rejectPublish
		return !closed || underWay[policy.Name]
	})
}

// observedFences adds to policies of Warren's own what their names tell.
func observedFences(policies []topology.Policy) []topology.Fence {
	if len(policies) == 0 {
		return nil
	}
	fences := make([]topology.Fence, len(policies))
	for i, policy := range policies {
		name, _ := parseFenceName(policy.Name)
		fences[i] = topology.Fence{Policy: policy, Since: name.begun}
	}
	return fences
}
