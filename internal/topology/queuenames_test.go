package topology_test

import (
	"testing"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestDeadLettersOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec string
		want topology.QueueNames
	}{
		"every default": {
			spec: `{}`,
			want: topology.QueueNames{Main: "orders", Queue: "orders.dlq", Tiers: []topology.TierRoute{
				{Queue: "orders.retry.30s", Delay: 30 * time.Second, Route: contract.Route{RoutingKey: "orders.retry.30s"}},
				{Queue: "orders.retry.5m", Delay: 5 * time.Minute, Route: contract.Route{RoutingKey: "orders.retry.5m"}},
				{Queue: "orders.retry.30m", Delay: 30 * time.Minute, Route: contract.Route{RoutingKey: "orders.retry.30m"}},
			}},
		},
		"names of their own, and a retry exchange": {
			spec: `{queue: {name: o}, deadLetter: {queue: {name: dead}}, retry: {exchange: {name: again}, delayTiers: [{delay: 1m, queueName: later, routingKey: k}]}}`,
			want: topology.QueueNames{Main: "o", Queue: "dead", Tiers: []topology.TierRoute{
				{Queue: "later", Delay: time.Minute, Route: contract.Route{Exchange: "again", RoutingKey: "k"}},
			}},
		},
		"no retry":        {spec: `{retry: {policy: None}}`, want: topology.QueueNames{Main: "orders", Queue: "orders.dlq"}},
		"no dead letters": {spec: `{retry: {policy: None}, deadLetter: {policy: Disabled}}`, want: topology.QueueNames{Main: "orders"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := topology.QueueNamesOf(topologytest.ConsumerQueue(t, test.spec), topologytest.V43)
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "dead letters", test.want, got)
		})
	}
}
