package plan_test

import (
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestFewMembers(t *testing.T) {
	t.Parallel()
	const (
		plain = `{retry: {policy: None}, deadLetter: {policy: Disabled}}`
		five  = `{retry: {policy: None}, deadLetter: {policy: Disabled}, queue: {initialGroupSize: 5}}`
		lone  = `{retry: {policy: None}, deadLetter: {policy: Disabled}, queue: {initialGroupSize: 1}}`
		grown = `{retry: {policy: None}, deadLetter: {policy: Disabled}, queue: {arguments: {x-quorum-target-group-size: 5}}}`
		odd   = `{retry: {policy: None}, deadLetter: {policy: Disabled}, queue: {arguments: {x-quorum-target-group-size: many}}}`
	)
	of := func(have, nodes, want string) []string {
		return []string{`orders: queue "orders" has members on only ` + have + " of " + nodes + " nodes; it should have " + want +
			" members: add members with rabbitmq-queues add_member, or for many queues with rabbitmq-queues grow"}
	}
	for name, test := range map[string]struct {
		spec    string
		nodes   int
		members map[string]int
		want    []string
	}{
		"no node is known":                   {spec: plain},
		"only the nodes are known":           {spec: plain, nodes: 3},
		"the nodes are not known":            {spec: plain, members: map[string]int{"orders": 1}},
		"one on three nodes":                 {spec: plain, nodes: 3, members: map[string]int{"orders": 1}, want: of("1", "3", "3")},
		"two on three nodes":                 {spec: plain, nodes: 3, members: map[string]int{"orders": 2}, want: of("2", "3", "3")},
		"one on two nodes":                   {spec: plain, nodes: 2, members: map[string]int{"orders": 1}, want: of("1", "2", "2")},
		"three on five nodes, by default":    {spec: plain, nodes: 5, members: map[string]int{"orders": 3}},
		"three on five nodes, five wanted":   {spec: five, nodes: 5, members: map[string]int{"orders": 3}, want: of("3", "5", "5")},
		"three on four nodes, five wanted":   {spec: five, nodes: 4, members: map[string]int{"orders": 3}, want: of("3", "4", "4")},
		"one on three nodes, one wanted":     {spec: lone, nodes: 3, members: map[string]int{"orders": 1}},
		"three on five nodes, five in time":  {spec: grown, nodes: 5, members: map[string]int{"orders": 3}, want: of("3", "5", "5")},
		"a target that is no number":         {spec: odd, nodes: 5, members: map[string]int{"orders": 3}},
		"another queue":                      {spec: plain, nodes: 3, members: map[string]int{"invoices": 1}},
		"as many members as nodes, and more": {spec: plain, nodes: 3, members: map[string]int{"orders": 4}},
		"each queue of a topology": {
			spec: `{retry: {delayTiers: [{delay: 1s}]}}`, nodes: 3, members: map[string]int{"orders.retry.1s": 2, "orders.dlq": 1},
			want: []string{
				`orders.retry.1s: queue "orders.retry.1s" has members on only 2 of 3 nodes; it should have 3 members: ` +
					`add members with rabbitmq-queues add_member, or for many queues with rabbitmq-queues grow`,
				`orders.dlq: queue "orders.dlq" has members on only 1 of 3 nodes; it should have 3 members: ` +
					`add members with rabbitmq-queues add_member, or for many queues with rabbitmq-queues grow`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topo := topologytest.Desired(t, test.spec, topologytest.V43)
			observed := topologytest.Observe(t, topo)
			observed.Nodes, observed.Members = test.nodes, test.members
			got := plan.Diff(topo, observed, plan.Input{})
			var advisories []string
			for _, advisory := range got.Advisories {
				topologytest.Equal(t, "code", v1alpha1.AdvisoryFewMembers, advisory.Code)
				advisories = append(advisories, advisory.Name+": "+advisory.Message)
			}
			topologytest.Equal(t, "advisories", test.want, advisories)
			topologytest.Equal(t, "changes", nil, got.Changes)
		})
	}
}
