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

// edit is a change of a spec, with the broker as it was declared before.
type edit struct {
	was, spec string
	// declared is true if the new objects already exist at the broker.
	declared bool
	from, on vhost.Version
	// then changes the broker.
	then   func(o *vhost.Observed)
	shared func(v1alpha1.TopologyEntry) bool
	// otherInstance is why nothing may be removed; empty if objects may be.
	otherInstance string
}

func (e edit) compare(t *testing.T) plan.Comparison {
	t.Helper()
	if e.on == (vhost.Version{}) {
		e.on = topologytest.V43
	}
	if e.from == (vhost.Version{}) {
		e.from = e.on
	}
	before, now := topologytest.Desired(t, e.was, e.from), topologytest.Desired(t, e.spec, e.on)
	observed := topologytest.Observe(t, before)
	if e.declared {
		topologytest.Declare(t, &observed, now)
	}
	if e.then != nil {
		e.then(&observed)
	}
	observed.DeadLetterRoutes = vhost.DeadLetterRoutesIn(observed.Queues)
	return plan.Diff(now, observed, plan.Input{
		Older: func() []topology.Topology {
			return topology.DesiredOnOlderVersions(topologytest.ConsumerQueue(t, e.spec), e.on)
		},
		Owned: topologytest.Owned(before), Shared: e.shared, OtherInstance: e.otherInstance,
	})
}

// leaving formats the orphans: their immediate change, or why they are retained. A queue without a reason waits to be empty.
func leaving(comparison plan.Comparison) []string {
	lines := []string{}
	for _, orphan := range comparison.Orphans {
		object := fmt.Sprintf("%s %s", orphan.Entry.Kind, orphan.Entry.Name)
		if orphan.Entry.Kind == v1alpha1.KindBinding {
			object = fmt.Sprintf("Binding %s -> %s %q", orphan.Entry.Source, orphan.Entry.Destination, orphan.Entry.RoutingKey)
		}
		what := orphan.BlockedBy.Message
		if what == "" {
			what = "goes"
		}
		lines = append(lines, object+": "+what)
	}
	return lines
}

func TestWhatLeavesTheSpec(t *testing.T) {
	t.Parallel()
	const (
		tiered   = `{retry: {delayTiers: [{delay: 10s}, {delay: 20s}]}}`
		retrying = `{retry: {exchange: {name: again}, delayTiers: [{delay: 10s, queueName: wait}]}}`
		direct   = `{retry: {policy: None}, deadLetter: {exchange: {name: dead, type: direct}, routingKey: %q, queue: {name: %s}}}`
		byReason = `{retry: {strategy: Reject, delayTiers: [{delay: %s}]}, deadLetter: {queue: {name: %s}}}`
		fanout   = `{retry: {policy: None}, deadLetter: {exchange: {name: %s}, queue: {name: %s}}}`
		instead  = ": the new objects of the spec do not exist yet"
	)
	keys := func(key string, maxLength int) string {
		const spec = `{bindings: [{exchange: {name: events, type: topic}, routingKeys: [%s]}], deadLetter: {queue: {maxLength: %d}}}`
		return fmt.Sprintf(spec, key, maxLength)
	}
	to := func(source, destination, key string) vhost.Binding {
		return vhost.Binding{Source: source, Destination: destination, RoutingKey: key}
	}
	through := func(source, destination string) vhost.Binding {
		return vhost.Binding{Source: source, Destination: destination, ToExchange: true}
	}
	withoutPaid := func(o *vhost.Observed) {
		topologytest.DropBindings(o, func(b vhost.Binding) bool { return b.RoutingKey == "order.paid" })
	}
	for name, test := range map[string]struct {
		edit

		want []string
	}{
		"no object left the spec": {edit: edit{was: most, spec: most}, want: []string{}},
		"a queue that must be recreated is still desired": {
			edit: edit{was: `{}`, spec: `{deadLetter: {queue: {maxLength: 5}}}`}, want: []string{},
		},

		"a delay tier is deleted when it is empty": {
			edit: edit{was: tiered, spec: `{retry: {delayTiers: [{delay: 20s}]}}`},
			want: []string{"Queue orders.retry.10s: goes"},
		},
		"a delay tier stays until its replacement exists": {
			edit: edit{was: `{retry: {delayTiers: [{delay: 10s}]}}`, spec: `{retry: {delayTiers: [{delay: 20s}]}}`},
			want: []string{"Queue orders.retry.10s" + instead},
		},
		"a delay tier with a foreign binding stays": {
			edit: edit{was: tiered, spec: `{retry: {delayTiers: [{delay: 20s}]}}`, then: func(o *vhost.Observed) {
				topologytest.Bind(o, to("elsewhere", "orders.retry.10s", ""))
			}},
			want: []string{`Queue orders.retry.10s: it is still bound to exchange "elsewhere"`},
		},
		"a delay tier to which a foreign queue dead-letters stays": {
			edit: edit{was: tiered, spec: `{retry: {delayTiers: [{delay: 20s}]}}`, then: func(o *vhost.Observed) {
				topologytest.AddDeadLettering(o, "theirs", "", "orders.retry.10s")
			}},
			want: []string{`Queue orders.retry.10s: queue "theirs" still dead-letters to it`},
		},
		"a delay tier that was deleted at the broker": {
			edit: edit{was: tiered, spec: `{retry: {delayTiers: [{delay: 20s}]}}`, then: func(o *vhost.Observed) {
				topologytest.DropQueue(o, "orders.retry.10s")
			}},
			want: []string{},
		},

		"a retry exchange is deleted with its binding, and the delay tier is unbound before": {
			edit: edit{was: retrying, spec: `{retry: {policy: None}}`},
			want: []string{
				"Exchange again: goes", `Queue wait: it is still bound to exchange "again"`, `Binding again -> wait "wait": goes`,
			},
		},
		"a retry exchange stays until its replacement exists": {
			edit: edit{was: retrying, spec: `{retry: {exchange: {name: other}, delayTiers: [{delay: 10s, queueName: wait}]}}`},
			want: []string{"Exchange again" + instead, `Binding again -> wait "wait"` + instead},
		},
		"a retry exchange is deleted when its replacement is bound": {
			edit: edit{was: retrying, spec: `{retry: {exchange: {name: other}, delayTiers: [{delay: 10s, queueName: wait}]}}`, declared: true},
			want: []string{"Exchange again: goes", `Binding again -> wait "wait": goes`},
		},
		"a retry exchange to which a foreign queue is bound stays": {
			edit: edit{was: retrying, spec: `{retry: {policy: None}}`, then: func(o *vhost.Observed) { topologytest.Bind(o, to("again", "audit", "")) }},
			want: []string{
				`Exchange again: "audit" is bound to it`, `Queue wait: it is still bound to exchange "again"`, `Binding again -> wait "wait": goes`,
			},
		},
		"a retry exchange that is bound to another exchange stays": {
			edit: edit{was: retrying, spec: `{retry: {policy: None}}`, then: func(o *vhost.Observed) { topologytest.Bind(o, through("hub", "again")) }},
			want: []string{
				`Exchange again: it is bound to exchange "hub"`, `Queue wait: it is still bound to exchange "again"`, `Binding again -> wait "wait": goes`,
			},
		},
		"a retry exchange that is the alternate of another exchange stays": {
			edit: edit{was: retrying, spec: `{retry: {policy: None}}`, then: func(o *vhost.Observed) {
				o.Exchanges["hub"] = vhost.Exchange{Type: "topic", Arguments: vhost.Arguments{"alternate-exchange": "again"}}
			}},
			want: []string{
				`Exchange again: it is the alternate exchange of "hub"`, `Queue wait: it is still bound to exchange "again"`,
				`Binding again -> wait "wait": goes`,
			},
		},
		"a retry exchange that a policy makes an alternate exchange stays": {
			edit: edit{was: retrying, spec: `{retry: {policy: None}}`, then: func(o *vhost.Observed) {
				o.Policies = []vhost.Policy{{Name: "unrouted", Pattern: vhost.ReadPattern("^hub$"), ApplyTo: "exchanges", Definition: vhost.Arguments{"alternate-exchange": "again"}}}
			}},
			want: []string{
				`Exchange again: policy "unrouted" makes it an alternate exchange`, `Queue wait: it is still bound to exchange "again"`,
				`Binding again -> wait "wait": goes`,
			},
		},
		"a retry exchange by which a foreign queue dead-letters stays with its binding": {
			edit: edit{was: retrying, spec: `{retry: {policy: None}}`, then: func(o *vhost.Observed) { topologytest.AddDeadLettering(o, "theirs", "again", "wait") }},
			want: []string{
				`Exchange again: "wait" is bound to it`, `Queue wait: queue "theirs" still dead-letters to it`,
				`Binding again -> wait "wait": queue "theirs" still dead-letters through it`,
			},
		},
		"if the dead-letter key leads nowhere, only the exchange stays": {
			edit: edit{was: retrying, spec: `{retry: {policy: None}}`, then: func(o *vhost.Observed) { topologytest.AddDeadLettering(o, "theirs", "again", "lost") }},
			want: []string{
				`Exchange again: queue "theirs" dead-letters to it`, `Queue wait: it is still bound to exchange "again"`,
				`Binding again -> wait "wait": goes`,
			},
		},

		"a fanout dead-letter exchange leads to the old queue until it leads to the new one": {
			edit: edit{was: fmt.Sprintf(fanout, "dead", "one"), spec: fmt.Sprintf(fanout, "dead", "two")},
			want: []string{"Queue one" + instead, `Binding dead -> one ""` + instead},
		},
		"a fanout dead-letter exchange no longer leads to the old queue once it leads to the new one": {
			edit: edit{was: fmt.Sprintf(fanout, "dead", "one"), spec: fmt.Sprintf(fanout, "dead", "two"), declared: true},
			want: []string{`Queue one: queue "orders" still dead-letters to it`, `Binding dead -> one "": goes`},
		},
		"a direct dead-letter exchange with the previous key does the same": {
			edit: edit{was: fmt.Sprintf(direct, "k", "one"), spec: fmt.Sprintf(direct, "k", "two"), declared: true},
			want: []string{`Queue one: queue "orders" still dead-letters to it`, `Binding dead -> one "k": goes`},
		},
		"with another key the main queue must be recreated, and all objects stay": {
			edit: edit{was: fmt.Sprintf(direct, "k", "one"), spec: fmt.Sprintf(direct, "other", "two"), declared: true},
			want: []string{"Queue one" + instead, `Binding dead -> one "k"` + instead},
		},
		"by reason: rejects go to one delay tier, and to two only during the change": {
			edit: edit{was: fmt.Sprintf(byReason, "10s", "dlq"), spec: fmt.Sprintf(byReason, "20s", "dlq"), declared: true},
			want: []string{
				`Queue orders.retry.10s: queue "orders" still dead-letters to it`, `Binding orders.dlx -> orders.retry.10s "": goes`,
			},
		},
		"by reason: dead letters go to one dead-letter queue": {
			edit: edit{was: fmt.Sprintf(byReason, "10s", "one"), spec: fmt.Sprintf(byReason, "10s", "two"), declared: true},
			want: []string{
				`Queue one: queue "orders" still dead-letters to it`, `Binding orders.dlx -> one "": goes`,
				`Binding orders.dlx -> one "": goes`, `Binding orders.dlx -> one "": goes`,
			},
		},
		"a foreign queue that dead-letters to it retains the old dead-letter exchange": {
			edit: edit{
				was: `{retry: {policy: None}}`, spec: `{retry: {policy: None}, deadLetter: {policy: Disabled}}`,
				then: func(o *vhost.Observed) {
					o.Queues["orders"] = vhost.Queue{Durable: true, Arguments: topologytest.ThroughJSON(t, topologytest.Desired(t, topologytest.Alone, topologytest.V43).Queues[0].Arguments)}
					topologytest.AddDeadLettering(o, "theirs", "orders.dlx", "")
				},
			},
			want: []string{
				`Exchange orders.dlx: "orders.dlq" is bound to it`, `Queue orders.dlq: queue "theirs" still dead-letters to it`,
				`Binding orders.dlx -> orders.dlq "": queue "theirs" still dead-letters through it`,
			},
		},
		"it is still needed as the alternate of an exchange by a policy": {
			edit: edit{was: retrying, spec: `{retry: {policy: None}}`, then: func(o *vhost.Observed) {
				o.Exchanges["hub"] = vhost.Exchange{Type: "topic"}
				o.Policies = []vhost.Policy{{Name: "unrouted", Pattern: vhost.ReadPattern("^hub$"), Definition: vhost.Arguments{"alternate-exchange": "again"}}}
				topologytest.AddDeadLettering(o, "theirs", "hub", "wait")
			}},
			want: []string{
				`Exchange again: "wait" is bound to it`, `Queue wait: queue "theirs" still dead-letters to it`,
				`Binding again -> wait "wait": queue "theirs" still dead-letters through it`,
			},
		},
		"another queue that is bound there is a sufficient route": {
			edit: edit{
				was: `{retry: {policy: None}}`, spec: `{retry: {policy: None}, deadLetter: {policy: Disabled}}`,
				then: func(o *vhost.Observed) {
					o.Queues["orders"] = vhost.Queue{Durable: true, Arguments: topologytest.ThroughJSON(t, topologytest.Desired(t, topologytest.Alone, topologytest.V43).Queues[0].Arguments)}
					topologytest.AddDeadLettering(o, "theirs", "orders.dlx", "")
					topologytest.Bind(o, to("orders.dlx", "audit", ""))
				},
			},
			want: []string{
				`Exchange orders.dlx: "audit" is bound to it`, `Queue orders.dlq: queue "theirs" still dead-letters to it`,
				`Binding orders.dlx -> orders.dlq "": goes`,
			},
		},
		"another exchange that is bound there may lead nowhere": {
			edit: edit{
				was: `{retry: {policy: None}}`, spec: `{retry: {policy: None}, deadLetter: {policy: Disabled}}`,
				then: func(o *vhost.Observed) {
					o.Queues["orders"] = vhost.Queue{Durable: true, Arguments: topologytest.ThroughJSON(t, topologytest.Desired(t, topologytest.Alone, topologytest.V43).Queues[0].Arguments)}
					topologytest.AddDeadLettering(o, "theirs", "orders.dlx", "")
					topologytest.Bind(o, through("orders.dlx", "audit"))
				},
			},
			want: []string{
				`Exchange orders.dlx: "audit" is bound to it`, `Queue orders.dlq: queue "theirs" still dead-letters to it`,
				`Binding orders.dlx -> orders.dlq "": queue "theirs" still dead-letters through it`,
			},
		},
		"it is still needed if a route leads through another exchange": {
			edit: edit{was: retrying, spec: `{retry: {policy: None}}`, then: func(o *vhost.Observed) {
				topologytest.AddDeadLettering(o, "theirs", "hub", "wait")
				topologytest.Bind(o, through("hub", "again"))
			}},
			want: []string{
				`Exchange again: "wait" is bound to it`, `Queue wait: queue "theirs" still dead-letters to it`,
				`Binding again -> wait "wait": queue "theirs" still dead-letters through it`,
			},
		},
		"it is still needed as the alternate of an exchange": {
			edit: edit{was: retrying, spec: `{retry: {policy: None}}`, then: func(o *vhost.Observed) {
				o.Exchanges["hub"] = vhost.Exchange{Type: "topic", Arguments: vhost.Arguments{"alternate-exchange": "again"}}
				topologytest.AddDeadLettering(o, "theirs", "hub", "wait")
			}},
			want: []string{
				`Exchange again: "wait" is bound to it`, `Queue wait: queue "theirs" still dead-letters to it`,
				`Binding again -> wait "wait": queue "theirs" still dead-letters through it`,
			},
		},

		"source keys stay bound until another key is bound": {
			edit: edit{was: most, spec: `
queue: {messageTTL: 5m}
bindings: [{exchange: {name: events, type: topic}, routingKeys: ["order.paid"]}]
retry: {exchange: {name: again}, delayTiers: [{delay: 1m}]}
deadLetter: {queue: {maxLength: 9}}
`},
			want: []string{
				"Queue orders.retry.30s" + instead, `Binding events -> orders "order.*"` + instead, `Binding legacy -> orders "a b"` + instead,
				`Binding again -> orders.retry.30s "orders.retry.30s"` + instead,
			},
		},
		"source keys stay while their queue must be recreated": {
			edit: edit{was: most, spec: "queue: {messageTTL: 6m}" + afterQueue},
			want: []string{
				`Binding events -> orders "order.*": queue "orders" must be recreated first. Warren does not change it until then`,
				`Binding legacy -> orders "a b": queue "orders" must be recreated first. Warren does not change it until then`,
			},
		},
		"source keys are unbound while another queue must be recreated": {
			edit: edit{was: most, spec: "queue: {messageTTL: 5m}\n" + `bindings: []
retry: {exchange: {name: again}, delayTiers: [{delay: 30s}]}
deadLetter: {queue: {maxLength: 10}}`},
			want: []string{`Binding events -> orders "order.*": goes`, `Binding legacy -> orders "a b": goes`},
		},
		"source keys are unbound if a broker upgrade alone made the queue differ": {
			edit: edit{
				was: `{deadLetter: {policy: Disabled}, retry: {policy: None}, bindings: [{exchange: {name: events, type: fanout}}]}`, spec: topologytest.Alone, from: topologytest.V313, on: topologytest.V40,
			},
			want: []string{`Binding events -> orders "": goes`},
		},
		"a source key stays bound until the key that replaces it is bound": {
			edit: edit{was: keys("order.placed", 9), spec: keys("order.*", 9)},
			want: []string{`Binding events -> orders "order.placed"` + instead},
		},
		"a source key is unbound when the key that replaces it is bound": {
			edit: edit{was: keys("order.placed", 9), spec: keys("order.*", 9), declared: true},
			want: []string{`Binding events -> orders "order.placed": goes`},
		},
		"a source key is unbound while another key that was bound before is missing": {
			edit: edit{was: keys("order.placed, order.paid", 9), spec: keys("order.paid", 9), then: withoutPaid},
			want: []string{`Binding events -> orders "order.placed": goes`},
		},
		"the last source key that exists is unbound while a source exchange that was bound before is missing": {
			edit: edit{
				was:  `{bindings: [{exchange: {name: more, type: topic}, routingKeys: [order.paid]}, {exchange: {name: events, type: fanout}}], deadLetter: {policy: Disabled}}`,
				spec: `{bindings: [{exchange: {name: more, type: topic}, routingKeys: [order.paid]}], deadLetter: {policy: Disabled}}`,
				then: withoutPaid,
			},
			want: []string{`Binding events -> orders "": goes`},
		},
		"a source key stays bound while its replacement waits for the recreation of another queue": {
			edit: edit{was: keys("order.placed", 9), spec: keys("order.*", 10)},
			want: []string{`Binding events -> orders "order.placed"` + instead},
		},
		"a source exchange stays bound until the exchange that replaces it is bound": {
			edit: edit{was: keys("order.placed", 9), spec: `{bindings: [{exchange: {name: more, type: fanout}}], deadLetter: {queue: {maxLength: 9}}}`},
			want: []string{`Binding events -> orders "order.placed"` + instead},
		},
		"a source exchange does not wait for another one if the queue has a further source": {
			edit: edit{
				was:  `{bindings: [{exchange: {name: events, type: topic}, routingKeys: [a]}, {exchange: {name: other, type: fanout}}], deadLetter: {policy: Disabled}}`,
				spec: `{bindings: [{exchange: {name: more, type: fanout}}, {exchange: {name: other, type: fanout}}], deadLetter: {policy: Disabled}}`,
			},
			want: []string{`Binding events -> orders "a": goes`},
		},
		"a source exchange does not wait for one that Warren does not declare": {
			edit: edit{was: keys("order.placed", 9), spec: `{bindings: [{exchange: {name: legacy}}], deadLetter: {queue: {maxLength: 9}}}`},
			want: []string{`Binding events -> orders "order.placed": goes`},
		},
		"a key by which a delay tier returns messages stays bound until the tier is gone, although a foreign queue gets them too": {
			edit: edit{
				was: `{bindings: [{exchange: {name: events, type: topic}, routingKeys: [order.placed, order.retry]}], ` +
					`retry: {returnTo: {exchange: events, routingKey: order.retry}, delayTiers: [{delay: 30s, queueName: wait}]}, deadLetter: {policy: Disabled}}`,
				spec: `{bindings: [{exchange: {name: events, type: topic}, routingKeys: [order.placed]}], retry: {policy: None}, deadLetter: {policy: Disabled}}`,
				then: func(o *vhost.Observed) {
					topologytest.Bind(o, vhost.Binding{Source: "events", Destination: "audit", RoutingKey: "#"})
				},
			},
			want: []string{`Binding events -> orders "order.retry": queue "wait" still dead-letters through it`, "Queue wait: goes"},
		},
		"a source by which a foreign queue dead-letters stays bound": {
			edit: edit{
				was: `{retry: {policy: None}, bindings: [{exchange: {name: events, type: fanout}}]}`, spec: `{retry: {policy: None}}`,
				then: func(o *vhost.Observed) { topologytest.AddDeadLettering(o, "theirs", "events", "") },
			},
			want: []string{`Binding events -> orders "": queue "theirs" still dead-letters through it`},
		},
		"a missing source exchange does not block the other objects": {
			edit: edit{was: tiered, spec: `{bindings: [{exchange: {name: legacy}}], retry: {delayTiers: [{delay: 20s}]}}`},
			want: []string{"Queue orders.retry.10s: goes"},
		},

		"after a broker upgrade, orphaned objects are removed": {
			edit: edit{was: tiered, spec: `{retry: {delayTiers: [{delay: 20s}]}}`, from: topologytest.V313, on: topologytest.V40},
			want: []string{"Queue orders.retry.10s: goes"},
		},
		"objects of another ConsumerQueue stay": {
			edit: edit{
				was: fmt.Sprintf(fanout, "dead", "one"), spec: fmt.Sprintf(fanout, "other", "two"),
				shared: func(e v1alpha1.TopologyEntry) bool { return e.Name == "one" || e.Source == "dead" },
			},
			want: []string{"Exchange dead" + instead},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := test.compare(t)
			topologytest.Equal(t, "orphans", test.want, leaving(got), cmpopts.SortSlices(func(a, b string) bool { return a < b }))
			orphaned := 0
			for _, entry := range got.Entries {
				if entry.State == v1alpha1.StateOrphaned {
					orphaned++
				}
			}
			topologytest.Equal(t, "orphans", len(test.want), orphaned)
		})
	}
}

const afterQueue = `
bindings: []
retry: {exchange: {name: again}, delayTiers: [{delay: 30s}]}
deadLetter: {queue: {maxLength: 9}}
`

// An orphan is a change if it can be removed immediately. A queue has no change: waiting until it is empty is not drift.
func TestChangesOfDepartures(t *testing.T) {
	t.Parallel()
	got := edit{
		was: `{
			bindings: [{exchange: {name: events, type: headers}, routingKeys: [k], arguments: {x-n: 1}}],
			retry: {exchange: {name: again}, delayTiers: [{delay: 10s, queueName: wait}, {delay: 20s, queueName: longer}]}
		}`,
		spec: `{retry: {delayTiers: [{delay: 20s, queueName: longer}]}}`,
	}.compare(t)
	topologytest.Equal(t, "changes", []v1alpha1.Change{
		{
			Kind: v1alpha1.KindExchange, Name: "again", Effect: v1alpha1.EffectDelete, Message: `exchange "again" has left the spec`,
		},
		{
			Kind: v1alpha1.KindBinding, Source: "events", Destination: "orders", RoutingKey: "k", Arguments: `{"x-n":1}`, Effect: v1alpha1.EffectUnbind,
			Message: `queue "orders" is still bound to exchange "events" with routing key "k"`,
		},
		{
			Kind: v1alpha1.KindBinding, Source: "again", Destination: "wait", RoutingKey: "wait", Effect: v1alpha1.EffectUnbind,
			Message: `queue "wait" is still bound to exchange "again" with routing key "wait"`,
		},
		{
			Kind: v1alpha1.KindBinding, Source: "again", Destination: "longer", RoutingKey: "longer", Effect: v1alpha1.EffectUnbind,
			Message: `queue "longer" is still bound to exchange "again" with routing key "longer"`,
		},
	}, got.Changes)
	at := slices.IndexFunc(got.Orphans, func(d plan.Orphan) bool { return d.Entry.Source == "events" })
	topologytest.Equal(t, "binding", topology.Binding{
		Source: "events", Destination: "orders", RoutingKey: "k", Arguments: vhost.Arguments{"x-n": int64(1)}, Role: v1alpha1.RoleSource,
	}, topology.BindingOf(got.Orphans[at].Entry))
	topologytest.Equal(t, "recreate", false, got.RequiresRecreation())
}
