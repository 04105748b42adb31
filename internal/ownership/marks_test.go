package ownership

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// A ConsumerQueue that is found only because of an equal mark has no effect.
func TestObjectsWithTheSameMark(t *testing.T) {
	t.Parallel()
	self, other := controllertest.Synced(t, "orders", withGrave, ""), controllertest.Synced(t, "other", `{}`, "")
	index := indexOf(self, other)
	entries := topology.Owned(self.Status.Topology)
	for _, entry := range entries {
		for _, set := range []sets{index.wants, index.active, index.leaving} {
			set.add(markOf(topology.IDOf(entry)), client.ObjectKeyFromObject(other))
		}
	}
	view := index.View(self, here, topologytest.V43, leadsHere)
	for _, entry := range entries {
		id := topology.IDOf(entry)
		topologytest.Equal(t, id.String()+" is shared with", "", view.SharedWith(entry))
		topologytest.Equal(t, id.String()+" is needed", false, view.AnyNeeds(entry))
		topologytest.Equal(t, id.String()+" is wanted", false, view.Wants(id))
	}
	binding := vhost.Binding{Source: "shop", Destination: "grave", RoutingKey: "nobody"}
	topologytest.Equal(t, "unwanted", []vhost.ID{binding.ID()}, view.Unwanted("grave", []vhost.Binding{binding}))
	conflict, err := view.FindConflict(context.Background(), CandidateOf(self, topologytest.V43), nil)
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "conflict", (*Conflict)(nil), conflict)
}

// Claims are found by their form, and removed completely.
func TestClaimants(t *testing.T) {
	t.Parallel()
	one, two := controllertest.Orders, controllertest.Invoices
	const a, b, c mark = 1, 2, 3
	all := claimants{}.add(a, one).add(a, two).add(a, one).add(b, one)
	topologytest.Equal(t, "by form", "[{1 [{shop invoices} {shop orders}]} {2 [{shop orders}]}]", fmt.Sprint(all))
	all = all.remove(a, one).remove(c, one).remove(b, two)
	topologytest.Equal(t, "without one", "[{1 [{shop invoices}]} {2 [{shop orders}]}]", fmt.Sprint(all))
	topologytest.Equal(t, "without any", 0, len(all.remove(b, one).remove(a, two)))
}

// The memory of the index per ConsumerQueue with six objects, besides the ConsumerQueue itself.
func BenchmarkIndexMemory(b *testing.B) {
	const count = 2000
	resources := make([]*v1alpha1.ConsumerQueue, count)
	for number := range resources {
		resources[number] = controllertest.Synced(b, fmt.Sprintf("orders-%04d", number), `{
			bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order]}], retry: {delayTiers: [{delay: 30s}]}
		}`, "")
	}
	for b.Loop() {
		before := controllertest.HeapInUse()
		index := indexOf(resources...)
		b.ReportMetric(float64(controllertest.HeapInUse()-before)/count, "B/ConsumerQueue")
		runtime.KeepAlive(index)
	}
	runtime.KeepAlive(resources)
}
