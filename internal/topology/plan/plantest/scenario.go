// Package plantest plays the history of a ConsumerQueue for tests, and compares its spec with the broker.
package plantest

import (
	"testing"

	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// Scenario is the history of a ConsumerQueue named orders: it was in sync, then its spec or the broker's version changed, then
// another client changed the broker.
type Scenario struct {
	// Was is the spec with which the broker was in sync; empty if the broker never was.
	Was  string
	From vhost.Version
	// Spec is the current spec; Was if empty.
	Spec string
	On   vhost.Version
	// WarrenRecreates: Warren recreates queues itself.
	WarrenRecreates bool
	// Then changes the objects at the broker.
	Then func(o vhost.Observed)
}

// Outcome holds the inputs and results of a scenario.
type Outcome struct {
	Desired    topology.Topology
	Known      topology.Inventory
	Comparison plan.Comparison
}

// Play runs a scenario.
func (s Scenario) Play(t testing.TB) Outcome {
	t.Helper()
	if s.On == (vhost.Version{}) {
		s.On = topologytest.V43
	}
	if s.From == (vhost.Version{}) {
		s.From = s.On
	}
	if s.Spec == "" {
		s.Spec = s.Was
	}
	observed, known := topologytest.Observe(t), topology.Inventory{}
	if s.Was != "" {
		before := topologytest.Desired(t, s.Was, s.From)
		observed = topologytest.Observe(t, before)
		known = topology.InventoryOf(plan.MergeInventory(plan.Diff(before, observed, plan.Input{}), nil, plan.Plan{}))
	}
	if s.Then != nil {
		s.Then(observed)
	}
	desired := topologytest.Desired(t, s.Spec, s.On)
	older := func() []topology.Topology {
		return topology.DesiredOnOlderVersions(topologytest.ConsumerQueue(t, s.Spec), s.On)
	}
	comparison := plan.Diff(desired, observed, plan.Input{Older: older, WarrenRecreates: s.WarrenRecreates})
	return Outcome{Desired: desired, Known: known, Comparison: comparison}
}
