package plan_test

import (
	"fmt"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// manyPolicies is a vhost in which each team has its own policies, with one fallback for all.
func manyPolicies(count int) []vhost.Policy {
	var patterns vhost.Patterns
	policies := []vhost.Policy{{
		Name: "all", Pattern: patterns.Read(`^(?!amq\.).*`), ApplyTo: "queues", Priority: -1,
		Definition: vhost.Arguments{"overflow": "drop-head"},
	}}
	for i := range count - 1 {
		policies = append(policies, vhost.Policy{
			Name: fmt.Sprintf("team-%d", i), Pattern: patterns.Read(fmt.Sprintf(`^team-%d\..*(?<!\.dlq)$`, i)), ApplyTo: "queues",
			Definition: vhost.Arguments{"max-length": 1000},
		})
	}
	return policies
}

func BenchmarkDiffManyPolicies(b *testing.B) {
	topo, err := topology.Desired(topologytest.ConsumerQueue(b, `{}`), topologytest.V43)
	if err != nil {
		b.Fatal(err)
	}
	observed := topologytest.Observe(b, topo)
	observed.Policies = manyPolicies(1000)
	for b.Loop() {
		if got := plan.Diff(topo, observed, plan.Input{}); len(got.Advisories) == 0 || got.Advisories[0].Code != v1alpha1.AdvisoryShadowedByPolicy {
			b.Fatal(got.Advisories)
		}
	}
}
