package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// stays formats the retained objects with their reasons.
func stays(step plan.Teardown) []string {
	lines := []string{}
	for _, stay := range step.Retained {
		lines = append(lines, fmt.Sprintf("%s %s: %s", stay.Entry.Kind, stay.Entry.Name, stay.Reason))
	}
	return lines
}

func TestTeardown(t *testing.T) {
	t.Parallel()
	const spec = `{
		bindings: [{exchange: {name: events, type: topic}, routingKeys: [k]}],
		retry: {exchange: {name: again}, delayTiers: [{delay: 10s, queueName: soon}, {delay: 20s, queueName: later}]},
		deadLetter: {exchange: {name: dead, type: direct}, queue: {name: dlq}}
	}`
	work := []string{"soon", "later", "orders"}
	workGone := func(o *vhost.Observed) {
		for _, queue := range work {
			topologytest.DropQueue(o, queue)
		}
	}
	dlqGone := func(o *vhost.Observed) {
		workGone(o)
		topologytest.DropQueue(o, "dlq")
	}
	to := func(source, destination, key string) vhost.Binding {
		return vhost.Binding{Source: source, Destination: destination, RoutingKey: key}
	}
	toDLQ := []topology.Binding{{Source: "dead", Destination: "dlq", RoutingKey: "dlq", Role: v1alpha1.RoleDeadLetter}}
	sharing := func(names ...string) func(v1alpha1.TopologyEntry) string {
		return func(entry v1alpha1.TopologyEntry) string {
			if slices.Contains(names, entry.Name) {
				return "ConsumerQueue shop/invoices"
			}
			return ""
		}
	}
	for name, test := range map[string]struct {
		at     func(o *vhost.Observed)
		then   func(o *vhost.Observed)
		shared func(v1alpha1.TopologyEntry) string
		kept   map[string]string
		want   plan.Teardown // without Stays
		stays  []string
	}{
		"the delay tiers and then the main queue are deleted in one group": {
			want: plan.Teardown{WorkQueues: work},
			stays: []string{
				`Exchange again: "later" is bound to it`, `Exchange dead: "dlq" is bound to it`, `Queue dlq: queue "orders" dead-letters to it`,
			},
		},
		"then the dead-letter queue": {
			at:    workGone,
			want:  plan.Teardown{DeadLetterQueues: []string{"dlq"}, Exchanges: []string{"again"}},
			stays: []string{`Exchange dead: "dlq" is bound to it`},
		},
		"then the exchanges are deleted, except for sources": {
			at:   dlqGone,
			want: plan.Teardown{Exchanges: []string{"again", "dead"}},
		},
		"then no object is left": {
			at: func(o *vhost.Observed) {
				dlqGone(o)
				topologytest.DropExchange(o, "again")
				topologytest.DropExchange(o, "dead")
			},
		},
		"a dead-letter queue that holds messages stays with its exchange": {
			at: workGone, kept: map[string]string{"dlq": "it holds messages"},
			want:  plan.Teardown{Exchanges: []string{"again"}},
			stays: []string{`Exchange dead: "dlq" is bound to it`, "Queue dlq: it holds messages"},
		},

		"a foreign queue dead-letters into a delay tier": {
			then: func(o *vhost.Observed) { topologytest.AddDeadLettering(o, "theirs", "", "soon") },
			want: plan.Teardown{WorkQueues: work, FeedingQueue: "theirs"},
			stays: []string{
				`Exchange again: "later" is bound to it`, `Exchange dead: "dlq" is bound to it`, `Queue dlq: queue "orders" dead-letters to it`,
			},
		},
		"a foreign queue dead-letters into the main queue by the source exchange": {
			then: func(o *vhost.Observed) { topologytest.AddDeadLettering(o, "theirs", "events", "k") },
			want: plan.Teardown{WorkQueues: work, FeedingQueue: "theirs"},
			stays: []string{
				`Exchange again: "later" is bound to it`, `Exchange dead: "dlq" is bound to it`, `Queue dlq: queue "orders" dead-letters to it`,
			},
		},
		"a foreign queue dead-letters with a key that does not lead to the main queue": {
			at: dlqGone, then: func(o *vhost.Observed) { topologytest.AddDeadLettering(o, "theirs", "events", "other") },
			want: plan.Teardown{Exchanges: []string{"again", "dead"}},
		},
		"a foreign queue dead-letters into the dead-letter queue": {
			at: workGone, then: func(o *vhost.Observed) { topologytest.AddDeadLettering(o, "theirs", "dead", "dlq") },
			want:  plan.Teardown{Exchanges: []string{"again"}},
			stays: []string{`Exchange dead: "dlq" is bound to it`, `Queue dlq: queue "theirs" dead-letters to it`},
		},
		"a foreign queue dead-letters to an exchange that leads nowhere": {
			at: dlqGone, then: func(o *vhost.Observed) { topologytest.AddDeadLettering(o, "theirs", "dead", "lost") },
			want: plan.Teardown{Exchanges: []string{"again"}}, stays: []string{`Exchange dead: queue "theirs" dead-letters to it`},
		},
		"a foreign queue is bound to an exchange": {
			at: dlqGone, then: func(o *vhost.Observed) { topologytest.Bind(o, to("again", "audit", "")) },
			want: plan.Teardown{Exchanges: []string{"dead"}}, stays: []string{`Exchange again: "audit" is bound to it`},
		},
		"an exchange is bound to another exchange": {
			at: dlqGone,
			then: func(o *vhost.Observed) {
				topologytest.Bind(o, vhost.Binding{Source: "hub", Destination: "again", ToExchange: true})
			},
			want: plan.Teardown{Exchanges: []string{"dead"}}, stays: []string{`Exchange again: it is bound to exchange "hub"`},
		},
		"an exchange is the alternate of another exchange": {
			at: dlqGone, then: func(o *vhost.Observed) {
				o.Exchanges["hub"] = vhost.Exchange{Arguments: vhost.Arguments{"alternate-exchange": "dead"}}
			},
			want: plan.Teardown{Exchanges: []string{"again"}}, stays: []string{`Exchange dead: it is the alternate exchange of "hub"`},
		},

		"objects of another ConsumerQueue are retained": {
			at: workGone, shared: sharing("dead", "dlq"),
			want:  plan.Teardown{Bindings: toDLQ, Exchanges: []string{"again"}},
			stays: []string{"Exchange dead: shared with ConsumerQueue shop/invoices", "Queue dlq: shared with ConsumerQueue shop/invoices"},
		},
		"the binding to a queue of another ConsumerQueue is removed with its exchange": {
			at: workGone, shared: sharing("dlq"),
			want:  plan.Teardown{Bindings: toDLQ, Exchanges: []string{"again", "dead"}},
			stays: []string{"Queue dlq: shared with ConsumerQueue shop/invoices"},
		},
		"the binding to a queue of another ConsumerQueue stays while a foreign queue dead-letters by it": {
			at: workGone, shared: sharing("dlq"), then: func(o *vhost.Observed) { topologytest.AddDeadLettering(o, "theirs", "dead", "dlq") },
			want:  plan.Teardown{Exchanges: []string{"again"}},
			stays: []string{`Exchange dead: "dlq" is bound to it`, "Queue dlq: shared with ConsumerQueue shop/invoices"},
		},
		"a binding that another ConsumerQueue specifies is retained": {
			at: workGone, shared: func(entry v1alpha1.TopologyEntry) string {
				if entry.Source == "dead" {
					return "ConsumerQueue shop/invoices"
				}
				return sharing("dlq")(entry)
			},
			want:  plan.Teardown{Exchanges: []string{"again"}},
			stays: []string{`Exchange dead: "dlq" is bound to it`, "Queue dlq: shared with ConsumerQueue shop/invoices"},
		},
		"an exchange of another ConsumerQueue is retained": {
			at: dlqGone, shared: sharing("again", "events"),
			want: plan.Teardown{Exchanges: []string{"dead"}}, stays: []string{"Exchange again: shared with ConsumerQueue shop/invoices"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topo := topologytest.Desired(t, spec, topologytest.V43)
			observed := topologytest.Observe(t, topo)
			for _, change := range []func(o *vhost.Observed){test.at, test.then} {
				if change != nil {
					change(&observed)
				}
			}
			observed.DeadLetterRoutes = vhost.DeadLetterRoutesIn(observed.Queues)
			if test.shared == nil {
				test.shared = sharing()
			}
			got := plan.TeardownOf(topologytest.Owned(topo), observed, test.shared, test.kept)
			topologytest.Equal(t, "stays", append([]string{}, test.stays...), stays(got), cmpopts.SortSlices(func(a, b string) bool { return a < b }))
			got.Retained = nil
			topologytest.Equal(t, "step", test.want, got)
		})
	}
}

// A delay tier that left the spec earlier, and was retained, is deleted with the rest.
func TestTeardownOrphans(t *testing.T) {
	t.Parallel()
	before := topologytest.Desired(t, `{retry: {delayTiers: [{delay: 10s}, {delay: 20s}]}}`, topologytest.V43)
	now := topologytest.Desired(t, `{retry: {delayTiers: [{delay: 20s}]}}`, topologytest.V43)
	observed := topologytest.Observe(t, before, now)
	compared := plan.Diff(now, observed, plan.Input{Owned: topologytest.Owned(before)})
	got := plan.TeardownOf(entriesOf(compared), observed, func(v1alpha1.TopologyEntry) string { return "" }, nil)
	topologytest.Equal(t, "work", []string{"orders.retry.20s", "orders.retry.10s", "orders"}, got.WorkQueues)
}

// The manager crashed between the deletions of two work queues.
func TestHalfDeleted(t *testing.T) {
	t.Parallel()
	const spec = `{retry: {exchange: {name: again}, delayTiers: [{delay: 10s, queueName: soon}, {delay: 20s, queueName: later}]}}`
	const soon, later = "queue soon: DelayTier", "queue later: DelayTier"
	for name, test := range map[string]struct {
		gone   []string
		change func(inventory topology.Inventory, observed *vhost.Observed)
		// before is another spec that the objects were in sync with.
		before string
		want   []string
	}{
		"no object is missing": {},
		"a tier":               {gone: []string{"soon"}, want: []string{soon, "again -> soon"}},
		"all tiers":            {gone: []string{"soon", "later"}, want: []string{soon, later, "again -> soon", "again -> later"}},
		"the main queue, too": {
			gone: []string{"soon", "later", "orders"},
		},
		"the dead-letter queue, which is deleted after the group": {
			gone: []string{"orders.dlq"},
		},
		"a tier that was missing before the deletion": {
			gone: []string{"soon", "later"},
			change: func(inventory topology.Inventory, _ *vhost.Observed) {
				entry := inventory[vhost.QueueID("soon")]
				entry.State = v1alpha1.StateMissing
				inventory[vhost.QueueID("soon")] = entry
			},
			want: []string{later, "again -> later"},
		},
		"a tier that was in sync with another spec": {
			gone: []string{"soon", "later"}, before: `{retry: {exchange: {name: again}, delayTiers: [{delay: 5s, queueName: soon}, {delay: 20s, queueName: later}]}}`,
			want: []string{later, "again -> later"},
		},
		"a tier that is not this resource's own": {
			gone:   []string{"soon"},
			change: func(inventory topology.Inventory, _ *vhost.Observed) { delete(inventory, vhost.QueueID("soon")) },
		},
		"a tier beside a foreign main queue": {
			gone:   []string{"soon"},
			change: func(inventory topology.Inventory, _ *vhost.Observed) { delete(inventory, vhost.QueueID("orders")) },
		},
		"a tier and its exchange": {
			gone: []string{"soon"}, change: func(_ topology.Inventory, observed *vhost.Observed) { topologytest.DropExchange(observed, "again") },
			want: []string{soon},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topo := topologytest.Desired(t, spec, topologytest.V43)
			recorded := topo
			if test.before != "" {
				recorded = topologytest.Desired(t, test.before, topologytest.V43)
			}
			observed, inventory := topologytest.Observe(t, topo), topology.InventoryOf(topologytest.Owned(recorded))
			for _, queue := range test.gone {
				topologytest.DropQueue(&observed, queue)
			}
			if test.change != nil {
				test.change(inventory, &observed)
			}
			var got []string
			missing := plan.HalfDeleted(topo, inventory, observed)
			for _, queue := range missing.Queues {
				got = append(got, fmt.Sprintf("queue %s: %s", queue.Name, queue.Role))
			}
			for _, binding := range missing.Bindings {
				got = append(got, fmt.Sprintf("%s -> %s", binding.Source, binding.Destination))
			}
			topologytest.Equal(t, "missing", test.want, got)
		})
	}
}
