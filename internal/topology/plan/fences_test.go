package plan_test

import (
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

func TestFenced(t *testing.T) {
	t.Parallel()
	policy := func(name, pattern string, priority float64) vhost.Policy {
		return vhost.Policy{Name: name, Pattern: vhost.ReadPattern(pattern), Priority: priority, ApplyTo: "queues"}
	}
	fence := func(name, pattern string) vhost.Fence {
		return vhost.Fence{
			Policy: policy(name, pattern, 5),
			Closed: true,
			Since:  time.Date(2026, 11, 21, 13, 0, 0, 0, time.FixedZone("CET", 3600)),
		}
	}
	says := func(queue, fence string) string {
		return `Fenced ` + queue + `: policy "` + fence + `" has refused publishes to queue "` + queue + `" since 2026-11-21T12:00:00Z. ` +
			`Warren set the policy to delete or to recreate queues, and removes it by itself. ` +
			`If the policy is older than a minute and stays, follow https://warren-mq.github.io/warren/runbooks/fence-standing/`
	}
	open := fence("f", `\A(?:orders)\z`)
	open.Closed = false
	for name, test := range map[string]struct {
		policies []vhost.Policy
		fences   []vhost.Fence
		want     []string
	}{
		"no fence":       {policies: []vhost.Policy{policy("p", ".*", 0)}},
		"the main queue": {fences: []vhost.Fence{fence("f", `\A(?:orders)\z`)}, want: []string{says("orders", "f")}},
		"another queue":  {fences: []vhost.Fence{fence("f", `\A(?:invoices)\z`)}},
		"a pattern with a prefix": {
			fences: []vhost.Fence{fence("f", `\Aorders(?:|\.dlq)\z`)},
			want:   []string{says("orders", "f"), says("orders.dlq", "f")},
		},
		"two fences": {
			fences: []vhost.Fence{fence("f", `\A(?:orders)\z`), fence("g", `\A(?:orders)\z`)},
			want:   []string{says("orders", "f"), says("orders", "g")},
		},
		"a policy with a lower priority holds no longer": {
			policies: []vhost.Policy{policy("p", ".*", 4)},
			fences:   []vhost.Fence{fence("f", `\A(?:orders)\z`)}, want: []string{says("orders", "f")},
		},
		"an open fence, even if another policy applies": {
			policies: []vhost.Policy{policy("p", "^orders$", 6)}, fences: []vhost.Fence{open},
			want: []string{`SentinelLeft orders: queue "orders" may still hold a sentinel, a message of type warren.sentinel that Warren ` +
				`published to delete queues. Consumers acknowledge and ignore it. Warren removes it once few messages are in front of ` +
				`it, and then removes policy "f", which refuses no publishes`},
		},
		"a policy with a higher priority holds": {
			policies: []vhost.Policy{policy("p", "^orders$", 6)},
			fences:   []vhost.Fence{fence("f", `\A(?:orders|orders\.dlq)\z`)}, want: []string{says("orders.dlq", "f")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topo := topologytest.Desired(t, `{retry: {policy: None}}`, topologytest.V43)
			observed := topologytest.Observe(t, topo)
			observed.Policies, observed.Fences = test.policies, test.fences
			got := plan.Diff(topo, observed, plan.Input{})
			var advisories []string
			for _, advisory := range got.Advisories {
				advisories = append(advisories, string(advisory.Code)+" "+advisory.Name+": "+advisory.Message)
			}
			topologytest.Equal(t, "advisories", test.want, advisories)
			topologytest.Equal(t, "changes", nil, got.Changes)
		})
	}
}
