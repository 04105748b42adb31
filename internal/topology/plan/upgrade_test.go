package plan_test

import (
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// Queues that have the form for an older RabbitMQ before their ConsumerQueue is created are adopted, like queues that match. So are queues
// that Warren may have declared.
func TestQueuesInAnOlderFormAreAdopted(t *testing.T) {
	t.Parallel()
	const spec = `{retry: {strategy: Reject}}`
	observed := topologytest.Observe(t, topologytest.Desired(t, spec, topologytest.V313))
	older := func() []topology.Topology {
		return topology.DesiredOnOlderVersions(topologytest.ConsumerQueue(t, spec), topologytest.V43)
	}
	intended := topology.Inventory{}
	for _, queue := range topologytest.Desired(t, spec, topologytest.V43).Queues {
		entry := topology.EntryOf(queue.ID())
		entry.Role, entry.State, entry.Origin = queue.Role, v1alpha1.StateMissing, v1alpha1.OriginDeclared
		intended[queue.ID()] = entry
	}
	for name, test := range map[string]struct {
		older func() []topology.Topology
		known topology.Inventory
		want  []string
	}{
		"the form for an older RabbitMQ":                       {older: older, want: []string{"orders.dlx", "orders", "orders.dlq"}},
		"the same, after a declaration that was not confirmed": {older: older, known: intended, want: []string{"orders.dlx", "orders", "orders.dlq"}},
		"another form": {},
	} {
		comparison := plan.Diff(topologytest.Desired(t, spec, topologytest.V43), observed, plan.Input{Older: test.older})
		var adopted []string
		for _, entry := range plan.MergeInventory(comparison, test.known, plan.Plan{}) {
			isDifferent := entry.Kind != v1alpha1.KindBinding && entry.State == v1alpha1.StateRecreationRequired
			if isDifferent && topology.Owns(entry) && entry.Origin == v1alpha1.OriginAdopted {
				adopted = append(adopted, entry.Name)
			}
		}
		topologytest.Equal(t, name, test.want, adopted)
	}
}
