package plan

import (
	"testing"

	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

func TestMayLimitDeliveries(t *testing.T) {
	t.Parallel()
	quorum := func(limit any) vhost.Queue {
		arguments := vhost.Arguments{vhost.ArgQueueType: "quorum"}
		if limit != nil {
			arguments[vhost.ArgDeliveryLimit] = limit
		}
		return vhost.Queue{Durable: true, Arguments: arguments}
	}
	policy := func(pattern string, operator bool, limit any) vhost.Policy {
		return vhost.Policy{
			Name: "limit", Pattern: vhost.ReadPattern(pattern), ApplyTo: "queues", Operator: operator, Definition: vhost.Arguments{vhost.KeyDeliveryLimit: limit},
		}
	}
	for name, test := range map[string]struct {
		queue    vhost.Queue
		policies []vhost.Policy
		on310    bool
		on43     bool
	}{
		"no limit is set":                      {queue: quorum(nil), on310: false, on43: true},
		"a limit":                              {queue: quorum(int64(5)), on310: true, on43: true},
		"a limit of zero":                      {queue: quorum(int64(0)), on310: true, on43: true},
		"unlimited":                            {queue: quorum(int64(-1)), on310: true, on43: false},
		"a classic queue":                      {queue: vhost.Queue{Arguments: vhost.Arguments{vhost.ArgQueueType: "classic"}}},
		"a policy limits":                      {queue: quorum(nil), policies: []vhost.Policy{policy("^orders", false, 5)}, on310: true, on43: true},
		"a policy limits an unlimited queue":   {queue: quorum(int64(-1)), policies: []vhost.Policy{policy("^orders", false, 5)}, on310: true, on43: true},
		"an operator policy limits":            {queue: quorum(int64(-1)), policies: []vhost.Policy{policy("^orders", true, 5)}, on310: true, on43: true},
		"a policy unlimits":                    {queue: quorum(nil), policies: []vhost.Policy{policy("^orders", false, -1)}, on310: true, on43: false},
		"a policy for other queues":            {queue: quorum(nil), policies: []vhost.Policy{policy("^invoices", false, -1)}, on310: false, on43: true},
		"a policy that may match, with limit":  {queue: quorum(int64(-1)), policies: []vhost.Policy{policy("^[[:alpha:].]+$", false, 5)}, on310: true, on43: true},
		"a policy that may match, without any": {queue: quorum(nil), policies: []vhost.Policy{policy("^[[:alpha:].]+$", false, -1)}, on310: true, on43: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topologytest.Equal(t, "on 3.10", test.on310, MayLimitDeliveries("orders.dlq", test.queue, test.policies, topologytest.V310))
			topologytest.Equal(t, "on 4.3", test.on43, MayLimitDeliveries("orders.dlq", test.queue, test.policies, topologytest.V43))
		})
	}
}
