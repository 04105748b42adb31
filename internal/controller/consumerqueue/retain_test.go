package consumerqueue

import (
	"slices"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// The objects of intents that were not confirmed may exist at the broker.
func TestResolveIntents(t *testing.T) {
	t.Parallel()
	cq := controllertest.ConsumerQueue(t, `{retry: {policy: None}}`)
	topo := topologytest.Desired(t, `{retry: {policy: None}}`, topologytest.V43)
	comparison := plan.Diff(topo, topologytest.Observe(t, topo), plan.Input{})
	confirmed := plan.MergeInventory(comparison, nil, declaring(comparison.Entries))
	intended := slices.Clone(confirmed)
	for i := range intended {
		intended[i].LastSyncedHash = ""
	}
	for name, test := range map[string]struct {
		owned []v1alpha1.TopologyEntry
		then  func(o vhost.Observed)
		// declared, found, spared and unconfirmed are names.
		declared, found, spared []string
		unconfirmed             bool
	}{
		"a confirmed object was declared by Warren":       {owned: confirmed, declared: []string{"orders.dlx", "orders", "orders.dlq"}},
		"an existing object that matches may be Warren's": {owned: intended, found: []string{"orders.dlx", "orders", "orders.dlq"}, unconfirmed: true},
		"a missing object counts as declared":             {owned: intended, then: func(o vhost.Observed) { clear(o.Queues); clear(o.Exchanges) }, declared: []string{"orders.dlx", "orders", "orders.dlq"}},
		"an existing object that differs is not Warren's": {
			owned: intended, then: func(o vhost.Observed) { topologytest.SetArgument(&o, "orders", "x-message-ttl", 7) },
			found: []string{"orders.dlx", "orders.dlq"}, spared: []string{"orders"}, unconfirmed: true,
		},
	} {
		observed := topologytest.Observe(t, topo)
		if test.then != nil {
			test.then(observed)
		}
		d := &holdings{owned: topology.Owned(test.owned)}
		d.resolveIntents(cq, topologytest.V43, observed)
		declared, found := topology.SplitByOrigin(d.owned)
		var spared []v1alpha1.TopologyEntry
		for _, stay := range d.retained {
			spared = append(spared, stay.Entry)
		}
		topologytest.Equal(t, name+": declared", test.declared, objectNames(declared))
		topologytest.Equal(t, name+": found", test.found, objectNames(found))
		topologytest.Equal(t, name+": spared", test.spared, objectNames(spared))
		topologytest.Equal(t, name+": unconfirmed", test.unconfirmed, d.unconfirmed["orders.dlq"])
	}
}

// Another client declared a queue that never matched the spec, and its binding.
func TestADeletionKeepsTheBindingsOfForeignQueues(t *testing.T) {
	t.Parallel()
	topo := topologytest.Desired(t, `{retry: {policy: None}}`, topologytest.V43)
	entries := plan.MergeInventory(plan.Diff(topo, topologytest.Observe(t, topo), plan.Input{}), nil, plan.Plan{})
	for i := range entries {
		if entries[i].Name == "orders.dlq" {
			entries[i].State, entries[i].LastSyncedHash = v1alpha1.StateRecreationRequired, ""
		}
	}
	d := &holdings{owned: topology.Owned(entries)}
	d.retainForeign(entries)
	topologytest.Equal(t, "owned", []string{"orders.dlx", "orders"}, objectNames(d.owned))
	topologytest.Equal(t, "owned bindings", 0, len(topology.BindingsOf(d.owned)))
	dlq := entries[slices.IndexFunc(entries, func(e v1alpha1.TopologyEntry) bool { return e.Name == "orders.dlq" })]
	topologytest.Equal(t, "retained", []plan.Retained{{Entry: dlq, Reason: "it never matched the spec, and another client declared it"}}, d.retained)
}

func objectNames(entries []v1alpha1.TopologyEntry) []string {
	var names []string
	for _, entry := range entries {
		if entry.Kind != v1alpha1.KindBinding {
			names = append(names, entry.Name)
		}
	}
	return names
}

// declaring returns a plan that declares the exchanges and queues of entries.
func declaring(entries []plan.Entry) plan.Plan {
	p := plan.Plan{}
	for _, entry := range entries {
		if entry.Binding == nil {
			p.Actions = append(p.Actions, plan.Action{Verb: plan.Declare, Entry: entry})
		}
	}
	return p
}

// declaringQueue returns the actions of a plan that declares one queue.
func declaringQueue(name string) []plan.Action {
	return []plan.Action{{Verb: plan.Declare, Entry: plan.Entry{Queue: &topology.Queue{Name: name}}}}
}
