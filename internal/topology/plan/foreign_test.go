package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// crowded is a topology whose main queue has many foreign bindings, for example one per device.
func crowded(t testing.TB, spec string, count int) (topology.Topology, vhost.Observed) {
	t.Helper()
	topo, err := topology.Desired(topologytest.ConsumerQueue(t, spec), topologytest.V43)
	if err != nil {
		t.Fatal(err)
	}
	observed := topologytest.Observe(t, topo)
	foreign := make([]vhost.Binding, count)
	for i := range foreign {
		foreign[i] = vhost.Binding{
			Source: "amq.headers", Destination: "orders", RoutingKey: fmt.Sprintf("device.%05d", i), Arguments: vhost.Arguments{"device": int64(i)},
		}
	}
	observed.BindingsTo["orders"] = append(observed.BindingsTo["orders"], foreign...)
	return topo, observed
}

func TestDiffListsTheFirstForeignBindings(t *testing.T) {
	t.Parallel()
	topo, observed := crowded(t, `{}`, 1000)
	foreign := func() []string {
		got := plan.Diff(topo, observed, plan.Input{})
		topologytest.Equal(t, "unlisted", 1000-64, got.Unlisted)
		var keys []string
		for _, entry := range got.Entries {
			if entry.State == v1alpha1.StateForeign {
				keys = append(keys, entry.RoutingKey)
			}
		}
		return keys
	}
	first := foreign()
	topologytest.Equal(t, "listed", 64, len(first))
	topologytest.Equal(t, "the first", "device.00000", first[0])
	topologytest.Equal(t, "the last", "device.00063", first[63])
	slices.Reverse(observed.BindingsTo["orders"])
	topologytest.Equal(t, "in whatever order they are observed", first, foreign())
}

// Twice as many bindings cost twice as much, not four times. The test counts allocations, which do not depend on the machine.
func TestDiffGrowsWithTheBindings(t *testing.T) {
	cost := func(diff func()) float64 { return testing.AllocsPerRun(3, diff) }
	foreign := func(count int) float64 {
		topo, observed := crowded(t, `{}`, count)
		return cost(func() { plan.Diff(topo, observed, plan.Input{}) })
	}
	if few, many := foreign(500), foreign(1000); many > 2.5*few {
		t.Errorf("500 foreign bindings take %.0f allocations, 1000 take %.0f", few, many)
	}
	departed := func(count int) float64 {
		topo, observed := crowded(t, `{}`, count)
		var owned []v1alpha1.TopologyEntry
		for _, binding := range observed.BindingsTo["orders"] {
			arguments, _ := json.Marshal(binding.Arguments)
			owned = append(owned, v1alpha1.TopologyEntry{
				Kind: v1alpha1.KindBinding, Source: binding.Source, Destination: binding.Destination, RoutingKey: binding.RoutingKey,
				Arguments: string(arguments), Role: v1alpha1.RoleSource,
			})
		}
		return cost(func() { plan.Diff(topo, observed, plan.Input{Owned: owned}) })
	}
	if few, many := departed(200), departed(400); many > 2.5*few {
		t.Errorf("200 bindings that left the spec take %.0f allocations, 400 take %.0f", few, many)
	}
}

func BenchmarkDiffForeignBindings(b *testing.B) {
	topo, observed := crowded(b, `{}`, 20000)
	for b.Loop() {
		if got := plan.Diff(topo, observed, plan.Input{}); got.Unlisted != 20000-64 {
			b.Fatal(got.Unlisted)
		}
	}
}

// BenchmarkManyBindings has as many bindings in the spec as the API allows.
func BenchmarkManyBindings(b *testing.B) {
	cq := topologytest.ConsumerQueue(b, `{}`)
	for i := range 64 {
		source := v1alpha1.SourceBinding{Exchange: v1alpha1.SourceExchange{Name: v1alpha1.ExchangeName(fmt.Sprintf("x%d", i))}}
		for key := range 64 {
			source.RoutingKeys = append(source.RoutingKeys, v1alpha1.RoutingKey(fmt.Sprintf("key.%d", key)))
		}
		cq.Spec.Bindings = append(cq.Spec.Bindings, source)
	}
	for b.Loop() {
		topo, err := topology.Desired(cq, topologytest.V43)
		if err != nil {
			b.Fatal(err)
		}
		if got := plan.Diff(topo, vhost.Observed{}, plan.Input{}); len(got.Changes) < 4096 {
			b.Fatal(len(got.Changes))
		}
	}
}
