package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology"
)

// full is a spec with an object of every kind and role, short names throughout.
const full = `{
  bindings: [{exchange: {name: events, type: topic}, routingKeys: [order.placed]}],
  retry: {exchange: {name: again}, delayTiers: [{delay: 30s, queueName: tier}]},
  deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}
}`

// fullWithTTL is full with an argument more on its main queue, which therefore needs recreation.
const fullWithTTL = `{
  queue: {messageTTL: 5m},
  bindings: [{exchange: {name: events, type: topic}, routingKeys: [order.placed]}],
  retry: {exchange: {name: again}, delayTiers: [{delay: 30s, queueName: tier}]},
  deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}
}`

// New source bindings come last, and only when all else of the topology is there. A source binding that was in sync and is
// deleted comes back at once all the same.
func TestDecide(t *testing.T) {
	t.Parallel()
	all := []string{
		"exchange events (topic)", "exchange again (direct)", "exchange dlx (fanout)",
		"queue orders", "queue tier", "queue dlq",
		`binding again -> tier "tier"`, `binding dlx -> dlq ""`, `at last binding events -> orders "order.placed"`,
	}
	for name, test := range map[string]struct {
		story

		policy v1alpha1.DriftPolicy
		want   []string
		drift  bool
	}{
		"nothing is there yet": {story: story{spec: full}, want: all},
		"all is there":         {story: story{was: full}},
		"what is there of a new spec stays": {
			story: story{spec: full, then: func(o topology.Observed) {
				o.Exchanges["events"] = topology.ObservedExchange{Type: "topic", Durable: true}
			}},
			want: all[1:],
		},
		"a queue was deleted, and its binding with it": {
			story: story{was: full, then: func(o topology.Observed) { deleteQueue(o, "dlq") }},
			want:  []string{"queue dlq", `binding dlx -> dlq ""`}, drift: true,
		},
		"an exchange was deleted, and its binding with it": {
			story: story{was: full, then: func(o topology.Observed) { deleteExchange(o, "again") }},
			want:  []string{"exchange again (direct)", `binding again -> tier "tier"`}, drift: true,
		},
		"a binding was deleted": {
			story: story{was: full, then: func(o topology.Observed) { unbind(o, "events", "orders") }},
			want:  []string{`binding events -> orders "order.placed"`}, drift: true,
		},
		"a binding was deleted while a queue is still to come": {
			story: story{
				was: full, spec: strings.Replace(full, "{delay: 30s, queueName: tier}", "{delay: 30s, queueName: tier}, {delay: 1m, queueName: next}", 1),
				then: func(o topology.Observed) { unbind(o, "events", "orders") },
			},
			want: []string{"queue next", `binding events -> orders "order.placed"`, `binding again -> next "next"`}, drift: true,
		},
		"everything was deleted": {
			story: story{was: full, then: func(o topology.Observed) { clear(o.Exchanges); clear(o.Queues); clear(o.BindingsTo) }},
			want:  append(slices.Clone(all[:6]), `binding events -> orders "order.placed"`, all[6], all[7]), drift: true,
		},
		"the spec has grown": {
			story: story{
				was:  `{retry: {policy: None}}`,
				spec: `{retry: {policy: None}, bindings: [{exchange: {name: events, type: fanout}}]}`,
			},
			want: []string{"exchange events (fanout)", `at last binding events -> orders ""`},
		},
		"Report declares nothing that was there": {
			story:  story{was: full, then: func(o topology.Observed) { deleteQueue(o, "dlq") }},
			policy: v1alpha1.DriftPolicyReport, drift: true,
		},
		"Report declares nothing that is new": {story: story{spec: full}, policy: v1alpha1.DriftPolicyReport},

		"an exchange that must exist does not, the rest is declared": {
			story: story{spec: `{retry: {policy: None}, deadLetter: {policy: Disabled}, bindings: [{exchange: {name: legacy}}, {exchange: {name: events, type: fanout}}]}`},
			want:  []string{"exchange events (fanout)", "queue orders", `at last binding events -> orders ""`},
		},
		"an exchange that must exist was deleted": {
			story: story{
				was:  `{retry: {policy: None}, deadLetter: {policy: Disabled}, bindings: [{exchange: {name: legacy}}]}`,
				then: func(o topology.Observed) { deleteExchange(o, "legacy") },
			},
			drift: true,
		},

		"while a queue needs recreation nothing new is declared or bound": {
			story: story{was: full, spec: `{
				queue: {messageTTL: 5m},
				bindings: [{exchange: {name: events, type: topic}, routingKeys: [order.placed, order.paid]}, {exchange: {name: more, type: fanout}}],
				retry: {exchange: {name: again}, delayTiers: [{delay: 30s, queueName: tier}, {delay: 1m, queueName: next}]},
				deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}
			}`},
		},
		"while a queue needs recreation what was in sync comes back": {
			story: story{was: full, spec: fullWithTTL, then: func(o topology.Observed) {
				deleteQueue(o, "tier")
				deleteExchange(o, "dlx")
			}},
			want:  []string{"exchange dlx (fanout)", "queue tier", `binding again -> tier "tier"`, `binding dlx -> dlq ""`},
			drift: true,
		},
		"the bindings of a queue that needs recreation stay as they are": {
			story: story{was: full, spec: fullWithTTL, then: func(o topology.Observed) { unbind(o, "events", "orders") }},
			drift: true,
		},
		"the bindings of an exchange that needs recreation stay as they are": {
			story: story{was: full, then: func(o topology.Observed) {
				deleteExchange(o, "again")
				o.Exchanges["again"] = topology.ObservedExchange{Type: "fanout", Durable: true}
			}},
			drift: true,
		},
		"while a queue needs recreation a deleted one of another shape does not come back, nor is it bound": {
			story: story{
				was: full,
				spec: `{
					queue: {messageTTL: 5m},
					bindings: [{exchange: {name: events, type: topic}, routingKeys: [order.placed]}],
					retry: {exchange: {name: again}, delayTiers: [{delay: 1m, queueName: tier}]},
					deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}
				}`,
				then: func(o topology.Observed) { deleteQueue(o, "tier") },
			},
			drift: true,
		},
		"while a queue needs recreation a deleted exchange of another type does not come back, nor is it bound": {
			story: story{
				was: full,
				spec: `{
					bindings: [{exchange: {name: events, type: topic}, routingKeys: [order.placed]}],
					retry: {exchange: {name: again, type: topic}, delayTiers: [{delay: 30s, queueName: tier}]},
					deadLetter: {exchange: {name: dlx}, queue: {name: dlq, maxLength: 10}}
				}`,
				then: func(o topology.Observed) { deleteExchange(o, "again") },
			},
			drift: true,
		},

		"after a broker upgrade what was in sync comes back, bindings of the upgraded objects too": {
			story: story{was: full, from: v313, on: v40, then: func(o topology.Observed) {
				unbind(o, "dlx", "dlq")
				deleteQueue(o, "tier")
			}},
			want: []string{"queue tier", `binding again -> tier "tier"`, `binding dlx -> dlq ""`}, drift: true,
		},
		"after a broker upgrade nothing new is bound": {
			story: story{was: `{retry: {strategy: Reject}}`, from: v313, on: v40},
		},

		"an exchange that needs recreation does not freeze the queue of its name": {
			story: story{
				was: `{bindings: [{exchange: {name: events, type: fanout}}], deadLetter: {exchange: {name: orders}, queue: {name: dlq}}}`,
				then: func(o topology.Observed) {
					deleteExchange(o, "orders")
					o.Exchanges["orders"] = topology.ObservedExchange{Type: "topic", Durable: true}
					unbind(o, "events", "orders")
				},
			},
			want: []string{`binding events -> orders ""`}, drift: true,
		},
		"a queue that needs recreation does not freeze the exchange of its name": {
			story: story{
				was: `{bindings: [{exchange: {name: events, type: fanout}}], deadLetter: {exchange: {name: orders}, queue: {name: dlq}}}`,
				then: func(o topology.Observed) {
					setArgument(o, "orders", "x-max-length", 1)
					unbind(o, "events", "orders")
					unbind(o, "orders", "dlq")
				},
			},
			want: []string{`binding orders -> dlq ""`}, drift: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := tellStory(t, test.story)
			got := decide(told.desired, told.comparison, told.known, test.policy)
			equal(t, "plan", test.want, planned(got), cmpopts.EquateEmpty())
			equal(t, "count", len(test.want), got.count())
			equal(t, "drift", test.drift, got.drift)
		})
	}
}

func TestPlanSummary(t *testing.T) {
	t.Parallel()
	exchange, queue, binding := topology.Exchange{}, topology.Queue{}, topology.Binding{}
	for want, declare := range map[string]topology.Topology{
		"":           {},
		"1 exchange": {Exchanges: []topology.Exchange{exchange}},
		"2 queues":   {Queues: []topology.Queue{queue, queue}},
		"1 queue and 1 binding": {
			Queues: []topology.Queue{queue}, Bindings: []topology.Binding{binding},
		},
		"2 exchanges, 1 queue and 3 bindings": {
			Exchanges: []topology.Exchange{exchange, exchange}, Queues: []topology.Queue{queue}, Bindings: []topology.Binding{binding, binding, binding},
		},
	} {
		equal(t, "summary", want, plan{declare: declare}.summary())
	}
}

// Each case is the look after the one of the story, whose objects Warren found.
func TestRemember(t *testing.T) {
	t.Parallel()
	const spec = `{retry: {policy: None}, deadLetter: {exchange: {name: orders}, queue: {name: dlq}}}`
	const withTTL = `{queue: {messageTTL: 5m}, retry: {policy: None}, deadLetter: {exchange: {name: orders}, queue: {name: dlq}}}`
	declared := func(exchanges, queues []string) plan {
		p := plan{planned: history{}}
		for _, name := range exchanges {
			p.planned.add(v1alpha1.TopologyEntry{Kind: v1alpha1.KindExchange, Name: name})
		}
		for _, name := range queues {
			p.planned.add(v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: name})
		}
		return p
	}
	foreign := topology.ObservedBinding{Source: "elsewhere", Destination: "orders"}
	for name, test := range map[string]struct {
		story

		done plan
		// want has the shape as now, as before, or none.
		want []string
	}{
		"found": {
			story: story{spec: spec, then: func(o topology.Observed) {
				o.Exchanges["orders"] = topology.ObservedExchange{Type: "fanout", Durable: true}
			}},
			want: []string{
				"Exchange orders: InSync, Adopted, shape as now",
				"Queue orders: Missing, , no shape",
				"Queue dlq: Missing, , no shape",
				"Binding orders -> dlq: Missing, , no shape",
			},
		},
		"declared, the queue and not the exchange of the same name": {
			story: story{was: spec},
			done:  declared(nil, []string{"orders"}),
			want: []string{
				"Exchange orders: InSync, Adopted, shape as now",
				"Queue orders: InSync, Declared, shape as now",
				"Queue dlq: InSync, Adopted, shape as now",
				"Binding orders -> dlq: InSync, , shape as now",
			},
		},
		"declared, the exchange and not the queue of the same name": {
			story: story{was: spec},
			done:  declared([]string{"orders"}, nil),
			want: []string{
				"Exchange orders: InSync, Declared, shape as now",
				"Queue orders: InSync, Adopted, shape as now",
				"Queue dlq: InSync, Adopted, shape as now",
				"Binding orders -> dlq: InSync, , shape as now",
			},
		},
		"an object that needs recreation keeps the shape that it was in sync with": {
			story: story{was: spec, spec: withTTL},
			want: []string{
				"Exchange orders: InSync, Adopted, shape as now",
				"Queue orders: RecreationRequired, Adopted, shape as before",
				"Queue dlq: InSync, Adopted, shape as now",
				"Binding orders -> dlq: InSync, , shape as now",
			},
		},
		"an object that is missing keeps its shape and its origin": {
			story: story{was: spec, then: func(o topology.Observed) { deleteQueue(o, "dlq") }},
			want: []string{
				"Exchange orders: InSync, Adopted, shape as now",
				"Queue orders: InSync, Adopted, shape as now",
				"Queue dlq: Missing, Adopted, shape as now",
				"Binding orders -> dlq: Missing, , shape as now",
			},
		},
		"an object that somebody else declared otherwise meanwhile was found": {
			story: story{spec: spec, then: func(o topology.Observed) {
				o.Queues["orders"] = topology.ObservedQueue{Durable: true}
			}},
			done: declared(nil, []string{"orders"}),
			want: []string{
				"Exchange orders: Missing, , no shape",
				"Queue orders: RecreationRequired, Adopted, no shape",
				"Queue dlq: Missing, , no shape",
				"Binding orders -> dlq: Missing, , no shape",
			},
		},
		"a foreign binding has neither": {
			story: story{was: spec, then: func(o topology.Observed) { bind(o, foreign) }},
			want: []string{
				"Exchange orders: InSync, Adopted, shape as now",
				"Queue orders: InSync, Adopted, shape as now",
				"Queue dlq: InSync, Adopted, shape as now",
				"Binding orders -> dlq: InSync, , shape as now",
				"Binding elsewhere -> orders: Foreign, , no shape",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := tellStory(t, test.story)
			found := append([]v1alpha1.TopologyEntry(nil), told.comparison.Entries...)
			got := remember(told.comparison.Entries, told.shapes, told.known, test.done)
			equal(t, "the comparison's own entries", found, told.comparison.Entries)
			lines := make([]string, len(got))
			for i, entry := range got {
				object := entry.Name
				if entry.Kind == v1alpha1.KindBinding {
					object = entry.Source + " -> " + entry.Destination
				}
				shape := "no shape"
				switch {
				case entry.Shape == "":
				case i < len(told.shapes) && entry.Shape == told.shapes[i]:
					shape = "shape as now"
				case entry.Shape == told.known[identityOf(entry)].Shape:
					shape = "shape as before"
				default:
					shape = "shape " + entry.Shape
				}
				lines[i] = fmt.Sprintf("%s %s: %s, %s, %s", entry.Kind, object, entry.State, entry.Origin, shape)
			}
			equal(t, "entries", test.want, lines)
		})
	}
}

func TestOriginIsKept(t *testing.T) {
	t.Parallel()
	told := tellStory(t, story{was: `{retry: {policy: None}, deadLetter: {policy: Disabled}}`})
	entries := told.comparison.Entries
	first := remember(entries, told.shapes, nil, plan{planned: historyOf(entries)})
	equal(t, "origin when declared", v1alpha1.OriginDeclared, first[0].Origin)
	later := remember(entries, told.shapes, historyOf(first), plan{})
	equal(t, "origin later", v1alpha1.OriginDeclared, later[0].Origin)
}

// What was written down before it was declared is Warren's only once the broker has confirmed the declaration. If the
// operator dies in between, or the broker refuses, somebody else may declare it.
func TestOriginOfWhatWasToBeDeclared(t *testing.T) {
	t.Parallel()
	const spec = `{retry: {policy: None}, deadLetter: {policy: Disabled}}`
	refusedOne := &rabbit.ObjectError{Op: "declare", Kind: "queue", Name: "orders", Err: rabbit.ErrAccessRefused}
	intended := v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: "orders", Role: v1alpha1.RoleMain, Origin: v1alpha1.OriginDeclared}
	confirmed := intended
	confirmed.Shape = desired(t, spec, v43).ShapeOf(intended)
	differing := func(o topology.Observed) { o.Queues["orders"] = topology.ObservedQueue{Durable: true} }
	missing := func(o topology.Observed) { deleteQueue(o, "orders") }
	for name, test := range map[string]struct {
		before   *v1alpha1.TopologyEntry
		declared bool  // by this look
		err      error // of that
		then     func(o topology.Observed)
		want     v1alpha1.Origin
	}{
		"declared and confirmed":                       {declared: true, want: v1alpha1.OriginDeclared},
		"about to be declared":                         {declared: true, then: missing, want: v1alpha1.OriginDeclared},
		"refused, and still missing":                   {declared: true, err: refusedOne, then: missing, want: v1alpha1.OriginDeclared},
		"refused, and there all the same":              {declared: true, err: errors.Join(errors.Join(refusedOne), rabbit.ErrTimeout), want: v1alpha1.OriginAdopted},
		"there when nobody knows who declared it":      {before: &intended, want: v1alpha1.OriginAdopted},
		"there, otherwise, when nobody knows who did":  {before: &intended, then: differing, want: v1alpha1.OriginAdopted},
		"still missing":                                {before: &intended, then: missing, want: v1alpha1.OriginDeclared},
		"declared at the second try":                   {before: &intended, declared: true, want: v1alpha1.OriginDeclared},
		"in sync since it was declared":                {before: &confirmed, want: v1alpha1.OriginDeclared},
		"in sync since, and changed by somebody since": {before: &confirmed, then: differing, want: v1alpha1.OriginDeclared},
	} {
		told := tellStory(t, story{was: spec, then: test.then})
		known, done := history{}, plan{planned: history{}}
		if test.before != nil {
			known.add(*test.before)
		}
		if test.declared {
			done.planned = historyOf(told.comparison.Entries)
		}
		entries := remember(told.comparison.Entries, told.shapes, known, done.failing(test.err))
		equal(t, name, test.want, entries[0].Origin)
	}
}
