package controller

import (
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
)

// Of what was about to be declared when it was last heard of, the broker may have something by now.
func TestSettleIntents(t *testing.T) {
	t.Parallel()
	cq := consumerQueue(t, `{retry: {policy: None}}`)
	topo := desired(t, `{retry: {policy: None}}`, v43)
	entries := topology.Diff(topo, observe(topo), topology.Context{}).Entries
	intended := remember(entries, make([]string, len(entries)), nil, plan{planned: historyOf(entries)})
	for i := range intended {
		intended[i].Shape = ""
	}
	confirmed := remember(entries, topo.Shapes(), nil, plan{planned: historyOf(entries)})
	for name, test := range map[string]struct {
		owned []v1alpha1.TopologyEntry
		then  func(o topology.Observed)
		// declared, found, spared and unconfirmed are names.
		declared, found, spared []string
		unconfirmed             bool
	}{
		"what is confirmed is Warren's":     {owned: confirmed, declared: []string{"orders.dlx", "orders", "orders.dlq"}},
		"what is there just so may be":      {owned: intended, found: []string{"orders.dlx", "orders", "orders.dlq"}, unconfirmed: true},
		"what is not there does not matter": {owned: intended, then: func(o topology.Observed) { clear(o.Queues); clear(o.Exchanges) }, declared: []string{"orders.dlx", "orders", "orders.dlq"}},
		"what is otherwise is somebody's": {
			owned: intended, then: func(o topology.Observed) { setArgument(o, "orders", "x-message-ttl", 7) },
			found: []string{"orders.dlx", "orders.dlq"}, spared: []string{"orders"}, unconfirmed: true,
		},
	} {
		observed := observe(topo)
		if test.then != nil {
			test.then(observed)
		}
		d := &dismantling{version: v43, owned: topology.Owned(test.owned)}
		d.settleIntents(cq, observed)
		declared, found := topology.SplitByOrigin(d.owned)
		var spared []v1alpha1.TopologyEntry
		for _, stay := range d.spared {
			spared = append(spared, stay.Entry)
		}
		equal(t, name+": declared", test.declared, objectNames(declared))
		equal(t, name+": found", test.found, objectNames(found))
		equal(t, name+": spared", test.spared, objectNames(spared))
		equal(t, name+": unconfirmed", test.unconfirmed, d.unconfirmed["orders.dlq"])
	}
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
