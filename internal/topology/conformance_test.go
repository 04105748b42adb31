package topology_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/conformance"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, vector := range conformance.Load(t) {
		for _, version := range append(topologytest.Versions, topologytest.V39) {
			t.Run(vector.Name+" on "+version.String(), func(t *testing.T) {
				t.Parallel()
				want, supported := vector.Expect(version)
				got := conformance.State{From: want.From}
				for i := range vector.ConsumerQueues {
					topo, err := topology.Desired(&vector.ConsumerQueues[i], version)
					if !supported {
						wantRefusal(t, err, v1alpha1.ReasonUnsupportedByBroker)
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					unite(t, &got, topo)
				}
				options := cmp.Options{
					cmpopts.EquateEmpty(),
					cmpopts.SortSlices(func(a, b conformance.Exchange) bool { return a.Name < b.Name }),
					cmpopts.SortSlices(func(a, b conformance.Queue) bool { return a.Name < b.Name }),
					cmpopts.SortSlices(func(a, b conformance.Binding) bool { return bindingKey(a) < bindingKey(b) }),
				}
				if difference := cmp.Diff(want, got, options); difference != "" {
					t.Errorf("vhost (-want +got):\n%s", difference)
				}
			})
		}
	}
}

func wantRefusal(t *testing.T, err error, reason string) {
	t.Helper()
	var refusal *topology.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != reason {
		t.Errorf("want a refusal %s, got %v", reason, err)
	}
}

// unite adds a topology to a vhost: shared objects exist once, and must be equal.
func unite(t *testing.T, state *conformance.State, topo topology.Topology) {
	t.Helper()
	for _, exchange := range topo.Exchanges {
		add(t, &state.Exchanges, conformance.Exchange{Name: exchange.Name, Type: string(exchange.Type), Durable: true},
			func(e conformance.Exchange) string { return e.Name })
	}
	for _, queue := range topo.Queues {
		add(t, &state.Queues, conformance.Queue{Name: queue.Name, Arguments: queue.Arguments},
			func(q conformance.Queue) string { return q.Name })
	}
	for _, binding := range topo.Bindings {
		add(t, &state.Bindings, conformance.Binding{
			Source: binding.Source, Destination: binding.Destination, RoutingKey: binding.RoutingKey, Arguments: binding.Arguments,
		}, bindingKey)
	}
}

func add[T any](t *testing.T, all *[]T, one T, key func(T) string) {
	t.Helper()
	for _, known := range *all {
		if key(known) == key(one) {
			topologytest.Equal(t, "shared "+key(one), known, one)
			return
		}
	}
	*all = append(*all, one)
}

func bindingKey(b conformance.Binding) string {
	return b.Source + "\x00" + b.Destination + "\x00" + b.RoutingKey + "\x00" + b.Arguments.JSON()
}
