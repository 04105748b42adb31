package rabbit

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/test/brokers"
)

func quorum(arguments topology.Arguments) topology.Arguments {
	all := topology.Arguments{"x-queue-type": "quorum"}
	for key, value := range arguments {
		all[key] = value
	}
	return all
}

func TestApplyCreatesAndWritesThrough(t *testing.T) {
	each(t, func(t *testing.T, vhost *brokers.VHost) {
		connection := connected(t, configOf(vhost), nil)
		wanted := topology.Topology{
			Exchanges: []topology.Exchange{{Name: "orders.dlx", Type: "fanout", Declare: true}, {Name: "amq.topic"}},
			Queues: []topology.Queue{
				{Name: "orders", Arguments: quorum(topology.Arguments{"x-message-ttl": int64(60000), "x-dead-letter-exchange": "orders.dlx"})},
				{Name: "orders.dlq", Arguments: quorum(nil)},
			},
			Bindings: []topology.Binding{
				{Source: "orders.dlx", Destination: "orders.dlq"},
				{Source: "amq.topic", Destination: "orders", RoutingKey: "order.*"},
			},
		}
		for range 2 { // the second time nothing changes
			if err := connection.Apply(t.Context(), wanted); err != nil {
				t.Fatal(err)
			}
		}
		written, _ := connection.Observe(namesOf(wanted))
		if err := connection.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		seen, ok := connection.Observe(namesOf(wanted))
		if !ok {
			t.Fatal("nothing observed")
		}
		if difference := cmp.Diff(seen, written); difference != "" {
			t.Errorf("written through (+) differs from what the broker says (-):\n%s", difference)
		}
		if len(vhost.Definitions().Queues) != 2 || len(vhost.Definitions().Bindings) != 2 || len(seen.Queues) != 2 {
			t.Errorf("the vhost has %+v", vhost.Definitions())
		}
	})
}
