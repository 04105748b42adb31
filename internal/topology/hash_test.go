package topology_test

import (
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// The status of ConsumerQueues stores hashes. A changed hash makes every object look as if its spec had changed.
func TestHashesStay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		object interface{ Hash() string }
		want   string
	}{
		{topology.Exchange{Name: "events", Type: v1alpha1.ExchangeTopic, Role: v1alpha1.RoleSource, Declare: true}, "v1:c74567b8b292182a"},
		{topology.Queue{Name: "orders", Role: v1alpha1.RoleMain, Arguments: vhost.Arguments{"x-queue-type": "quorum", "x-max-length": int64(9)}}, "v1:91b10e816c7c5b6d"},
		{topology.Binding{Source: "events", Destination: "orders", RoutingKey: "order.*", Role: v1alpha1.RoleSource}, "v1:1f8510bd68b73ebd"},
		{topology.Binding{Source: "dlx", Destination: "dlq", Arguments: vhost.Arguments{"x-match": "any"}, Role: v1alpha1.RoleDeadLetter}, "v1:06967e3c5605e8ec"},
	} {
		topologytest.Equal(t, "hash", test.want, test.object.Hash())
	}
}

func TestHashesTellWhatIsDesired(t *testing.T) {
	t.Parallel()
	const spec = "retry: {delayTiers: [{delay: 30s}]}\n"
	same, other := topologytest.Desired(t, spec, topologytest.V43), topologytest.Desired(t, spec+"deadLetterStrategy: AtMostOnce\n", topologytest.V43)
	var differ []string
	for _, entry := range topologytest.Owned(topologytest.Desired(t, spec, topologytest.V43)) {
		id := topology.IDOf(entry)
		topologytest.Equal(t, "hash in the same spec", entry.LastSyncedHash, same.HashOf(id))
		if other.HashOf(id) != entry.LastSyncedHash {
			differ = append(differ, id.Name)
		}
	}
	topologytest.Equal(t, "what another spec wants differently", []string{"orders", "orders.retry.30s"}, differ)
}
