package vhost_test

import (
	"testing"

	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

func TestPoliciesOf(t *testing.T) {
	t.Parallel()
	policy := func(name, pattern string, priority float64, limit int) vhost.Policy {
		return vhost.Policy{
			Name: name, Pattern: vhost.ReadPattern(pattern), Priority: priority, Definition: vhost.Arguments{vhost.KeyMaxLength: int64(limit)},
		}
	}
	with := func(p vhost.Policy, key string) vhost.Policy {
		p.Definition[key] = "a value"
		return p
	}
	const unreadable = "^[[:alpha:]]"
	for name, test := range map[string]struct {
		policies  []vhost.Policy
		effective string
		possible  []string
	}{
		"none":                          {},
		"no match":                      {policies: []vhost.Policy{policy("a", "^x", 0, 1)}},
		"the highest priority":          {policies: []vhost.Policy{policy("a", ".", 0, 1), policy("b", ".", 1, 2)}, effective: "b"},
		"equal priorities":              {policies: []vhost.Policy{policy("b", ".", 1, 2), policy("a", ".", 1, 1), policy("c", ".", 0, 3)}, effective: "a", possible: []string{"b"}},
		"equal priorities, one content": {policies: []vhost.Policy{policy("b", ".", 1, 1), policy("a", ".", 1, 1)}, effective: "a"},
		"an unreadable pattern above, beside and below": {
			policies:  []vhost.Policy{policy("below", unreadable, 0, 4), policy("beside", unreadable, 1, 3), policy("a", ".", 1, 1), policy("above", unreadable, 2, 2)},
			effective: "a", possible: []string{"above", "beside"},
		},
		"a priority that is no integer": {policies: []vhost.Policy{policy("a", ".", 1, 1), policy("b", ".", 1.5, 2), policy("c", ".", -0.5, 3)}, effective: "b"},
		"a key that no quorum queue supports": {
			policies:  []vhost.Policy{with(policy("lazy", ".", 10, 1), "queue-mode"), policy("cap", ".", 0, 2)},
			effective: "cap",
		},
		"such a key and an unreadable pattern": {policies: []vhost.Policy{with(policy("mirrored", unreadable, 0, 1), "ha-mode")}},
		"a key that quorum queues ignore":      {policies: []vhost.Policy{with(policy("a", ".", 0, 1), "queue-leader-locator")}, effective: "a"},
		"an unreadable pattern alone":          {policies: []vhost.Policy{policy("a", unreadable, 0, 1)}, possible: []string{"a"}},
	} {
		effective, possible := vhost.PoliciesOf("orders", vhost.TypeQuorum, test.policies, false)
		var holding string
		if effective != nil {
			holding = effective.Name
		}
		var names []string
		for _, p := range possible {
			names = append(names, p.Name)
		}
		topologytest.Equal(t, name+": effective", test.effective, holding)
		topologytest.Equal(t, name+": possible", test.possible, names)
	}
	_, possible := vhost.PoliciesOf("orders", vhost.TypeQuorum, []vhost.Policy{policy("a", ".", 0, 1)}, true)
	topologytest.Equal(t, "operator policies", 0, len(possible))
	lazy := with(policy("lazy", ".", 0, 1), "queue-mode")
	topologytest.Equal(t, "a classic queue supports the key", vhost.MatchYes, lazy.Match("orders", vhost.TypeClassic))
	lazy.Operator = true
	effective, _ := vhost.PoliciesOf("orders", vhost.TypeQuorum, []vhost.Policy{lazy}, true)
	topologytest.Equal(t, "an operator policy with the key", nil, effective)
}
