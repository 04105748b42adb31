package topology_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
)

// stays renders what is left and why.
func stays(step topology.Dismantling) []string {
	lines := []string{}
	for _, stay := range step.Stays {
		lines = append(lines, fmt.Sprintf("%s %s: %s", stay.Entry.Kind, stay.Entry.Name, stay.Why))
	}
	return lines
}

func TestDismantle(t *testing.T) {
	t.Parallel()
	const spec = `{
		bindings: [{exchange: {name: events, type: topic}, routingKeys: [k]}],
		retry: {exchange: {name: again}, delayTiers: [{delay: 10s, queueName: soon}, {delay: 20s, queueName: later}]},
		deadLetter: {exchange: {name: dead, type: direct}, queue: {name: dlq}}
	}`
	work := []string{"soon", "later", "orders"}
	workGone := func(o *topology.Observed) {
		for _, queue := range work {
			dropQueue(o, queue)
		}
	}
	dlqGone := func(o *topology.Observed) {
		workGone(o)
		dropQueue(o, "dlq")
	}
	to := func(source, destination, key string) topology.ObservedBinding {
		return topology.ObservedBinding{Source: source, Destination: destination, RoutingKey: key}
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
		at     func(o *topology.Observed)
		then   func(o *topology.Observed)
		shared func(v1alpha1.TopologyEntry) string
		kept   map[string]string
		want   topology.Dismantling // without Stays
		stays  []string
	}{
		"the delay tiers and after them the main queue go together": {
			want: topology.Dismantling{Work: work},
			stays: []string{
				`Exchange again: "later" is bound to it`, `Exchange dead: "dlq" is bound to it`, `Queue dlq: queue "orders" dead-letters to it`,
			},
		},
		"then the dead-letter queue": {
			at:    workGone,
			want:  topology.Dismantling{DeadLetter: []string{"dlq"}, Exchanges: []string{"again"}},
			stays: []string{`Exchange dead: "dlq" is bound to it`},
		},
		"then the exchanges, but for those that messages come from": {
			at:   dlqGone,
			want: topology.Dismantling{Exchanges: []string{"again", "dead"}},
		},
		"then there is nothing": {
			at: func(o *topology.Observed) {
				dlqGone(o)
				dropExchange(o, "again")
				dropExchange(o, "dead")
			},
		},
		"a dead-letter queue that holds messages stays with its exchange": {
			at: workGone, kept: map[string]string{"dlq": "it holds messages"},
			want:  topology.Dismantling{Exchanges: []string{"again"}},
			stays: []string{`Exchange dead: "dlq" is bound to it`, "Queue dlq: it holds messages"},
		},

		"somebody dead-letters into a delay tier": {
			then: func(o *topology.Observed) { addDeadLettering(o, "theirs", "", "soon") },
			want: topology.Dismantling{Work: work, WorkFedBy: "theirs"},
			stays: []string{
				`Exchange again: "later" is bound to it`, `Exchange dead: "dlq" is bound to it`, `Queue dlq: queue "orders" dead-letters to it`,
			},
		},
		"somebody dead-letters into the main queue by the exchange that messages come from": {
			then: func(o *topology.Observed) { addDeadLettering(o, "theirs", "events", "k") },
			want: topology.Dismantling{Work: work, WorkFedBy: "theirs"},
			stays: []string{
				`Exchange again: "later" is bound to it`, `Exchange dead: "dlq" is bound to it`, `Queue dlq: queue "orders" dead-letters to it`,
			},
		},
		"with a key that does not come there": {
			at: dlqGone, then: func(o *topology.Observed) { addDeadLettering(o, "theirs", "events", "other") },
			want: topology.Dismantling{Exchanges: []string{"again", "dead"}},
		},
		"somebody dead-letters into the dead-letter queue": {
			at: workGone, then: func(o *topology.Observed) { addDeadLettering(o, "theirs", "dead", "dlq") },
			want:  topology.Dismantling{Exchanges: []string{"again"}},
			stays: []string{`Exchange dead: "dlq" is bound to it`, `Queue dlq: queue "theirs" dead-letters to it`},
		},
		"somebody dead-letters to an exchange that leads nowhere": {
			at: dlqGone, then: func(o *topology.Observed) { addDeadLettering(o, "theirs", "dead", "lost") },
			want: topology.Dismantling{Exchanges: []string{"again"}}, stays: []string{`Exchange dead: queue "theirs" dead-letters to it`},
		},
		"somebody bound a queue to an exchange": {
			at: dlqGone, then: func(o *topology.Observed) { bind(o, to("again", "audit", "")) },
			want: topology.Dismantling{Exchanges: []string{"dead"}}, stays: []string{`Exchange again: "audit" is bound to it`},
		},
		"somebody bound an exchange to another": {
			at: dlqGone,
			then: func(o *topology.Observed) {
				bind(o, topology.ObservedBinding{Source: "hub", Destination: "again", ToExchange: true})
			},
			want: topology.Dismantling{Exchanges: []string{"dead"}}, stays: []string{`Exchange again: it is bound to exchange "hub"`},
		},
		"an exchange is the alternate of another": {
			at: dlqGone, then: func(o *topology.Observed) {
				o.Exchanges["hub"] = topology.ObservedExchange{Arguments: topology.Arguments{"alternate-exchange": "dead"}}
			},
			want: topology.Dismantling{Exchanges: []string{"again"}}, stays: []string{`Exchange dead: it is the alternate exchange of "hub"`},
		},

		"what another has is left to it": {
			at: workGone, shared: sharing("dead", "dlq"),
			want:  topology.Dismantling{Bindings: toDLQ, Exchanges: []string{"again"}},
			stays: []string{"Exchange dead: ConsumerQueue shop/invoices has it too", "Queue dlq: ConsumerQueue shop/invoices has it too"},
		},
		"our binding to a queue that is left to another goes, and the exchange with it": {
			at: workGone, shared: sharing("dlq"),
			want:  topology.Dismantling{Bindings: toDLQ, Exchanges: []string{"again", "dead"}},
			stays: []string{"Queue dlq: ConsumerQueue shop/invoices has it too"},
		},
		"but not while somebody dead-letters by it": {
			at: workGone, shared: sharing("dlq"), then: func(o *topology.Observed) { addDeadLettering(o, "theirs", "dead", "dlq") },
			want:  topology.Dismantling{Exchanges: []string{"again"}},
			stays: []string{`Exchange dead: "dlq" is bound to it`, "Queue dlq: ConsumerQueue shop/invoices has it too"},
		},
		"a binding that another wants too is its": {
			at: workGone, shared: func(entry v1alpha1.TopologyEntry) string {
				if entry.Source == "dead" {
					return "ConsumerQueue shop/invoices"
				}
				return sharing("dlq")(entry)
			},
			want:  topology.Dismantling{Exchanges: []string{"again"}},
			stays: []string{`Exchange dead: "dlq" is bound to it`, "Queue dlq: ConsumerQueue shop/invoices has it too"},
		},
		"an exchange alone that another has": {
			at: dlqGone, shared: sharing("again", "events"),
			want: topology.Dismantling{Exchanges: []string{"dead"}}, stays: []string{"Exchange again: ConsumerQueue shop/invoices has it too"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topo := desired(t, spec, v43)
			observed := observe(t, topo)
			for _, change := range []func(o *topology.Observed){test.at, test.then} {
				if change != nil {
					change(&observed)
				}
			}
			observed.DeadLetters = deadLetters(observed)
			if test.shared == nil {
				test.shared = sharing()
			}
			got := topology.Dismantle(ownedBy(t, topo), observed, test.shared, test.kept)
			equal(t, "stays", append([]string{}, test.stays...), stays(got), cmpopts.SortSlices(func(a, b string) bool { return a < b }))
			got.Stays = nil
			equal(t, "step", test.want, got)
		})
	}
}

// A delay tier that left the spec before, and could not go, goes with the rest.
func TestDismantleOrphans(t *testing.T) {
	t.Parallel()
	before := desired(t, `{retry: {delayTiers: [{delay: 10s}, {delay: 20s}]}}`, v43)
	now := desired(t, `{retry: {delayTiers: [{delay: 20s}]}}`, v43)
	observed := observe(t, before, now)
	entries := topology.Diff(now, observed, topology.Context{Owned: ownedBy(t, before)}).Entries
	got := topology.Dismantle(entries, observed, func(v1alpha1.TopologyEntry) string { return "" }, nil)
	equal(t, "work", []string{"orders.retry.20s", "orders.retry.10s", "orders"}, got.Work)
}

func TestSplitByOrigin(t *testing.T) {
	t.Parallel()
	object := func(kind v1alpha1.ObjectKind, name string, origin v1alpha1.Origin) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{Kind: kind, Name: name, Origin: origin}
	}
	binding := func(source, destination string) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{Kind: v1alpha1.KindBinding, Source: source, Destination: destination}
	}
	declaredQueue, foundQueue := object(v1alpha1.KindQueue, "q", v1alpha1.OriginDeclared), object(v1alpha1.KindQueue, "found", v1alpha1.OriginAdopted)
	declaredExchange, foundExchange := object(v1alpha1.KindExchange, "x", v1alpha1.OriginDeclared), object(v1alpha1.KindExchange, "found", v1alpha1.OriginAdopted)
	unknown := object(v1alpha1.KindQueue, "unknown", "")
	both := []v1alpha1.TopologyEntry{binding("x", "q")}
	others := []v1alpha1.TopologyEntry{binding("x", "found"), binding("found", "q"), binding("found", "found"), binding("q", "x")}
	declared, found := topology.SplitByOrigin(slices.Concat(
		[]v1alpha1.TopologyEntry{declaredQueue, foundQueue, declaredExchange, foundExchange, unknown}, both, others))
	wantDeclared := append([]v1alpha1.TopologyEntry{declaredQueue, declaredExchange}, both...)
	wantFound := append([]v1alpha1.TopologyEntry{foundQueue, foundExchange, unknown}, others...)
	if difference := cmp.Diff(wantDeclared, declared); difference != "" {
		t.Errorf("declared (-want +got):\n%s", difference)
	}
	if difference := cmp.Diff(wantFound, found); difference != "" {
		t.Errorf("found (-want +got):\n%s", difference)
	}
}
