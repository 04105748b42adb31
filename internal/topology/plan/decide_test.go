package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/plan/plantest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// full is a spec with an object of every kind and role, with short names.
const full = `{
  bindings: [{exchange: {name: events, type: topic}, routingKeys: [order.placed]}],
  retry: {exchange: {name: again}, delayTiers: [{delay: 30s, queueName: tier}]},
  deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}
}`

// fullWithTTL is full with a further argument on its main queue, which therefore requires recreation.
const fullWithTTL = `{
  queue: {messageTTL: 5m},
  bindings: [{exchange: {name: events, type: topic}, routingKeys: [order.placed]}],
  retry: {exchange: {name: again}, delayTiers: [{delay: 30s, queueName: tier}]},
  deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}
}`

// New source bindings come last, after all other objects exist. A deleted source binding that was in sync is declared again
// immediately.
func TestDecide(t *testing.T) {
	t.Parallel()
	all := []string{
		"exchange events (topic)", "exchange again (direct)", "exchange dlx (fanout)",
		"queue orders", "queue tier", "queue dlq",
		`binding again -> tier "tier"`, `binding dlx -> dlq ""`, `at last binding events -> orders "order.placed"`,
	}
	for name, test := range map[string]struct {
		plantest.Scenario

		policy v1alpha1.DriftPolicy
		want   []string
		drift  bool
	}{
		"no object exists yet": {Scenario: plantest.Scenario{Spec: full}, want: all},
		"all is there":         {Scenario: plantest.Scenario{Was: full}},
		"existing objects of a new spec stay": {
			Scenario: plantest.Scenario{Spec: full, Then: func(o vhost.Observed) {
				o.Exchanges["events"] = vhost.Exchange{Type: "topic", Durable: true}
			}},
			want: all[1:],
		},
		"a queue was deleted, and its binding with it": {
			Scenario: plantest.Scenario{Was: full, Then: func(o vhost.Observed) { topologytest.DropQueue(&o, "dlq") }},
			want:     []string{"queue dlq", `binding dlx -> dlq ""`}, drift: true,
		},
		"an exchange was deleted, and its binding with it": {
			Scenario: plantest.Scenario{Was: full, Then: func(o vhost.Observed) { topologytest.DropExchange(&o, "again") }},
			want:     []string{"exchange again (direct)", `binding again -> tier "tier"`}, drift: true,
		},
		"a binding was deleted": {
			Scenario: plantest.Scenario{Was: full, Then: func(o vhost.Observed) { topologytest.UnbindFrom(&o, "events", "orders") }},
			want:     []string{`binding events -> orders "order.placed"`}, drift: true,
		},
		"a binding was deleted before a queue is declared": {
			Scenario: plantest.Scenario{
				Was: full, Spec: strings.Replace(full, "{delay: 30s, queueName: tier}", "{delay: 30s, queueName: tier}, {delay: 1m, queueName: next}", 1),
				Then: func(o vhost.Observed) { topologytest.UnbindFrom(&o, "events", "orders") },
			},
			want: []string{"queue next", `binding events -> orders "order.placed"`, `binding again -> next "next"`}, drift: true,
		},
		"everything was deleted": {
			Scenario: plantest.Scenario{Was: full, Then: func(o vhost.Observed) { clear(o.Exchanges); clear(o.Queues); clear(o.BindingsTo) }},
			want:     append(slices.Clone(all[:6]), `binding events -> orders "order.placed"`, all[6], all[7]), drift: true,
		},
		"the spec has grown": {
			Scenario: plantest.Scenario{
				Was:  `{retry: {policy: None}}`,
				Spec: `{retry: {policy: None}, bindings: [{exchange: {name: events, type: fanout}}]}`,
			},
			want: []string{"exchange events (fanout)", `at last binding events -> orders ""`},
		},
		"Report declares no deleted object": {
			Scenario: plantest.Scenario{Was: full, Then: func(o vhost.Observed) { topologytest.DropQueue(&o, "dlq") }},
			policy:   v1alpha1.DriftPolicyReport, drift: true,
		},
		"Report declares no new object": {Scenario: plantest.Scenario{Spec: full}, policy: v1alpha1.DriftPolicyReport},

		"an exchange that must exist does not, the rest is declared": {
			Scenario: plantest.Scenario{Spec: `{retry: {policy: None}, deadLetter: {policy: Disabled}, bindings: [{exchange: {name: legacy}}, {exchange: {name: events, type: fanout}}]}`},
			want:     []string{"exchange events (fanout)", "queue orders", `at last binding events -> orders ""`},
		},
		"an exchange that must exist was deleted": {
			Scenario: plantest.Scenario{
				Was:  `{retry: {policy: None}, deadLetter: {policy: Disabled}, bindings: [{exchange: {name: legacy}}]}`,
				Then: func(o vhost.Observed) { topologytest.DropExchange(&o, "legacy") },
			},
			drift: true,
		},

		"while a queue needs recreation, no new object is declared or bound": {
			Scenario: plantest.Scenario{Was: full, Spec: `{
				queue: {messageTTL: 5m},
				bindings: [{exchange: {name: events, type: topic}, routingKeys: [order.placed, order.paid]}, {exchange: {name: more, type: fanout}}],
				retry: {exchange: {name: again}, delayTiers: [{delay: 30s, queueName: tier}, {delay: 1m, queueName: next}]},
				deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}
			}`},
		},
		"before Warren recreates a queue, it declares new objects and binds them, except to sources": {
			Scenario: plantest.Scenario{Was: full, WarrenRecreates: true, Spec: `{
				queue: {messageTTL: 5m},
				bindings: [{exchange: {name: events, type: topic}, routingKeys: [order.placed, order.paid]}, {exchange: {name: more, type: fanout}}],
				retry: {exchange: {name: again}, delayTiers: [{delay: 30s, queueName: tier}, {delay: 1m, queueName: next}]},
				deadLetter: {exchange: {name: grave}, queue: {name: dlq}}
			}`},
			want: []string{"exchange more (fanout)", "exchange grave (fanout)", "queue next", `binding again -> next "next"`, `binding grave -> dlq ""`},
		},
		"before Warren recreates a queue, it does not declare a deleted queue that had other arguments": {
			Scenario: plantest.Scenario{
				Was: full, WarrenRecreates: true,
				Spec: strings.Replace(fullWithTTL, "delay: 30s", "delay: 1m", 1),
				Then: func(o vhost.Observed) { topologytest.DropQueue(&o, "tier") },
			},
			drift: true,
		},
		"while a queue needs recreation, deleted objects that were in sync are declared": {
			Scenario: plantest.Scenario{Was: full, Spec: fullWithTTL, Then: func(o vhost.Observed) {
				topologytest.DropQueue(&o, "tier")
				topologytest.DropExchange(&o, "dlx")
			}},
			want:  []string{"exchange dlx (fanout)", "queue tier", `binding again -> tier "tier"`, `binding dlx -> dlq ""`},
			drift: true,
		},
		"the bindings of a queue that needs recreation stay as they are": {
			Scenario: plantest.Scenario{Was: full, Spec: fullWithTTL, Then: func(o vhost.Observed) { topologytest.UnbindFrom(&o, "events", "orders") }},
			drift:    true,
		},
		"the bindings of an exchange that needs recreation stay as they are": {
			Scenario: plantest.Scenario{Was: full, Then: func(o vhost.Observed) {
				topologytest.DropExchange(&o, "again")
				o.Exchanges["again"] = vhost.Exchange{Type: "fanout", Durable: true}
			}},
			drift: true,
		},
		"while a queue needs recreation, a deleted queue that had other arguments is neither declared nor bound": {
			Scenario: plantest.Scenario{
				Was: full,
				Spec: `{
					queue: {messageTTL: 5m},
					bindings: [{exchange: {name: events, type: topic}, routingKeys: [order.placed]}],
					retry: {exchange: {name: again}, delayTiers: [{delay: 1m, queueName: tier}]},
					deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}
				}`,
				Then: func(o vhost.Observed) { topologytest.DropQueue(&o, "tier") },
			},
			drift: true,
		},
		"while a queue needs recreation, a deleted exchange that had another type is neither declared nor bound": {
			Scenario: plantest.Scenario{
				Was: full,
				Spec: `{
					bindings: [{exchange: {name: events, type: topic}, routingKeys: [order.placed]}],
					retry: {exchange: {name: again, type: topic}, delayTiers: [{delay: 30s, queueName: tier}]},
					deadLetter: {exchange: {name: dlx}, queue: {name: dlq, maxLength: 10}}
				}`,
				Then: func(o vhost.Observed) { topologytest.DropExchange(&o, "again") },
			},
			drift: true,
		},

		"after a broker upgrade, deleted objects that were in sync are declared, with their bindings": {
			Scenario: plantest.Scenario{Was: full, From: topologytest.V313, On: topologytest.V40, Then: func(o vhost.Observed) {
				topologytest.UnbindFrom(&o, "dlx", "dlq")
				topologytest.DropQueue(&o, "tier")
			}},
			want: []string{"queue tier", `binding again -> tier "tier"`, `binding dlx -> dlq ""`}, drift: true,
		},
		"after a broker upgrade, no new binding of a dead-letter exchange is made": {
			Scenario: plantest.Scenario{Was: `{retry: {strategy: Reject}}`, From: topologytest.V313, On: topologytest.V40},
		},
		"after a broker upgrade, a new source is declared and bound, because the main queue works": {
			Scenario: plantest.Scenario{
				Was: `{retry: {strategy: Reject}}`, From: topologytest.V313, On: topologytest.V40,
				Spec: `{retry: {strategy: Reject}, bindings: [{exchange: {name: events, type: topic}, routingKeys: [order.placed]}]}`,
			},
			want: []string{"exchange events (topic)", `at last binding events -> orders "order.placed"`},
		},

		"an exchange that needs recreation does not freeze the queue of its name": {
			Scenario: plantest.Scenario{
				Was: `{bindings: [{exchange: {name: events, type: fanout}}], deadLetter: {exchange: {name: orders}, queue: {name: dlq}}}`,
				Then: func(o vhost.Observed) {
					topologytest.DropExchange(&o, "orders")
					o.Exchanges["orders"] = vhost.Exchange{Type: "topic", Durable: true}
					topologytest.UnbindFrom(&o, "events", "orders")
				},
			},
			want: []string{`binding events -> orders ""`}, drift: true,
		},
		"a queue that needs recreation does not freeze the exchange of its name": {
			Scenario: plantest.Scenario{
				Was: `{bindings: [{exchange: {name: events, type: fanout}}], deadLetter: {exchange: {name: orders}, queue: {name: dlq}}}`,
				Then: func(o vhost.Observed) {
					topologytest.SetArgument(&o, "orders", "x-max-length", 1)
					topologytest.UnbindFrom(&o, "events", "orders")
					topologytest.UnbindFrom(&o, "orders", "dlq")
				},
			},
			want: []string{`binding orders -> dlq ""`}, drift: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := test.Play(t)
			got := plan.Decide(told.Comparison, told.Known, test.policy)
			topologytest.Equal(t, "plan", test.want, planned(got), cmpopts.EquateEmpty())
			topologytest.Equal(t, "count", len(test.want), got.Count())
			topologytest.Equal(t, "drift", test.drift, got.Drift)
		})
	}
}

// The ConsumerQueue is new, and its queues are in the form for an older RabbitMQ. Dead letters would be lost.
func TestAfterAnUpgradeANewSourceWaitsForTheDeadLetterExchange(t *testing.T) {
	t.Parallel()
	for name, drop := range map[string]func(o vhost.Observed){
		"the exchange":           func(o vhost.Observed) { topologytest.DropExchange(&o, "orders.dlx") },
		"the dead-letter queue":  func(o vhost.Observed) { topologytest.DropQueue(&o, "orders.dlq") },
		"the binding of the two": func(o vhost.Observed) { topologytest.UnbindFrom(&o, "orders.dlx", "orders.dlq") },
	} {
		told := plantest.Scenario{
			Was: `{retry: {strategy: Reject}}`, From: topologytest.V313, On: topologytest.V40, Then: drop,
			Spec: `{retry: {strategy: Reject}, bindings: [{exchange: {name: events, type: topic}, routingKeys: [order.placed]}]}`,
		}.Play(t)
		topologytest.Equal(t, name+": upgraded", true, told.Comparison.Upgraded)
		got := plan.Decide(told.Comparison, topology.Inventory{}, "")
		topologytest.Equal(t, name+": plan", []string{}, planned(got), cmpopts.EquateEmpty())
	}
}

// The status names new objects before they are declared. If the declaration fails, the recreated queue must not dead-letter to an
// exchange that does not exist.
func TestAFailedDeclarationIsRepeatedBeforeARecreation(t *testing.T) {
	t.Parallel()
	played := plantest.Scenario{
		Was: full, WarrenRecreates: true, Spec: strings.Replace(fullWithTTL, "exchange: {name: dlx}", "exchange: {name: grave}", 1),
	}.Play(t)
	first := plan.Decide(played.Comparison, played.Known, v1alpha1.DriftPolicyCorrect)
	topologytest.Equal(t, "first", []string{"exchange grave (fanout)", `binding grave -> dlq ""`}, planned(first))
	intended := topology.InventoryOf(plan.MergeInventory(played.Comparison, played.Known, first))
	again := plan.Decide(played.Comparison, intended, v1alpha1.DriftPolicyCorrect)
	topologytest.Equal(t, "again", planned(first), planned(again))
}

// The recreated main queue dead-letters only to exchanges whose messages reach a queue.
func TestBindingsThatPrecedeTheRecreationOfTheMainQueue(t *testing.T) {
	t.Parallel()
	const (
		grave    = `{queue: {messageTTL: 5m}, retry: {policy: None}, deadLetter: {exchange: {name: grave}, queue: {name: dlq, maxLength: 10}}}`
		fanout   = `{retry: {policy: None}, deadLetter: {exchange: {name: dlx}, queue: {name: %s}}}`
		direct   = `{%sretry: {policy: None}, deadLetter: {exchange: {name: dead, type: direct}, routingKey: %s, queue: {name: %s}}}`
		byReason = `{%sretry: {strategy: Reject, delayTiers: [{delay: 30s, queueName: %s}]}, deadLetter: {exchange: {name: dlx, type: headers}, queue: {name: dlq}}}`
		ttl      = "queue: {messageTTL: 5m}, "
	)
	exchange := func(o *vhost.Observed) { o.Exchanges["grave"] = vhost.Exchange{Type: "fanout", Durable: true} }
	for name, test := range map[string]struct {
		edit
		want []string
	}{
		"the dead-letter queue was recreated after its new exchange was declared": {
			edit: edit{was: fmt.Sprintf(fanout, "dlq, maxLength: 10"), spec: grave, then: exchange},
			want: []string{`binding grave -> dlq ""`},
		},
		"a binding waits until its queue is recreated": {edit: edit{was: fmt.Sprintf(fanout, "dlq"), spec: grave, then: exchange}},
		"the binding of a new key failed": {
			edit: edit{was: fmt.Sprintf(direct, "", "a", "dlq"), spec: fmt.Sprintf(direct, ttl, "b", "dlq")},
			want: []string{`binding dead -> dlq "b"`},
		},
		"the binding of a new key to a new queue failed": {
			edit: edit{was: fmt.Sprintf(direct, "", "a", "dlq"), spec: fmt.Sprintf(direct, ttl, "b", "grave")},
			want: []string{"queue grave", `binding dead -> grave "b"`},
		},
		"one of four bindings succeeded": {
			edit: edit{
				was:  fmt.Sprintf(fanout, "dlq"),
				spec: strings.ReplaceAll(fmt.Sprintf(byReason, "", "tier"), "dlx", "grave"), declared: true,
				then: func(o *vhost.Observed) { topologytest.UnbindFrom(o, "grave", "dlq") },
			},
			want: slices.Repeat([]string{`binding grave -> dlq ""`}, 3),
		},
		"dead letters have the old route": {
			edit: edit{was: fmt.Sprintf(direct, "", "a", "dlq"), spec: fmt.Sprintf(direct, ttl, "a", "grave")},
			want: []string{"queue grave"},
		},
		"rejected messages have the old route": {
			edit: edit{was: fmt.Sprintf(byReason, "", "tier"), spec: fmt.Sprintf(byReason, ttl, "next")},
			want: []string{"queue next"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := topologytest.Owned(topologytest.Desired(t, test.was, topologytest.V43))
			comparison := test.compare(t)
			comparison.WarrenRecreates = true
			topologytest.Equal(t, "a queue needs recreation", true, comparison.RequiresRecreation())
			got := plan.Decide(comparison, topology.InventoryOf(before), v1alpha1.DriftPolicyCorrect)
			topologytest.Equal(t, "plan", test.want, planned(got), cmpopts.EquateEmpty())
		})
	}
}

// Beside another instance, Warren removes nothing. A new route beside the old one would copy each message.
func TestANewRouteWaitsWhileTheOldOneMustStay(t *testing.T) {
	t.Parallel()
	const (
		fanout   = `{retry: {policy: None}, deadLetter: {exchange: {name: dlx}, queue: {name: %s}}}`
		byReason = `{retry: {strategy: Reject, delayTiers: [{delay: 30s, queueName: %s}]}, deadLetter: {exchange: {name: dlx, type: headers}, queue: {name: dlq}}}`
		publish  = `{retry: {exchange: {name: again}, delayTiers: [{delay: 30s, queueName: %s}]}, deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}}`
	)
	for name, test := range map[string]struct {
		was, spec string
		want      []string
	}{
		"of dead letters":      {fmt.Sprintf(fanout, "dlq"), fmt.Sprintf(fanout, "grave"), []string{"queue grave"}},
		"of rejected messages": {fmt.Sprintf(byReason, "tier"), fmt.Sprintf(byReason, "next"), []string{"queue next"}},
		"of retries, which have another key": {
			fmt.Sprintf(publish, "tier"), fmt.Sprintf(publish, "next"), []string{"queue next", `binding again -> next "next"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			comparison := edit{was: test.was, spec: test.spec, otherInstance: "another instance of Warren works on this vhost"}.compare(t)
			known := topology.InventoryOf(topologytest.Owned(topologytest.Desired(t, test.was, topologytest.V43)))
			got := plan.Decide(comparison, known, v1alpha1.DriftPolicyCorrect)
			topologytest.Equal(t, "plan", test.want, planned(got), cmpopts.EquateEmpty())
		})
	}
}

func TestPlanSummary(t *testing.T) {
	t.Parallel()
	exchange := plan.Action{Verb: plan.Declare, Entry: plan.Entry{Exchange: &topology.Exchange{}}}
	queue := plan.Action{Verb: plan.Declare, Entry: plan.Entry{Queue: &topology.Queue{}}}
	binding := plan.Action{Verb: plan.Bind, Entry: plan.Entry{Binding: &topology.Binding{}}}
	source := plan.Action{Verb: plan.BindSource, Entry: plan.Entry{Binding: &topology.Binding{}}}
	left := plan.Action{Verb: plan.Leave, Entry: plan.Entry{Queue: &topology.Queue{}}}
	for want, actions := range map[string][]plan.Action{
		"":                                    {left},
		"1 exchange":                          {exchange, left},
		"2 queues":                            {queue, queue},
		"1 queue and 1 binding":               {queue, binding},
		"2 exchanges, 1 queue and 3 bindings": {exchange, exchange, queue, binding, source, binding},
	} {
		topologytest.Equal(t, "summary", want, plan.Plan{Actions: actions}.Summary())
	}
}

// planned formats a plan with one line per declared or bound object.
func planned(p plan.Plan) []string {
	var lines []string
	for _, action := range p.Actions {
		switch entry := action.Entry; {
		case action.Verb == plan.Declare && entry.Exchange != nil:
			lines = append(lines, fmt.Sprintf("exchange %s (%s)", entry.Name, entry.Exchange.Type))
		case action.Verb == plan.Declare:
			lines = append(lines, "queue "+entry.Name)
		}
	}
	first, last := p.Declarations()
	for _, binding := range first.Bindings {
		lines = append(lines, fmt.Sprintf("binding %s -> %s %q", binding.Source, binding.Destination, binding.RoutingKey))
	}
	for _, binding := range last.Bindings {
		lines = append(lines, fmt.Sprintf("at last binding %s -> %s %q", binding.Source, binding.Destination, binding.RoutingKey))
	}
	return lines
}

// Each case is the reconciliation after the scenario, whose objects Warren found.
func TestMergeInventory(t *testing.T) {
	t.Parallel()
	const spec = `{retry: {policy: None}, deadLetter: {exchange: {name: orders}, queue: {name: dlq}}}`
	const withTTL = `{queue: {messageTTL: 5m}, retry: {policy: None}, deadLetter: {exchange: {name: orders}, queue: {name: dlq}}}`
	foreign := vhost.Binding{Source: "elsewhere", Destination: "orders"}
	for name, test := range map[string]struct {
		plantest.Scenario

		done plan.Plan
		// want has the hash as now, as before, or none.
		want []string
	}{
		"found": {
			Scenario: plantest.Scenario{Spec: spec, Then: func(o vhost.Observed) {
				o.Exchanges["orders"] = vhost.Exchange{Type: "fanout", Durable: true}
			}},
			want: []string{
				"Exchange orders: InSync, Adopted, hash as now",
				"Queue orders: Missing, , no hash",
				"Queue dlq: Missing, , no hash",
				"Binding orders -> dlq: Missing, , no hash",
			},
		},
		"declared, the queue and not the exchange of the same name": {
			Scenario: plantest.Scenario{Was: spec},
			done:     declaring(vhost.QueueID("orders")),
			want: []string{
				"Exchange orders: InSync, Adopted, hash as now",
				"Queue orders: InSync, Declared, hash as now",
				"Queue dlq: InSync, Adopted, hash as now",
				"Binding orders -> dlq: InSync, , hash as now",
			},
		},
		"declared, the exchange and not the queue of the same name": {
			Scenario: plantest.Scenario{Was: spec},
			done:     declaring(vhost.ExchangeID("orders")),
			want: []string{
				"Exchange orders: InSync, Declared, hash as now",
				"Queue orders: InSync, Adopted, hash as now",
				"Queue dlq: InSync, Adopted, hash as now",
				"Binding orders -> dlq: InSync, , hash as now",
			},
		},
		"an object that needs recreation keeps the hash that it was in sync with": {
			Scenario: plantest.Scenario{Was: spec, Spec: withTTL},
			want: []string{
				"Exchange orders: InSync, Adopted, hash as now",
				"Queue orders: RecreationRequired, Adopted, hash as before",
				"Queue dlq: InSync, Adopted, hash as now",
				"Binding orders -> dlq: InSync, , hash as now",
			},
		},
		"an object that is missing keeps its hash and its origin": {
			Scenario: plantest.Scenario{Was: spec, Then: func(o vhost.Observed) { topologytest.DropQueue(&o, "dlq") }},
			want: []string{
				"Exchange orders: InSync, Adopted, hash as now",
				"Queue orders: InSync, Adopted, hash as now",
				"Queue dlq: Missing, Adopted, hash as now",
				"Binding orders -> dlq: Missing, , hash as now",
			},
		},
		"an object that another client declared with other arguments was found": {
			Scenario: plantest.Scenario{Spec: spec, Then: func(o vhost.Observed) {
				o.Queues["orders"] = vhost.Queue{Durable: true}
			}},
			done: declaring(vhost.QueueID("orders")),
			want: []string{
				"Exchange orders: Missing, , no hash",
				"Queue orders: RecreationRequired, Adopted, no hash",
				"Queue dlq: Missing, , no hash",
				"Binding orders -> dlq: Missing, , no hash",
			},
		},
		"a foreign binding has neither": {
			Scenario: plantest.Scenario{Was: spec, Then: func(o vhost.Observed) { topologytest.Bind(&o, foreign) }},
			want: []string{
				"Exchange orders: InSync, Adopted, hash as now",
				"Queue orders: InSync, Adopted, hash as now",
				"Queue dlq: InSync, Adopted, hash as now",
				"Binding orders -> dlq: InSync, , hash as now",
				"Binding elsewhere -> orders: Foreign, , no hash",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := test.Play(t)
			found := entriesOf(told.Comparison)
			got := plan.MergeInventory(told.Comparison, told.Known, test.done)
			topologytest.Equal(t, "the comparison's own entries", found, entriesOf(told.Comparison))
			lines := make([]string, len(got))
			for i, entry := range got {
				object := entry.Name
				if entry.Kind == v1alpha1.KindBinding {
					object = entry.Source + " -> " + entry.Destination
				}
				hash := "no hash"
				switch {
				case entry.LastSyncedHash == "":
				case entry.LastSyncedHash == told.Comparison.Entries[i].Hash:
					hash = "hash as now"
				case entry.LastSyncedHash == told.Known[topology.IDOf(entry)].LastSyncedHash:
					hash = "hash as before"
				default:
					hash = "hash " + entry.LastSyncedHash
				}
				lines[i] = fmt.Sprintf("%s %s: %s, %s, %s", entry.Kind, object, entry.State, entry.Origin, hash)
			}
			topologytest.Equal(t, "entries", test.want, lines)
		})
	}
}

// declaring is a plan that declares these objects.
func declaring(objects ...vhost.ID) plan.Plan {
	p := plan.Plan{}
	for _, id := range objects {
		p.Actions = append(p.Actions, plan.Action{Verb: plan.Declare, Entry: plan.Entry{TopologyEntry: topology.EntryOf(id)}})
	}
	return p
}

func TestOriginIsKept(t *testing.T) {
	t.Parallel()
	told := plantest.Scenario{Was: `{retry: {policy: None}, deadLetter: {policy: Disabled}}`}.Play(t)
	first := plan.MergeInventory(told.Comparison, nil, declaring(vhost.QueueID("orders")))
	topologytest.Equal(t, "origin when declared", v1alpha1.OriginDeclared, first[0].Origin)
	later := plan.MergeInventory(told.Comparison, topology.InventoryOf(first), plan.Plan{})
	topologytest.Equal(t, "origin later", v1alpha1.OriginDeclared, later[0].Origin)
}

// An object with a recorded intent belongs to Warren only after the broker has confirmed the declaration. If Warren crashes
// before, or the broker refuses, another client may declare it.
func TestOriginOfWhatWasToBeDeclared(t *testing.T) {
	t.Parallel()
	const spec = `{retry: {policy: None}, deadLetter: {policy: Disabled}}`
	intended := v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: "orders", Role: v1alpha1.RoleMain, Origin: v1alpha1.OriginDeclared}
	confirmed := intended
	confirmed.LastSyncedHash = topologytest.Desired(t, spec, topologytest.V43).HashOf(topology.IDOf(intended))
	differing := func(o vhost.Observed) { o.Queues["orders"] = vhost.Queue{Durable: true} }
	missing := func(o vhost.Observed) { topologytest.DropQueue(&o, "orders") }
	for name, test := range map[string]struct {
		before   *v1alpha1.TopologyEntry
		declared bool // by this reconciliation
		refused  bool // the broker did not confirm
		then     func(o vhost.Observed)
		want     v1alpha1.Origin
	}{
		"declared and confirmed":                                  {declared: true, want: v1alpha1.OriginDeclared},
		"about to be declared":                                    {declared: true, then: missing, want: v1alpha1.OriginDeclared},
		"refused, and still missing":                              {declared: true, refused: true, then: missing, want: v1alpha1.OriginDeclared},
		"refused, and there all the same":                         {declared: true, refused: true, want: v1alpha1.OriginAdopted},
		"exists, of unknown origin":                               {before: &intended, want: v1alpha1.OriginAdopted},
		"exists with other arguments, of unknown origin":          {before: &intended, then: differing, want: v1alpha1.OriginAdopted},
		"still missing":                                           {before: &intended, then: missing, want: v1alpha1.OriginDeclared},
		"declared at the second try":                              {before: &intended, declared: true, want: v1alpha1.OriginDeclared},
		"in sync since it was declared":                           {before: &confirmed, want: v1alpha1.OriginDeclared},
		"in sync since then, and changed by another client later": {before: &confirmed, then: differing, want: v1alpha1.OriginDeclared},
	} {
		told := plantest.Scenario{Was: spec, Then: test.then}.Play(t)
		known, done := topology.Inventory{}, plan.Plan{Failed: vhost.IDs{vhost.QueueID("orders"): test.refused}}
		if test.before != nil {
			known = topology.InventoryOf([]v1alpha1.TopologyEntry{*test.before})
		}
		if test.declared {
			done.Actions = declaring(vhost.QueueID("orders")).Actions
		}
		entries := plan.MergeInventory(told.Comparison, known, done)
		topologytest.Equal(t, name, test.want, entries[0].Origin)
	}
}

func TestHasNewObjects(t *testing.T) {
	t.Parallel()
	queue := func(name string, origin v1alpha1.Origin, hash string) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: name, Origin: origin, LastSyncedHash: hash}
	}
	known := topology.InventoryOf([]v1alpha1.TopologyEntry{queue("ours", v1alpha1.OriginDeclared, ""), queue("foreign", v1alpha1.OriginAdopted, "")})
	for name, test := range map[string]struct {
		entry v1alpha1.TopologyEntry
		want  bool
	}{
		"ours before":                     {queue("ours", v1alpha1.OriginDeclared, "s"), false},
		"foreign before and now":          {queue("foreign", v1alpha1.OriginAdopted, ""), false},
		"foreign, and as specified":       {queue("foreign", v1alpha1.OriginAdopted, "s"), true},
		"about to be declared":            {queue("new", v1alpha1.OriginDeclared, ""), true},
		"missing, and not to be declared": {queue("new", "", ""), false},
	} {
		topologytest.Equal(t, name, test.want, plan.HasNewObjects([]v1alpha1.TopologyEntry{test.entry}, known))
	}
}

// An object that others delete repeatedly is declared and bound later.
func TestPostpone(t *testing.T) {
	t.Parallel()
	topo := topologytest.Desired(t, `{retry: {policy: None}, deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}}`, topologytest.V43)
	observed := topologytest.Observe(t, topo)
	topologytest.DropQueue(&observed, "dlq")
	topologytest.DropQueue(&observed, "orders")
	known := topology.InventoryOf(topologytest.Owned(topo))
	decided := plan.Decide(plan.Diff(topo, observed, plan.Input{}), known, v1alpha1.DriftPolicyCorrect)
	dlq, orders := vhost.QueueID("dlq"), vhost.QueueID("orders")
	binding := vhost.Binding{Source: "dlx", Destination: "dlq"}.ID()
	byID := func(a, b vhost.ID) int { return strings.Compare(a.String(), b.String()) }
	topologytest.Equal(t, "drifted", []vhost.ID{dlq, orders, binding}, slices.SortedFunc(slices.Values(decided.Drifted()), byID))
	later := decided.Postpone(vhost.IDs{dlq: true})
	topologytest.Equal(t, "declared", "1 queue", later.Summary())
	topologytest.Equal(t, "drifted, without what is postponed", []vhost.ID{orders}, later.Drifted())
	topologytest.Equal(t, "declared by the plan as it was", "2 queues and 1 binding", decided.Summary())
	topologytest.Equal(t, "drift", true, later.Drift)
}
