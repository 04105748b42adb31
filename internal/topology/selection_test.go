package topology_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/specgen"
)

// TestSelectionOfHasEverything: the selection has the names of all objects, on every version.
func TestSelectionOfHasEverything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		cq := specgen.ConsumerQueue().Draw(rt, "ConsumerQueue")
		names := topology.SelectionOf(cq)
		for _, version := range topologytest.Versions {
			topo, err := topology.Desired(cq, version)
			if err != nil {
				continue
			}
			for _, exchange := range topo.Exchanges {
				topologytest.Equal(rt, "exchange "+exchange.Name, true, slices.Contains(names.Exchanges, exchange.Name))
			}
			for _, queue := range topo.Queues {
				topologytest.Equal(rt, "queue "+queue.Name, true, slices.Contains(names.Queues, queue.Name))
			}
			if topo.Return != nil {
				topologytest.Equal(rt, "route", topo.Return.Exchange, names.FollowFrom)
			}
		}
	})
}

func TestSelectionOfAnUnreadableSpec(t *testing.T) {
	t.Parallel()
	names := topology.SelectionOf(topologytest.ConsumerQueue(t, `{retry: {delayTiers: [{delay: later}]}}`))
	topologytest.Equal(t, "names", vhost.Selection{Queues: []string{"orders"}}, names)
}

func TestSelectionWithWhatIsOwned(t *testing.T) {
	t.Parallel()
	cq := topologytest.ConsumerQueue(t, `{retry: {policy: None}, deadLetter: {queue: {name: dlq}, exchange: {name: dlx}}}`)
	got := topology.SelectionWith(cq, []v1alpha1.TopologyEntry{
		{Kind: v1alpha1.KindExchange, Name: "dead"},
		{Kind: v1alpha1.KindQueue, Name: "dlq"},
		{Kind: v1alpha1.KindQueue, Name: "old"},
		{Kind: v1alpha1.KindBinding, Source: "events", Destination: "elsewhere"},
	})
	topologytest.Equal(t, "selection", vhost.Selection{
		Queues: []string{"dlq", "elsewhere", "old", "orders"}, Exchanges: []string{"dead", "dlx", "events"},
		Bindings:     []vhost.ID{vhost.Binding{Source: "events", Destination: "elsewhere"}.ID()},
		BindingsFrom: []string{"dlx"},
	}, got)
}
