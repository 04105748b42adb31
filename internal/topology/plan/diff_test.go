package plan_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// most is a spec with an object of every kind and role.
const most = `
queue: {messageTTL: 5m}
bindings:
- {exchange: {name: events, type: topic}, routingKeys: ["order.*"]}
- {exchange: {name: legacy}, routingKeys: [a b], arguments: {x-note: 1}}
retry: {exchange: {name: again}, delayTiers: [{delay: 30s}]}
deadLetter: {queue: {maxLength: 9}}
`

// A spec can have thousands of bindings with long arguments, and each missing one has a message.
func TestMessagesShortenLongArguments(t *testing.T) {
	t.Parallel()
	note := strings.Repeat("x", 1000)
	topo := topologytest.Desired(t, topologytest.Alone+"bindings: [{exchange: {name: e}, arguments: {note: "+note+"}}]", topologytest.V43)
	observed := topologytest.Observe(t, topo)
	delete(observed.BindingsTo, "orders")
	topologytest.Equal(t, "changes", []v1alpha1.Change{{
		Kind: v1alpha1.KindBinding, Source: "e", Destination: "orders", Arguments: `{"note":"` + note + `"}`, Effect: v1alpha1.EffectBind,
		Message: `queue "orders" is not bound to exchange "e" with routing key "" and arguments {"note":"` + note[:244] + "…",
	}}, plan.Diff(topo, observed, plan.Input{}).Changes)
}

func TestDiffFindsNothingInWhatWasDeclared(t *testing.T) {
	t.Parallel()
	for _, version := range topologytest.Versions {
		topo := topologytest.Desired(t, most, version)
		got := plan.Diff(topo, topologytest.Observe(t, topo), plan.Input{})
		topologytest.Equal(t, "entries", []v1alpha1.TopologyEntry{
			{Kind: v1alpha1.KindExchange, Name: "events", Role: v1alpha1.RoleSource, State: v1alpha1.StateInSync},
			{Kind: v1alpha1.KindExchange, Name: "legacy", Role: v1alpha1.RoleSource, State: v1alpha1.StateInSync},
			{Kind: v1alpha1.KindExchange, Name: "again", Role: v1alpha1.RoleRetry, State: v1alpha1.StateInSync},
			{Kind: v1alpha1.KindExchange, Name: "orders.dlx", Role: v1alpha1.RoleDeadLetter, State: v1alpha1.StateInSync},
			{Kind: v1alpha1.KindQueue, Name: "orders", Role: v1alpha1.RoleMain, State: v1alpha1.StateInSync},
			{Kind: v1alpha1.KindQueue, Name: "orders.retry.30s", Role: v1alpha1.RoleDelayTier, State: v1alpha1.StateInSync},
			{Kind: v1alpha1.KindQueue, Name: "orders.dlq", Role: v1alpha1.RoleDeadLetter, State: v1alpha1.StateInSync},
			{Kind: v1alpha1.KindBinding, Source: "events", Destination: "orders", RoutingKey: "order.*", Role: v1alpha1.RoleSource, State: v1alpha1.StateInSync},
			{Kind: v1alpha1.KindBinding, Source: "legacy", Destination: "orders", RoutingKey: "a b", Arguments: `{"x-note":1}`, Role: v1alpha1.RoleSource, State: v1alpha1.StateInSync},
			{Kind: v1alpha1.KindBinding, Source: "again", Destination: "orders.retry.30s", RoutingKey: "orders.retry.30s", Role: v1alpha1.RoleDelayTier, State: v1alpha1.StateInSync},
			{Kind: v1alpha1.KindBinding, Source: "orders.dlx", Destination: "orders.dlq", Role: v1alpha1.RoleDeadLetter, State: v1alpha1.StateInSync},
		}, entriesOf(got))
		got.Entries = nil
		topologytest.Equal(t, "the rest of the comparison", plan.Comparison{}, got)
		topologytest.Equal(t, "recreate", false, got.RequiresRecreation())
	}
}

// Each case changes what was declared in one way; it is the only change that Diff may find.
// Everything is compared: arguments one by one, and durable, autoDelete, exclusive, an exchange's type. An argument that is
// absent and one that is present with the broker's default value differ.
func TestDiffChanges(t *testing.T) {
	t.Parallel()
	queue := func(o vhost.Observed, name string, change func(q *vhost.Queue)) {
		q := o.Queues[name]
		change(&q)
		o.Queues[name] = q
	}
	exchange := func(o vhost.Observed, name string, change func(e *vhost.Exchange)) {
		e := o.Exchanges[name]
		change(&e)
		o.Exchanges[name] = e
	}
	argument := func(name string, value any) func(o vhost.Observed) {
		return func(o vhost.Observed) { o.Queues["orders"].Arguments[name] = value }
	}
	recreate := func(kind v1alpha1.ObjectKind, name, path, want, have, message string) []v1alpha1.Change {
		return []v1alpha1.Change{{Kind: kind, Name: name, Path: path, Desired: want, Observed: have, Effect: v1alpha1.EffectRecreate, Message: message}}
	}
	ofQueue := func(path, want, have, message string) []v1alpha1.Change {
		return recreate(v1alpha1.KindQueue, "orders", path, want, have, message+"; the queue must be recreated")
	}
	for name, test := range map[string]struct {
		change func(o vhost.Observed)
		want   []v1alpha1.Change
		state  v1alpha1.ObjectState
	}{
		"a queue is missing": {
			change: func(o vhost.Observed) { delete(o.Queues, "orders.retry.30s") },
			want: []v1alpha1.Change{{
				Kind: v1alpha1.KindQueue, Name: "orders.retry.30s", Effect: v1alpha1.EffectDeclare, Message: `queue "orders.retry.30s" is missing`,
			}},
			state: v1alpha1.StateMissing,
		},
		"an exchange is missing": {
			change: func(o vhost.Observed) { delete(o.Exchanges, "orders.dlx") },
			want: []v1alpha1.Change{{
				Kind: v1alpha1.KindExchange, Name: "orders.dlx", Effect: v1alpha1.EffectDeclare, Message: `fanout exchange "orders.dlx" is missing`,
			}},
			state: v1alpha1.StateMissing,
		},
		"a source exchange with a type is missing": {
			change: func(o vhost.Observed) { delete(o.Exchanges, "events") },
			want: []v1alpha1.Change{{
				Kind: v1alpha1.KindExchange, Name: "events", Effect: v1alpha1.EffectDeclare, Message: `topic exchange "events" is missing`,
			}},
			state: v1alpha1.StateMissing,
		},
		"a source exchange without a type is missing": {
			change: func(o vhost.Observed) { delete(o.Exchanges, "legacy") },
			want: []v1alpha1.Change{{
				Kind: v1alpha1.KindExchange, Name: "legacy", Effect: v1alpha1.EffectNone,
				Message: `exchange "legacy" does not exist, and Warren does not declare it without a type: declare it, or set spec.bindings[].exchange.type`,
			}},
			state: v1alpha1.StateMissing,
		},
		"a binding is missing": {
			change: func(o vhost.Observed) { delete(o.BindingsTo, "orders.dlq") },
			want: []v1alpha1.Change{{
				Kind: v1alpha1.KindBinding, Source: "orders.dlx", Destination: "orders.dlq", Effect: v1alpha1.EffectBind,
				Message: `queue "orders.dlq" is not bound to exchange "orders.dlx" with routing key ""`,
			}},
			state: v1alpha1.StateMissing,
		},
		"a binding with arguments is missing": {
			change: func(o vhost.Observed) { o.BindingsTo["orders"] = o.BindingsTo["orders"][1:] },
			want: []v1alpha1.Change{{
				Kind: v1alpha1.KindBinding, Source: "legacy", Destination: "orders", RoutingKey: "a b", Arguments: `{"x-note":1}`, Effect: v1alpha1.EffectBind,
				Message: `queue "orders" is not bound to exchange "legacy" with routing key "a b" and arguments {"x-note":1}`,
			}},
			state: v1alpha1.StateMissing,
		},
		"a binding of an exchange of the queue's name is none of the queue": {
			change: func(o vhost.Observed) { o.BindingsTo["orders.dlq"][0].ToExchange = true },
			want: []v1alpha1.Change{{
				Kind: v1alpha1.KindBinding, Source: "orders.dlx", Destination: "orders.dlq", Effect: v1alpha1.EffectBind,
				Message: `queue "orders.dlq" is not bound to exchange "orders.dlx" with routing key ""`,
			}},
			state: v1alpha1.StateMissing,
		},

		"an argument differs": {
			change: argument("x-message-ttl", 60000.0),
			want:   ofQueue("arguments.x-message-ttl", "300000", "60000", "x-message-ttl is 60000, should be 300000"),
		},
		"an argument is a string that looks like the number": {
			change: argument("x-message-ttl", "300000"),
			want:   ofQueue("arguments.x-message-ttl", "300000", `"300000"`, `x-message-ttl is "300000", should be 300000`),
		},
		"an argument is absent": {
			change: func(o vhost.Observed) { delete(o.Queues["orders"].Arguments, "x-message-ttl") },
			want:   ofQueue("arguments.x-message-ttl", "300000", "", "x-message-ttl is not set, should be 300000"),
		},
		"an argument too many": {
			change: argument("x-max-length", 5),
			want:   ofQueue("arguments.x-max-length", "", "5", "x-max-length is 5, should not be set"),
		},
		"an unknown argument": {
			change: argument("x-note", []any{true, nil, map[string]any{"b": 1, "a": []byte("x")}}),
			want:   ofQueue("arguments.x-note", "", `[true,null,{"a":"x","b":1}]`, `x-note is [true,null,{"a":"x","b":1}], should not be set`),
		},
		"an argument with the broker's default is not an absent one": {
			change: argument("x-delivery-limit", 20),
			want:   ofQueue("arguments.x-delivery-limit", "", "20", "x-delivery-limit is 20, should not be set"),
		},
		"an argument without a value": {
			change: argument("x-note", nil),
			want:   ofQueue("arguments.x-note", "", "null", "x-note is null, should not be set"),
		},
		"an argument that should have a value has none": {
			change: argument("x-message-ttl", nil),
			want:   ofQueue("arguments.x-message-ttl", "300000", "null", "x-message-ttl is null, should be 300000"),
		},
		"an argument that is not JSON": {
			change: argument("x-note", math.NaN()),
			want:   ofQueue("arguments.x-note", "", "NaN", "x-note is NaN, should not be set"),
		},
		"an empty string": {
			change: argument("x-dead-letter-routing-key", ""),
			want:   ofQueue("arguments.x-dead-letter-routing-key", "", `""`, `x-dead-letter-routing-key is "", should not be set`),
		},
		"a classic queue": {
			change: argument("x-queue-type", "classic"),
			want:   ofQueue("arguments.x-queue-type", "quorum", "classic", "x-queue-type is classic, should be quorum"),
		},
		"two arguments differ": {
			change: func(o vhost.Observed) {
				argument("x-overflow", "drop-head")(o)
				argument("x-message-ttl", 1)(o)
			},
			want: append(
				ofQueue("arguments.x-message-ttl", "300000", "1", "x-message-ttl is 1, should be 300000"),
				ofQueue("arguments.x-overflow", "reject-publish", "drop-head", "x-overflow is drop-head, should be reject-publish")...),
		},
		"a transient queue": {
			change: func(o vhost.Observed) {
				queue(o, "orders", func(q *vhost.Queue) { q.Durable = false })
			},
			want: ofQueue("durable", "true", "false", "durable is false, should be true"),
		},
		"an auto-delete queue": {
			change: func(o vhost.Observed) {
				queue(o, "orders", func(q *vhost.Queue) { q.AutoDelete = true })
			},
			want: ofQueue("autoDelete", "false", "true", "autoDelete is true, should be false"),
		},
		"an exclusive queue": {
			change: func(o vhost.Observed) {
				queue(o, "orders", func(q *vhost.Queue) { q.Exclusive = true })
			},
			want: ofQueue("exclusive", "false", "true", "exclusive is true, should be false"),
		},

		"an exchange of another type": {
			change: func(o vhost.Observed) {
				exchange(o, "orders.dlx", func(e *vhost.Exchange) { e.Type = "x-random" })
			},
			want: recreate(v1alpha1.KindExchange, "orders.dlx", "type", "fanout", "x-random",
				"type is x-random, should be fanout; the exchange must be recreated"),
		},
		"a source exchange of another type": {
			change: func(o vhost.Observed) {
				exchange(o, "events", func(e *vhost.Exchange) { e.Type = "fanout" })
			},
			want: recreate(v1alpha1.KindExchange, "events", "type", "topic", "fanout",
				"type is fanout, should be topic; correct or remove the type in bindings, and do not delete the exchange, "+
					"because other clients may use it"),
		},
		"a transient exchange": {
			change: func(o vhost.Observed) {
				exchange(o, "again", func(e *vhost.Exchange) { e.Durable = false })
			},
			want: recreate(v1alpha1.KindExchange, "again", "durable", "true", "false",
				"durable is false, should be true; the exchange must be recreated"),
		},
		"an auto-delete exchange": {
			change: func(o vhost.Observed) {
				exchange(o, "again", func(e *vhost.Exchange) { e.AutoDelete = true })
			},
			want: recreate(v1alpha1.KindExchange, "again", "autoDelete", "false", "true",
				"autoDelete is true, should be false; the exchange must be recreated"),
		},
		"an internal exchange": {
			change: func(o vhost.Observed) {
				exchange(o, "again", func(e *vhost.Exchange) { e.Internal = true })
			},
			want: recreate(v1alpha1.KindExchange, "again", "internal", "false", "true",
				"internal is true, should be false; the exchange must be recreated"),
		},
		"an exchange with an argument": {
			change: func(o vhost.Observed) {
				exchange(o, "again", func(e *vhost.Exchange) {
					e.Arguments = vhost.Arguments{"alternate-exchange": "lost"}
				})
			},
			want: recreate(v1alpha1.KindExchange, "again", "arguments.alternate-exchange", "", "lost",
				"alternate-exchange is lost, should not be set; the exchange must be recreated"),
		},
		"a source exchange may have arguments of its own, such as an alternate exchange": {
			change: func(o vhost.Observed) {
				exchange(o, "events", func(e *vhost.Exchange) {
					e.Arguments = vhost.Arguments{"alternate-exchange": "lost"}
				})
			},
		},
		"a source exchange without a type may be anything": {
			change: func(o vhost.Observed) {
				exchange(o, "legacy", func(e *vhost.Exchange) {
					*e = vhost.Exchange{Type: "x-delayed-message", AutoDelete: true, Internal: true}
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topo := topologytest.Desired(t, most, topologytest.V43)
			observed := topologytest.Observe(t, topo)
			test.change(observed)
			got := plan.Diff(topo, observed, plan.Input{})

			topologytest.Equal(t, "changes", test.want, got.Changes)
			wantsRecreation := len(test.want) > 0 && test.want[0].Effect == v1alpha1.EffectRecreate
			topologytest.Equal(t, "recreate", wantsRecreation, got.RequiresRecreation())
			topologytest.Equal(t, "upgraded", false, got.Upgraded)
			var missing []string
			if len(test.want) > 0 && test.want[0].Effect == v1alpha1.EffectNone {
				missing = []string{test.want[0].Name}
			}
			topologytest.Equal(t, "missing exchanges", missing, got.MissingExchanges)
			state := test.state
			if wantsRecreation {
				state = v1alpha1.StateRecreationRequired
			}
			for _, entry := range got.Entries {
				want := v1alpha1.StateInSync
				if len(test.want) > 0 && entry.Name == test.want[0].Name && entry.Source == test.want[0].Source && entry.RoutingKey == test.want[0].RoutingKey {
					want = state
				}
				if entry.State != v1alpha1.StateForeign && entry.State != want {
					t.Errorf("state of %v: want %s", entry, want)
				}
			}
		})
	}
}

// An extra binding into one of the queues is Foreign, unless another ConsumerQueue specifies it.
func TestDiffForeignBindings(t *testing.T) {
	t.Parallel()
	foreign := func(source, destination, key, arguments string) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{
			Kind: v1alpha1.KindBinding, Source: source, Destination: destination, RoutingKey: key, Arguments: arguments, State: v1alpha1.StateForeign,
		}
	}
	for name, test := range map[string]struct {
		found  vhost.Binding
		wanted bool
		want   []v1alpha1.TopologyEntry
	}{
		"into the main queue": {
			found: vhost.Binding{Source: "other", Destination: "orders", RoutingKey: "k"},
			want:  []v1alpha1.TopologyEntry{foreign("other", "orders", "k", "")},
		},
		"with another key": {
			found: vhost.Binding{Source: "events", Destination: "orders", RoutingKey: "orders.#"},
			want:  []v1alpha1.TopologyEntry{foreign("events", "orders", "orders.#", "")},
		},
		"with other arguments": {
			found: vhost.Binding{Source: "events", Destination: "orders", RoutingKey: "order.*", Arguments: vhost.Arguments{"n": 1.0}},
			want:  []v1alpha1.TopologyEntry{foreign("events", "orders", "order.*", `{"n":1}`)},
		},
		"with arguments that JSON has not": {
			found: vhost.Binding{Source: "other", Destination: "orders", Arguments: vhost.Arguments{"n": math.Inf(1)}},
			want:  []v1alpha1.TopologyEntry{foreign("other", "orders", "", "{}")},
		},
		"into a delay tier":                  {found: vhost.Binding{Source: "other", Destination: "orders.retry.30s"}, want: []v1alpha1.TopologyEntry{foreign("other", "orders.retry.30s", "", "")}},
		"into the dead-letter queue":         {found: vhost.Binding{Source: "other", Destination: "orders.dlq"}, want: []v1alpha1.TopologyEntry{foreign("other", "orders.dlq", "", "")}},
		"specified by another ConsumerQueue": {found: vhost.Binding{Source: "other", Destination: "orders.dlq"}, wanted: true},
		"into a foreign queue":               {found: vhost.Binding{Source: "events", Destination: "theirs"}},
		"from the dead-letter exchange": {
			found: vhost.Binding{Source: "orders.dlx", Destination: "theirs", RoutingKey: "k"},
			want:  []v1alpha1.TopologyEntry{foreign("orders.dlx", "theirs", "k", "")},
		},
		"from the retry exchange": {
			found: vhost.Binding{Source: "again", Destination: "theirs"},
			want:  []v1alpha1.TopologyEntry{foreign("again", "theirs", "", "")},
		},
		"from the dead-letter exchange to an exchange": {
			found: vhost.Binding{Source: "orders.dlx", Destination: "theirs", ToExchange: true},
			want:  []v1alpha1.TopologyEntry{foreign("orders.dlx", "theirs", "", "")},
		},
		"from the dead-letter exchange, as another ConsumerQueue specifies": {found: vhost.Binding{Source: "orders.dlx", Destination: "theirs"}, wanted: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topo := topologytest.Desired(t, most, topologytest.V43)
			observed := topologytest.Observe(t, topo)
			topologytest.Bind(&observed, test.found)
			context := plan.Input{}
			if test.wanted {
				context.Unwanted = func(_ string, bindings []vhost.Binding) []vhost.ID {
					return slices.DeleteFunc(vhost.BindingIDs(bindings), func(b vhost.ID) bool { return b == test.found.ID() })
				}
				context.UnwantedFrom = context.Unwanted
			}
			got := plan.Diff(topo, observed, context)
			var entries []v1alpha1.TopologyEntry
			for _, entry := range entriesOf(got) {
				if entry.State != v1alpha1.StateInSync {
					entries = append(entries, entry)
				}
			}
			topologytest.Equal(t, "entries", test.want, entries)
			topologytest.Equal(t, "changes", nil, got.Changes)
		})
	}
}

// After an upgrade of the broker: if every object that differs matches the spec on an older supported version, the reason is
// BrokerUpgraded, and this is not drift.
func TestDiffUpgraded(t *testing.T) {
	t.Parallel()
	const reject = `{retry: {strategy: Reject}}`
	for name, test := range map[string]struct {
		spec   string
		from   vhost.Version
		on     vhost.Version
		change func(o vhost.Observed)
		want   bool
		// objects that need recreation
		recreate []string
		foreign  int
	}{
		"the DLQ's limit came with 4.0":          {spec: `{}`, from: topologytest.V313, on: topologytest.V43, want: true, recreate: []string{"orders.dlq"}},
		"and a consumerTimeout does not hide it": {spec: `{queue: {consumerTimeout: 1h}}`, from: topologytest.V313, on: topologytest.V40, want: true, recreate: []string{"orders.dlq"}},
		"reject by reason came with 4.0":         {spec: reject, from: topologytest.V313, on: topologytest.V40, want: true, recreate: []string{"orders.dlx", "orders", "orders.dlq"}},
		"its old binding is not foreign":         {spec: `{retry: {strategy: Reject}}`, from: topologytest.V310, on: topologytest.V43, want: true, recreate: []string{"orders.dlx", "orders", "orders.dlq"}},
		"some of it may be new already":          {spec: reject, from: topologytest.V313, on: topologytest.V40, change: func(o vhost.Observed) { o.Queues["orders.dlq"].Arguments["x-delivery-limit"] = -1 }, want: true, recreate: []string{"orders.dlx", "orders"}},
		"the main queue did not: rejects would go to the DLQ, not to the tier": {
			spec: reject, from: topologytest.V313, on: topologytest.V40, change: func(o vhost.Observed) {
				delete(o.Queues["orders"].Arguments, "x-dead-letter-routing-key")
				o.Queues["orders"].Arguments["x-dead-letter-exchange"] = "orders.dlx"
			}, recreate: []string{"orders.dlx", "orders.dlq"}, foreign: 1,
		},
		"no queue needs recreation":                 {spec: `{}`, from: topologytest.V40, on: topologytest.V43},
		"missing objects are no sign of an upgrade": {spec: `{}`, from: topologytest.V40, on: topologytest.V43, change: func(o vhost.Observed) { delete(o.Queues, "orders") }},
		"a missing object does not matter":          {spec: `{}`, from: topologytest.V313, on: topologytest.V43, change: func(o vhost.Observed) { delete(o.Queues, "orders.retry.5m") }, want: true, recreate: []string{"orders.dlq"}},
		"another difference as well":                {spec: `{}`, from: topologytest.V313, on: topologytest.V43, change: func(o vhost.Observed) { o.Queues["orders"].Arguments["x-max-length"] = 1 }, recreate: []string{"orders", "orders.dlq"}},
		"another difference of the same object":     {spec: `{}`, from: topologytest.V313, on: topologytest.V43, change: func(o vhost.Observed) { o.Queues["orders.dlq"].Arguments["x-max-length"] = 1 }, recreate: []string{"orders.dlq"}},
		"an exchange that neither wants": {spec: reject, from: topologytest.V313, on: topologytest.V43, change: func(o vhost.Observed) {
			o.Exchanges["orders.dlx"] = vhost.Exchange{Type: "direct", Durable: true}
		}, recreate: []string{"orders.dlx", "orders", "orders.dlq"}, foreign: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			observed := topologytest.Observe(t, topologytest.Desired(t, test.spec, test.from))
			if test.change != nil {
				test.change(observed)
			}
			cq := topologytest.ConsumerQueue(t, test.spec)
			got := plan.Diff(topologytest.Desired(t, test.spec, test.on), observed, plan.Input{
				Older: func() []topology.Topology { return topology.DesiredOnOlderVersions(cq, test.on) },
			})
			topologytest.Equal(t, "upgraded", test.want, got.Upgraded)
			var recreate []string
			foreign := 0
			for _, entry := range got.Entries {
				switch entry.State {
				case v1alpha1.StateRecreationRequired:
					recreate = append(recreate, entry.Name)
				case v1alpha1.StateForeign:
					foreign++
				}
			}
			topologytest.Equal(t, "needs recreation", test.recreate, recreate)
			topologytest.Equal(t, "foreign bindings", test.foreign, foreign)
			topologytest.Equal(t, "recreate", len(test.recreate) > 0, got.RequiresRecreation())
		})
	}
}

func TestDiffReturnRoute(t *testing.T) {
	t.Parallel()
	const (
		nowhere = `exchange "back" of retry.returnTo routes key "again" to no queue: messages would be lost after their delay, or stay in their delay tier; bind queue "orders" to it with that key`
		astray  = `exchange "back" of retry.returnTo routes key "again" to other queues ("other") and not to queue "orders": messages go there after their delay and do not return; bind queue "orders" to it with that key`
		noWay   = `no binding leads from exchange "back" of retry.returnTo to queue "orders": messages would be lost after their delay, or stay in their delay tier; bind the queue to it`
		absent  = `exchange "back" of retry.returnTo does not exist: messages would be lost after their delay, or stay in their delay tier; declare the exchange, or add it to spec.bindings with a type`
	)
	to := func(source, destination, key string) vhost.Binding {
		return vhost.Binding{Source: source, Destination: destination, RoutingKey: key}
	}
	through := func(source, destination, key string) vhost.Binding {
		return vhost.Binding{Source: source, Destination: destination, RoutingKey: key, ToExchange: true}
	}
	for name, test := range map[string]struct {
		key       string // of returnTo
		exchanges map[string]string
		bindings  []vhost.Binding
		alternate string // the alternate exchange of back
		missing   string
		fansOut   string // the queues in the advisory
	}{
		"no exchange":                                {missing: absent},
		"no binding":                                 {exchanges: map[string]string{"back": "topic"}, missing: nowhere},
		"direct":                                     {exchanges: map[string]string{"back": "direct"}, bindings: []vhost.Binding{to("back", "orders", "again")}},
		"direct with another key":                    {exchanges: map[string]string{"back": "direct"}, bindings: []vhost.Binding{to("back", "orders", "#")}, missing: nowhere},
		"fanout":                                     {exchanges: map[string]string{"back": "fanout"}, bindings: []vhost.Binding{to("back", "orders", "whatever")}},
		"topic":                                      {exchanges: map[string]string{"back": "topic"}, bindings: []vhost.Binding{to("back", "orders", "*")}},
		"topic that does not match":                  {exchanges: map[string]string{"back": "topic"}, bindings: []vhost.Binding{to("back", "orders", "again.*")}, missing: nowhere},
		"fans out":                                   {exchanges: map[string]string{"back": "topic"}, bindings: []vhost.Binding{to("back", "orders", "again"), to("back", "z", "#"), to("back", `"a"`, "*"), to("back", "z", "again")}, fansOut: `"\"a\"", "z"`},
		"leads to other queues only":                 {exchanges: map[string]string{"back": "direct"}, bindings: []vhost.Binding{to("back", "other", "again")}, missing: astray},
		"headers: each message decides":              {exchanges: map[string]string{"back": "headers"}, bindings: []vhost.Binding{to("back", "other", "again"), to("back", "orders", "")}},
		"a plugin's type":                            {exchanges: map[string]string{"back": "x-random"}, bindings: []vhost.Binding{to("back", "other", "again"), to("back", "orders", "")}},
		"headers: to other queues only":              {exchanges: map[string]string{"back": "headers"}, bindings: []vhost.Binding{to("back", "other", "again")}, missing: noWay},
		"headers: to an exchange in a circle":        {exchanges: map[string]string{"back": "headers", "inner": "headers"}, bindings: []vhost.Binding{through("back", "inner", ""), through("inner", "back", "")}, missing: noWay},
		"through another exchange":                   {exchanges: map[string]string{"back": "topic", "inner": "direct"}, bindings: []vhost.Binding{through("back", "inner", "#"), to("inner", "orders", "again")}},
		"through one that leads nowhere":             {exchanges: map[string]string{"back": "topic", "inner": "direct"}, bindings: []vhost.Binding{through("back", "inner", "#"), to("inner", "orders", "other")}, missing: nowhere},
		"through one that each message picks":        {exchanges: map[string]string{"back": "topic", "inner": "headers"}, bindings: []vhost.Binding{through("back", "inner", "#"), to("inner", "orders", "other")}},
		"in a circle":                                {exchanges: map[string]string{"back": "fanout", "inner": "fanout"}, bindings: []vhost.Binding{through("back", "inner", ""), through("inner", "back", ""), to("inner", "orders", "")}},
		"through an alternate exchange":              {exchanges: map[string]string{"back": "direct", "rest": "fanout"}, alternate: "rest", bindings: []vhost.Binding{to("back", "other", "else"), to("rest", "orders", "")}},
		"an alternate exchange that leads nowhere":   {exchanges: map[string]string{"back": "direct"}, alternate: "lost", missing: noWay},
		"an alternate exchange that gets no retries": {exchanges: map[string]string{"back": "direct", "rest": "fanout"}, alternate: "rest", bindings: []vhost.Binding{to("back", "other", "again"), to("rest", "orders", "")}, missing: astray},
		"an alternate exchange, and a binding with other key": {exchanges: map[string]string{"back": "direct", "rest": "fanout"}, alternate: "rest", bindings: []vhost.Binding{to("back", "orders", "else"), to("rest", "other", "")}, missing: astray},
		"fans out, and has an alternate exchange":             {exchanges: map[string]string{"back": "direct", "rest": "fanout"}, alternate: "rest", bindings: []vhost.Binding{to("back", "orders", "again"), to("back", "z", "again"), to("rest", "other", "")}, fansOut: `"z"`},
	} {
		compare := func(t *testing.T, arguments vhost.Arguments, policies []vhost.Policy, known map[string][]string) {
			t.Parallel()
			topo := topologytest.Desired(t, `{retry: {returnTo: {exchange: back, routingKey: again}}}`, topologytest.V43)
			observed := topologytest.Observe(t, topo)
			observed.Policies, observed.Alternates = policies, known
			for exchange, kind := range test.exchanges {
				found := vhost.Exchange{Type: kind, Durable: true}
				if exchange == "back" {
					found.Arguments = arguments
				}
				observed.Exchanges[exchange] = found
			}
			for _, binding := range test.bindings {
				observed.BindingsFrom[binding.Source] = append(observed.BindingsFrom[binding.Source], binding)
			}
			got := plan.Diff(topo, observed, plan.Input{})
			topologytest.Equal(t, "missing return", test.missing, got.MissingReturn)
			var changes []v1alpha1.Change
			if test.missing != "" {
				changes = []v1alpha1.Change{{
					Kind: v1alpha1.KindExchange, Name: "back", Path: "route", Desired: "orders", Effect: v1alpha1.EffectNone, Message: test.missing,
				}}
			}
			topologytest.Equal(t, "changes", changes, got.Changes)
			var advisories []v1alpha1.Advisory
			if test.fansOut != "" {
				advisories = []v1alpha1.Advisory{{
					Code: v1alpha1.AdvisoryReturnRouteFansOut, Name: "back",
					Message: `exchange "back" routes key "again" to other queues, too (` + test.fansOut + `): each retry is copied there`,
				}}
			}
			topologytest.Equal(t, "advisories", advisories, got.Advisories)
		}
		if test.alternate == "" {
			t.Run(name, func(t *testing.T) { compare(t, nil, nil, nil) })
			continue
		}
		alternate := vhost.Arguments{"alternate-exchange": test.alternate}
		t.Run(name+", by its argument", func(t *testing.T) { compare(t, alternate, nil, nil) })
		t.Run(name+", by a policy", func(t *testing.T) {
			compare(t, nil, []vhost.Policy{{Name: "unrouted", Pattern: vhost.ReadPattern("^back$"), ApplyTo: "exchanges", Definition: alternate}}, nil)
		})
		t.Run(name+", by a policy of all exchanges", func(t *testing.T) {
			compare(t, nil, []vhost.Policy{{Name: "unrouted", Pattern: vhost.ReadPattern(""), ApplyTo: "all", Definition: alternate}}, nil)
		})
		t.Run(name+", known", func(t *testing.T) { compare(t, nil, nil, map[string][]string{"back": {test.alternate}}) })
	}
}

// The first comparison must not report a return route as missing that the topology's own declaration creates.
func TestDiffReturnRouteOfOurOwn(t *testing.T) {
	t.Parallel()
	const returns = `retry: {returnTo: {exchange: back, routingKey: again}}, `
	for name, test := range map[string]struct {
		spec     string
		declared bool
		missing  bool
	}{
		"a binding makes it":             {spec: returns + `bindings: [{exchange: {name: back, type: topic}, routingKeys: ["#"]}]`},
		"and a broker that has it":       {spec: returns + `bindings: [{exchange: {name: back, type: topic}, routingKeys: ["#"]}]`, declared: true},
		"a binding with another key":     {spec: returns + `bindings: [{exchange: {name: back, type: topic}, routingKeys: [else]}]`, missing: true},
		"a binding that must find one":   {spec: returns + `bindings: [{exchange: {name: back}, routingKeys: ["#"]}]`, missing: true},
		"and finds one":                  {spec: returns + `bindings: [{exchange: {name: back}, routingKeys: ["#"]}]`, declared: true},
		"a binding to another exchange":  {spec: returns + `bindings: [{exchange: {name: events, type: topic}, routingKeys: ["#"]}]`, missing: true},
		"keys of each message: anything": {spec: `retry: {strategy: Reject, returnTo: {exchange: back}}, bindings: [{exchange: {name: back, type: direct}}]`},
		"keys of each message: no way":   {spec: `retry: {strategy: Reject, returnTo: {exchange: back}}, bindings: [{exchange: {name: events, type: direct}}]`, missing: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topo := topologytest.Desired(t, `{`+test.spec+`}`, topologytest.V43)
			observed := vhost.Observed{}
			if test.declared {
				observed = topologytest.Observe(t, topo)
			}
			got := plan.Diff(topo, observed, plan.Input{})
			topologytest.Equal(t, "is missing", test.missing, got.MissingReturn != "")
			topologytest.Equal(t, "advisories", nil, got.Advisories)
		})
	}
}

func TestDiffShadowedByPolicy(t *testing.T) {
	t.Parallel()
	type definition = vhost.Arguments
	policy := func(key string, value any) []vhost.Policy {
		return []vhost.Policy{{Name: "p", Pattern: vhost.ReadPattern("^orders$"), ApplyTo: "queues", Definition: definition{key: value}}}
	}
	everything := `{queue: {messageTTL: 5m, deliveryLimit: 50, maxLength: 100, maxLengthBytes: 1000}, deadLetter: {exchange: {type: direct}}, retry: {policy: None}}`
	const delayed = `{retry: {strategy: Requeue, redeliveryDelay: {min: 1s, max: 2s}}}`
	onDLQ := func(key string, value any) []vhost.Policy {
		policies := policy(key, value)
		policies[0].Pattern = vhost.ReadPattern("dlq$")
		return policies
	}
	for name, test := range map[string]struct {
		spec     string
		policies []vhost.Policy
		want     []string // queue: message
	}{
		"overflow":                      {spec: everything, policies: policy("overflow", "drop-head"), want: []string{`orders: policy "p" sets overflow drop-head (the queue's own value: reject-publish): messages can be dropped instead of refused, or refused instead of dropped`}},
		"overflow without an own":       {spec: topologytest.Alone, policies: policy("overflow", "drop-head"), want: []string{`orders: policy "p" sets overflow drop-head (the queue's own value: default): messages can be dropped instead of refused, or refused instead of dropped`}},
		"the same overflow":             {spec: everything, policies: policy("overflow", "reject-publish")},
		"message-ttl":                   {spec: everything, policies: policy("message-ttl", 299999), want: []string{`orders: policy "p" sets message-ttl 299999 (the queue's own value: 300000): messages expire early`}},
		"message-ttl without an own":    {spec: topologytest.Alone, policies: policy("message-ttl", 5), want: []string{`orders: policy "p" sets message-ttl 5 (the queue's own value: none): messages expire early`}},
		"a longer message-ttl":          {spec: everything, policies: policy("message-ttl", 300000)},
		"max-length":                    {spec: everything, policies: policy("max-length", 99), want: []string{`orders: policy "p" sets max-length 99 (the queue's own value: 100): messages can be dropped or refused early`}},
		"max-length-bytes":              {spec: everything, policies: policy("max-length-bytes", 999), want: []string{`orders: policy "p" sets max-length-bytes 999 (the queue's own value: 1000): messages can be dropped or refused early`}},
		"delivery-limit":                {spec: everything, policies: policy("delivery-limit", 5), want: []string{`orders: policy "p" sets delivery-limit 5 (the queue's own value: 50): messages can be dropped or dead-lettered early`}},
		"delivery-limit over unlimited": {spec: topologytest.Alone, policies: policy("delivery-limit", 5), want: []string{`orders: policy "p" sets delivery-limit 5 (the queue's own value: unlimited): messages can be dropped or dead-lettered early`}},
		"an unlimited delivery-limit":   {spec: everything, policies: policy("delivery-limit", -1)},
		"a limit that is no number":     {spec: everything, policies: policy("delivery-limit", "5")},
		"dead-letter-exchange":          {spec: topologytest.Alone, policies: policy("dead-letter-exchange", "x"), want: []string{`orders: policy "p" sets dead-letter-exchange x (the queue's own value: none): dead letters go to another destination than this ConsumerQueue specifies`}},
		"dead-letter-exchange loses":    {spec: everything, policies: policy("dead-letter-exchange", "x")},
		"dead-letter-routing-key":       {spec: topologytest.NoRetry, policies: policy("dead-letter-routing-key", "x"), want: []string{`orders: policy "p" sets dead-letter-routing-key x (the queue's own value: none): dead letters go to another destination than this ConsumerQueue specifies`}},
		"a routing key loses":           {spec: everything, policies: policy("dead-letter-routing-key", "x")},
		"dead-letter-strategy":          {spec: `{retry: {policy: None}, deadLetterStrategy: AtMostOnce}`, policies: policy("dead-letter-strategy", "at-least-once"), want: []string{`orders: policy "p" sets dead-letter-strategy at-least-once (the queue's own value: none): messages are dead-lettered differently than specified`}},
		"a strategy loses":              {spec: everything, policies: policy("dead-letter-strategy", "at-most-once")},
		"expires":                       {spec: topologytest.Alone, policies: policy("expires", 20000), want: []string{`orders: policy "p" sets expires 20000 (the queue's own value: none): the broker deletes the queue with its messages after this time without use`}},
		"expires of dead letters":       {spec: topologytest.NoRetry, policies: onDLQ("expires", 20000), want: []string{`orders.dlq: policy "p" sets expires 20000 (the queue's own value: none): the broker deletes the queue with its messages after this time without use`}},
		"keys that do no harm":          {spec: everything, policies: policy("queue-leader-locator", "balanced")},

		"delayed-retry-type disabled": {spec: delayed, policies: policy("delayed-retry-type", "disabled"), want: []string{`orders: policy "p" sets delayed-retry-type disabled (the queue's own value: all): returned messages are redelivered immediately, or later than specified`}},
		"delayed-retry-type the same": {spec: delayed, policies: policy("delayed-retry-type", "all")},
		"delayed-retry-type alone":    {spec: topologytest.Alone, policies: policy("delayed-retry-type", "disabled")},
		"a lower delayed-retry-min":   {spec: delayed, policies: policy("delayed-retry-min", 1), want: []string{`orders: policy "p" sets delayed-retry-min 1 (the queue's own value: 1000): returned messages are redelivered immediately, or later than specified`}},
		"a higher delayed-retry-min":  {spec: delayed, policies: policy("delayed-retry-min", 1001)},
		"a lower delayed-retry-max":   {spec: delayed, policies: policy("delayed-retry-max", 1999), want: []string{`orders: policy "p" sets delayed-retry-max 1999 (the queue's own value: 2000): returned messages are redelivered immediately, or later than specified`}},
		"a delay where none is asked for": {
			spec: topologytest.Alone,
			policies: []vhost.Policy{{Name: "p", Pattern: vhost.ReadPattern("."), ApplyTo: "queues", Definition: definition{
				"delayed-retry-type": "all", "delayed-retry-min": 1000,
			}}},
			want: []string{
				`orders: policy "p" sets delayed-retry-min 1000 (the queue's own value: none): returned messages are redelivered immediately, or later than specified`,
				`orders: policy "p" sets delayed-retry-type all (the queue's own value: none): returned messages are redelivered immediately, or later than specified`,
			},
		},
		"a length of a delay without a delay":               {spec: topologytest.Alone, policies: policy("delayed-retry-min", 1000)},
		"consumer-timeout":                                  {spec: `{queue: {consumerTimeout: 1h}, deadLetter: {policy: Disabled}, retry: {policy: None}}`, policies: policy("consumer-timeout", 60000), want: []string{`orders: policy "p" sets consumer-timeout 60000 (the queue's own value: 3600000): RabbitMQ requeues the messages of consumers early, so they can be processed twice`}},
		"a longer consumer-timeout":                         {spec: `{queue: {consumerTimeout: 1h}, deadLetter: {policy: Disabled}, retry: {policy: None}}`, policies: policy("consumer-timeout", 3600000)},
		"consumer-disconnected-timeout":                     {spec: topologytest.Alone, policies: policy("consumer-disconnected-timeout", 1000), want: []string{`orders: policy "p" sets consumer-disconnected-timeout 1000 (the queue's own value: none): RabbitMQ requeues the messages of unreachable consumers early, so they can be processed twice`}},
		"target-group-size":                                 {spec: topologytest.Alone, policies: policy("target-group-size", 5), want: []string{`orders: policy "p" sets target-group-size 5 (the queue's own value: none): RabbitMQ adds members to the queue, which copies all its messages`}},
		"a consumer-timeout above the default":              {spec: topologytest.Alone, policies: policy("consumer-timeout", 3600000)},
		"a consumer-timeout below the default":              {spec: topologytest.Alone, policies: policy("consumer-timeout", 60000), want: []string{`orders: policy "p" sets consumer-timeout 60000 (the queue's own value: none): RabbitMQ requeues the messages of consumers early, so they can be processed twice`}},
		"a consumer-disconnected-timeout above the default": {spec: topologytest.Alone, policies: policy("consumer-disconnected-timeout", 60001)},
		"a target-group-size that adds no member":           {spec: topologytest.Alone, policies: policy("target-group-size", 3)},
		"a lower target-group-size":                         {spec: `{queue: {arguments: {x-quorum-target-group-size: 5}}, deadLetter: {policy: Disabled}, retry: {policy: None}}`, policies: policy("target-group-size", 3)},
		"members of dead letters":                           {spec: topologytest.NoRetry, policies: onDLQ("target-group-size", 5), want: []string{`orders.dlq: policy "p" sets target-group-size 5 (the queue's own value: none): RabbitMQ adds members to the queue, which copies all its messages`}},

		"dead letters at risk": {spec: topologytest.NoRetry, policies: onDLQ("delivery-limit", 5), want: []string{`orders.dlq: policy "p" sets delivery-limit 5 (the queue's own value: unlimited): dead letters can be lost`}},
		"dead letters moved":   {spec: topologytest.NoRetry, policies: onDLQ("dead-letter-exchange", "x"), want: []string{`orders.dlq: policy "p" sets dead-letter-exchange x (the queue's own value: none): dead letters go to another destination than this ConsumerQueue specifies`}},

		"several keys and queues": {
			spec:     `{retry: {policy: None}}`,
			policies: []vhost.Policy{{Name: "limits", Pattern: vhost.ReadPattern(""), ApplyTo: "all", Definition: definition{"message-ttl": 1, "delivery-limit": 2}}},
			want: []string{
				`orders: policy "limits" sets delivery-limit 2 (the queue's own value: none): messages can be dropped or dead-lettered early`,
				`orders: policy "limits" sets message-ttl 1 (the queue's own value: none): messages expire early`,
				`orders.dlq: policy "limits" sets delivery-limit 2 (the queue's own value: unlimited): dead letters can be lost`,
				`orders.dlq: policy "limits" sets message-ttl 1 (the queue's own value: none): dead letters can be lost`,
			},
		},
		"a policy and an operator policy": {
			spec: topologytest.Alone,
			policies: []vhost.Policy{
				{Name: "user", Pattern: vhost.ReadPattern("."), ApplyTo: "queues", Definition: definition{"message-ttl": 2}},
				{Name: "ops", Pattern: vhost.ReadPattern("."), ApplyTo: "queues", Operator: true, Definition: definition{"message-ttl": 1}},
			},
			want: []string{
				`orders: policy "user" sets message-ttl 2 (the queue's own value: none): messages expire early`,
				`orders: operator policy "ops" sets message-ttl 1 (the queue's own value: none): messages expire early`,
			},
		},
		"the highest priority holds alone": {
			spec: topologytest.Alone,
			policies: []vhost.Policy{
				{Name: "low", Pattern: vhost.ReadPattern("."), ApplyTo: "queues", Priority: -1, Definition: definition{"message-ttl": 1}},
				{Name: "high", Pattern: vhost.ReadPattern("."), ApplyTo: "queues", Priority: 7, Definition: definition{"max-length": 1}},
				{Name: "middle", Pattern: vhost.ReadPattern("."), ApplyTo: "queues", Definition: definition{"message-ttl": 1}},
			},
			want: []string{`orders: policy "high" sets max-length 1 (the queue's own value: none): messages can be dropped or refused early`},
		},
		"below a policy with a key that no quorum queue supports": {
			spec: topologytest.Alone,
			policies: []vhost.Policy{
				{Name: "lazy", Pattern: vhost.ReadPattern("."), ApplyTo: "queues", Priority: 10, Definition: definition{"queue-mode": "lazy", "expires": 1}},
				{Name: "cap", Pattern: vhost.ReadPattern("."), ApplyTo: "queues", Definition: definition{"max-length": 1}},
			},
			want: []string{`orders: policy "cap" sets max-length 1 (the queue's own value: none): messages can be dropped or refused early`},
		},
		"of equal priority": {
			spec: topologytest.Alone,
			policies: []vhost.Policy{
				{Name: "b", Pattern: vhost.ReadPattern("."), ApplyTo: "queues", Definition: definition{"message-ttl": 1}},
				{Name: "a", Pattern: vhost.ReadPattern("."), ApplyTo: "queues", Definition: definition{"max-length": 1}},
			},
			want: []string{
				`orders: policy "b" may apply (Warren cannot evaluate its pattern, or another policy has the same priority), in which case it sets message-ttl 1 (the queue's own value: none): messages expire early`,
				`orders: policy "a" sets max-length 1 (the queue's own value: none): messages can be dropped or refused early`,
			},
		},
		"another name": {spec: topologytest.Alone, policies: []vhost.Policy{{Name: "p", Pattern: vhost.ReadPattern("^order$"), ApplyTo: "queues", Definition: definition{"message-ttl": 1}}}},
		"the documentation's pattern": {
			spec:     topologytest.NoRetry,
			policies: []vhost.Policy{{Name: "all", Pattern: vhost.ReadPattern(`^(?!amq\.).*`), ApplyTo: "queues", Definition: definition{"overflow": "drop-head"}}},
			want: []string{
				`orders: policy "all" sets overflow drop-head (the queue's own value: reject-publish): messages can be dropped instead of refused, or refused instead of dropped`,
				`orders.dlq: policy "all" sets overflow drop-head (the queue's own value: default): dead letters can be lost`,
			},
		},
		"a pattern that cannot be read": {
			spec: topologytest.Alone,
			policies: []vhost.Policy{
				{Name: "below", Pattern: vhost.ReadPattern("^[[:alpha:]]"), ApplyTo: "queues", Definition: definition{"message-ttl": 1}},
				{Name: "effective", Pattern: vhost.ReadPattern("^o"), ApplyTo: "queues", Priority: 1, Definition: definition{"message-ttl": 2}},
				{Name: "above", Pattern: vhost.ReadPattern("^[[:alpha:]]"), ApplyTo: "queues", Priority: 2, Definition: definition{"message-ttl": 3}},
			},
			want: []string{
				`orders: policy "above" may apply (Warren cannot evaluate its pattern, or another policy has the same priority), in which case it sets message-ttl 3 (the queue's own value: none): messages expire early`,
				`orders: policy "effective" sets message-ttl 2 (the queue's own value: none): messages expire early`,
			},
		},
		"quorum queues":  {spec: topologytest.Alone, policies: []vhost.Policy{{Name: "p", Pattern: vhost.ReadPattern(""), ApplyTo: "quorum_queues", Definition: definition{"max-length": 1}}}, want: []string{`orders: policy "p" sets max-length 1 (the queue's own value: none): messages can be dropped or refused early`}},
		"classic queues": {spec: topologytest.Alone, policies: []vhost.Policy{{Name: "p", Pattern: vhost.ReadPattern(""), ApplyTo: "classic_queues", Definition: definition{"message-ttl": 1}}}},
		"streams":        {spec: topologytest.Alone, policies: []vhost.Policy{{Name: "p", Pattern: vhost.ReadPattern(""), ApplyTo: "streams", Definition: definition{"message-ttl": 1}}}},
		"exchanges":      {spec: topologytest.Alone, policies: []vhost.Policy{{Name: "p", Pattern: vhost.ReadPattern(""), ApplyTo: "exchanges", Definition: definition{"message-ttl": 1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topo := topologytest.Desired(t, test.spec, topologytest.V43)
			observed := topologytest.Observe(t, topo)
			observed.Policies = test.policies
			got := plan.Diff(topo, observed, plan.Input{})
			var advisories []string
			for _, advisory := range got.Advisories {
				topologytest.Equal(t, "code", v1alpha1.AdvisoryShadowedByPolicy, advisory.Code)
				advisories = append(advisories, advisory.Name+": "+advisory.Message)
			}
			topologytest.Equal(t, "advisories", test.want, advisories)
			topologytest.Equal(t, "changes", nil, got.Changes)
		})
	}
}

func TestAdvisoryOfATopicKeyThatNewerBrokersRefuse(t *testing.T) {
	t.Parallel()
	refused := func(exchange, key string) []v1alpha1.Advisory {
		return []v1alpha1.Advisory{{
			Code: v1alpha1.AdvisoryUnsupportedByNewerBroker, Name: exchange,
			Message: `routing key "` + key + `" of topic exchange "` + exchange + `" has more than two words "#", which RabbitMQ refuses from 4.3.5 on: ` +
				"change the key before the broker is upgraded",
		}}
	}
	for name, test := range map[string]struct {
		spec    string
		version vhost.Version
		want    []v1alpha1.Advisory
	}{
		"three on 4.3.4": {`{bindings: [{exchange: {name: events, type: topic}, routingKeys: ["#.a.#.b.#"]}]}`, vhost.Version{Major: 4, Minor: 3, Patch: 4}, refused("events", "#.a.#.b.#")},
		"amq.topic":      {`{bindings: [{exchange: {name: amq.topic}, routingKeys: ["#.#.#"]}]}`, vhost.RabbitMQ40, refused("amq.topic", "#.#.#")},
		"of a delay tier": {
			`{retry: {exchange: {name: retries, type: topic}, delayTiers: [{delay: 1s, routingKey: "#.a.#.b.#"}]}}`, vhost.RabbitMQ40,
			refused("retries", "#.a.#.b.#"),
		},
		"two":                                   {`{bindings: [{exchange: {name: events, type: topic}, routingKeys: ["#.a.#"]}]}`, vhost.RabbitMQ40, nil},
		"on a topic exchange of another client": {`{bindings: [{exchange: {name: theirs}, routingKeys: ["#.a.#.b.#"]}]}`, vhost.RabbitMQ40, refused("theirs", "#.a.#.b.#")},
		"on 4.3.5, which refuses it":            {`{bindings: [{exchange: {name: theirs}, routingKeys: ["#.a.#.b.#"]}]}`, vhost.RabbitMQ435, nil},
		"on an exchange that is missing":        {`{bindings: [{exchange: {name: absent}, routingKeys: ["#.a.#.b.#"]}]}`, vhost.RabbitMQ40, nil},
		"as part of words":                      {`{bindings: [{exchange: {name: events, type: topic}, routingKeys: ["a#.#b.#.#"]}]}`, vhost.RabbitMQ40, nil},
		"on a direct exchange":                  {`{bindings: [{exchange: {name: events, type: direct}, routingKeys: ["#.#.#"]}]}`, vhost.RabbitMQ40, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topo := topologytest.Desired(t, test.spec, test.version)
			observed := topologytest.Observe(t, topo)
			observed.Exchanges["theirs"] = vhost.Exchange{Type: "topic", Durable: true}
			delete(observed.Exchanges, "absent")
			got := slices.DeleteFunc(plan.Diff(topo, observed, plan.Input{Version: test.version}).Advisories, func(a v1alpha1.Advisory) bool {
				return a.Code != v1alpha1.AdvisoryUnsupportedByNewerBroker
			})
			topologytest.Equal(t, "advisories", test.want, got, cmpopts.EquateEmpty())
		})
	}
}

// planHash identifies the set of changes, whatever their order and wording.
func TestPlanHash(t *testing.T) {
	t.Parallel()
	topo := topologytest.Desired(t, `{}`, topologytest.V43)
	changes := plan.Diff(topo, vhost.Observed{}, plan.Input{}).Changes
	hash := plan.Hash
	topologytest.Equal(t, "of nothing", "", hash(nil))
	// The status and user approvals store it: it must not change between releases.
	topologytest.Equal(t, "of one", "sha256:6552", hash([]v1alpha1.Change{{Kind: v1alpha1.KindQueue, Name: "orders", Effect: v1alpha1.EffectDeclare, Message: "m"}})[:11])
	if hash(changes) == hash(changes[1:]) {
		t.Error("hash of less is the same")
	}
}

// entriesOf returns the entries of a comparison as in the status.
func entriesOf(comparison plan.Comparison) []v1alpha1.TopologyEntry {
	entries := make([]v1alpha1.TopologyEntry, len(comparison.Entries))
	for i, entry := range comparison.Entries {
		entries[i] = entry.TopologyEntry
	}
	return entries
}

func TestEntriesCarryTheDesiredObjects(t *testing.T) {
	t.Parallel()
	topo := topologytest.Desired(t, most, topologytest.V43)
	found := topology.Topology{Return: topo.Return}
	for _, entry := range plan.Diff(topo, vhost.Observed{}, plan.Input{}).Entries {
		topologytest.Equal(t, "hash of "+entry.ID().String(), topo.HashOf(entry.ID()), entry.Hash)
		switch {
		case entry.Exchange != nil:
			found.Exchanges = append(found.Exchanges, *entry.Exchange)
		case entry.Queue != nil:
			found.Queues = append(found.Queues, *entry.Queue)
		case entry.Binding != nil:
			found.Bindings = append(found.Bindings, *entry.Binding)
		}
	}
	topologytest.Equal(t, "objects", topo, found)
}

func TestWhatMakesTheReturnRouteIsNotForeign(t *testing.T) {
	t.Parallel()
	const spec = `{retry: {returnTo: {exchange: back, routingKey: again}}}`
	for name, test := range map[string]struct {
		exchange, key string
		foreign       bool
	}{
		"its key":                {"direct", "again", false},
		"a pattern that has it":  {"topic", "#", false},
		"another key":            {"direct", "else", true},
		"by more than the key":   {"headers", "", false},
		"from a fanout, any key": {"fanout", "x", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			observed := topologytest.Observe(t, topologytest.Desired(t, spec, topologytest.V43))
			observed.Exchanges["back"] = vhost.Exchange{Type: test.exchange, Durable: true}
			binding := vhost.Binding{Source: "back", Destination: "orders", RoutingKey: test.key}
			observed.BindingsTo["orders"] = append(observed.BindingsTo["orders"], binding)
			observed.BindingsFrom["back"] = append(observed.BindingsFrom["back"], binding)
			got := plan.Diff(topologytest.Desired(t, spec, topologytest.V43), observed, plan.Input{})
			foreign := slices.ContainsFunc(got.Entries, func(e plan.Entry) bool { return e.State == v1alpha1.StateForeign })
			topologytest.Equal(t, "foreign", test.foreign, foreign)
		})
	}
}
