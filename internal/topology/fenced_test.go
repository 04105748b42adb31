package topology_test

import (
	"testing"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
)

func TestFenced(t *testing.T) {
	t.Parallel()
	policy := func(name, pattern string, priority int) topology.Policy {
		return topology.Policy{Name: name, Pattern: topology.ReadPattern(pattern), Priority: priority, ApplyTo: "queues"}
	}
	fence := func(name, pattern string) topology.Fence {
		return topology.Fence{
			Policy: policy(name, pattern, 5),
			Since:  time.Date(2026, 11, 21, 13, 0, 0, 0, time.FixedZone("CET", 3600)),
		}
	}
	says := func(queue, fence string) string {
		return queue + `: policy "` + fence + `" refuses whatever is published to queue "` + queue + `", since 2026-11-21T12:00:00Z: ` +
			`an operator put it up to delete queues. Warren clears its own such policies and those left behind; ` +
			`if this one stays, clear it: clear ` + fence
	}
	for name, test := range map[string]struct {
		policies []topology.Policy
		fences   []topology.Fence
		want     []string
	}{
		"no fence":       {policies: []topology.Policy{policy("p", ".*", 0)}},
		"the main queue": {fences: []topology.Fence{fence("f", `\A(?:orders)\z`)}, want: []string{says("orders", "f")}},
		"another queue":  {fences: []topology.Fence{fence("f", `\A(?:invoices)\z`)}},
		"a pattern with a prefix": {
			fences: []topology.Fence{fence("f", `\Aorders(?:|\.dlq)\z`)},
			want:   []string{says("orders", "f"), says("orders.dlq", "f")},
		},
		"two fences": {
			fences: []topology.Fence{fence("f", `\A(?:orders)\z`), fence("g", `\A(?:orders)\z`)},
			want:   []string{says("orders", "f"), says("orders", "g")},
		},
		"a policy with a lower priority holds no longer": {
			policies: []topology.Policy{policy("p", ".*", 4)},
			fences:   []topology.Fence{fence("f", `\A(?:orders)\z`)}, want: []string{says("orders", "f")},
		},
		"a policy with a higher priority holds": {
			policies: []topology.Policy{policy("p", "^orders$", 6)},
			fences:   []topology.Fence{fence("f", `\A(?:orders|orders\.dlq)\z`)}, want: []string{says("orders.dlq", "f")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topo := desired(t, `{retry: {policy: None}}`, v43)
			observed := observe(t, topo)
			observed.Policies, observed.Fences = test.policies, test.fences
			got := topology.Diff(topo, observed, topology.Context{ClearPolicy: func(name string) string { return "clear " + name }})
			var advisories []string
			for _, advisory := range got.Advisories {
				equal(t, "code", v1alpha1.AdvisoryFenced, advisory.Code)
				advisories = append(advisories, advisory.Name+": "+advisory.Message)
			}
			equal(t, "advisories", test.want, advisories)
			equal(t, "changes", nil, got.Changes)
		})
	}
}
