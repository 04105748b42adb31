package topology_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
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

func TestDiffFindsNothingInWhatWasDeclared(t *testing.T) {
	t.Parallel()
	for _, version := range versions {
		topo := desired(t, most, version)
		got := topology.Diff(topo, observe(t, topo), topology.Context{})
		equal(t, "comparison", topology.Comparison{Entries: []v1alpha1.TopologyEntry{
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
		}}, got)
		equal(t, "recreate", false, got.Recreate())
	}
}

// Each case changes what was declared in one way; it is the only change that Diff may find.
// Everything is compared: arguments one by one, and durable, autoDelete, exclusive, an exchange's type. An argument that is
// absent and one that is present with the broker's default value differ.
func TestDiffChanges(t *testing.T) {
	t.Parallel()
	const cannot = "; a queue's arguments cannot be changed: it must be recreated"
	queue := func(o topology.Observed, name string, change func(q *topology.ObservedQueue)) {
		q := o.Queues[name]
		change(&q)
		o.Queues[name] = q
	}
	exchange := func(o topology.Observed, name string, change func(e *topology.ObservedExchange)) {
		e := o.Exchanges[name]
		change(&e)
		o.Exchanges[name] = e
	}
	argument := func(name string, value any) func(o topology.Observed) {
		return func(o topology.Observed) { o.Queues["orders"].Arguments[name] = value }
	}
	recreate := func(kind v1alpha1.ObjectKind, name, path, want, have, message string) []v1alpha1.Change {
		return []v1alpha1.Change{{Kind: kind, Name: name, Path: path, Desired: want, Observed: have, Effect: v1alpha1.EffectRecreate, Message: message}}
	}
	ofQueue := func(path, want, have, message string) []v1alpha1.Change {
		return recreate(v1alpha1.KindQueue, "orders", path, want, have, message+cannot)
	}
	for name, test := range map[string]struct {
		change func(o topology.Observed)
		want   []v1alpha1.Change
		state  v1alpha1.ObjectState
	}{
		"a queue is missing": {
			change: func(o topology.Observed) { delete(o.Queues, "orders.retry.30s") },
			want: []v1alpha1.Change{{
				Kind: v1alpha1.KindQueue, Name: "orders.retry.30s", Effect: v1alpha1.EffectDeclare, Message: `queue "orders.retry.30s" is missing`,
			}},
			state: v1alpha1.StateMissing,
		},
		"an exchange is missing": {
			change: func(o topology.Observed) { delete(o.Exchanges, "orders.dlx") },
			want: []v1alpha1.Change{{
				Kind: v1alpha1.KindExchange, Name: "orders.dlx", Effect: v1alpha1.EffectDeclare, Message: `fanout exchange "orders.dlx" is missing`,
			}},
			state: v1alpha1.StateMissing,
		},
		"a source exchange with a type is missing": {
			change: func(o topology.Observed) { delete(o.Exchanges, "events") },
			want: []v1alpha1.Change{{
				Kind: v1alpha1.KindExchange, Name: "events", Effect: v1alpha1.EffectDeclare, Message: `topic exchange "events" is missing`,
			}},
			state: v1alpha1.StateMissing,
		},
		"a source exchange without a type is missing": {
			change: func(o topology.Observed) { delete(o.Exchanges, "legacy") },
			want: []v1alpha1.Change{{
				Kind: v1alpha1.KindExchange, Name: "legacy", Effect: v1alpha1.EffectNone,
				Message: `exchange "legacy" does not exist and Warren is not asked to declare it: declare it, or give the binding's exchange a type`,
			}},
			state: v1alpha1.StateMissing,
		},
		"a binding is missing": {
			change: func(o topology.Observed) { delete(o.BindingsTo, "orders.dlq") },
			want: []v1alpha1.Change{{
				Kind: v1alpha1.KindBinding, Source: "orders.dlx", Destination: "orders.dlq", Effect: v1alpha1.EffectBind,
				Message: `queue "orders.dlq" is not bound to exchange "orders.dlx" with routing key ""`,
			}},
			state: v1alpha1.StateMissing,
		},
		"a binding with arguments is missing": {
			change: func(o topology.Observed) { o.BindingsTo["orders"] = o.BindingsTo["orders"][1:] },
			want: []v1alpha1.Change{{
				Kind: v1alpha1.KindBinding, Source: "legacy", Destination: "orders", RoutingKey: "a b", Arguments: `{"x-note":1}`, Effect: v1alpha1.EffectBind,
				Message: `queue "orders" is not bound to exchange "legacy" with routing key "a b" and arguments {"x-note":1}`,
			}},
			state: v1alpha1.StateMissing,
		},
		"a binding of an exchange of the queue's name is none of the queue": {
			change: func(o topology.Observed) { o.BindingsTo["orders.dlq"][0].ToExchange = true },
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
			change: func(o topology.Observed) { delete(o.Queues["orders"].Arguments, "x-message-ttl") },
			want:   ofQueue("arguments.x-message-ttl", "300000", "", "x-message-ttl is not set, should be 300000"),
		},
		"an argument too many": {
			change: argument("x-max-length", 5),
			want:   ofQueue("arguments.x-max-length", "", "5", "x-max-length is 5, should not be set"),
		},
		"an argument that nobody knows": {
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
			change: func(o topology.Observed) {
				argument("x-overflow", "drop-head")(o)
				argument("x-message-ttl", 1)(o)
			},
			want: append(
				ofQueue("arguments.x-message-ttl", "300000", "1", "x-message-ttl is 1, should be 300000"),
				ofQueue("arguments.x-overflow", "reject-publish", "drop-head", "x-overflow is drop-head, should be reject-publish")...),
		},
		"a transient queue": {
			change: func(o topology.Observed) {
				queue(o, "orders", func(q *topology.ObservedQueue) { q.Durable = false })
			},
			want: ofQueue("durable", "true", "false", "durable is false, should be true"),
		},
		"an auto-delete queue": {
			change: func(o topology.Observed) {
				queue(o, "orders", func(q *topology.ObservedQueue) { q.AutoDelete = true })
			},
			want: ofQueue("autoDelete", "false", "true", "autoDelete is true, should be false"),
		},
		"an exclusive queue": {
			change: func(o topology.Observed) {
				queue(o, "orders", func(q *topology.ObservedQueue) { q.Exclusive = true })
			},
			want: ofQueue("exclusive", "false", "true", "exclusive is true, should be false"),
		},

		"an exchange of another type": {
			change: func(o topology.Observed) {
				exchange(o, "orders.dlx", func(e *topology.ObservedExchange) { e.Type = "x-random" })
			},
			want: recreate(v1alpha1.KindExchange, "orders.dlx", "type", "fanout", "x-random",
				"type is x-random, should be fanout; an exchange cannot be changed: it must be recreated"),
		},
		"a source exchange of another type": {
			change: func(o topology.Observed) {
				exchange(o, "events", func(e *topology.ObservedExchange) { e.Type = "fanout" })
			},
			want: recreate(v1alpha1.KindExchange, "events", "type", "topic", "fanout",
				"type is fanout, should be topic; an exchange cannot be changed: it must be recreated"),
		},
		"a transient exchange": {
			change: func(o topology.Observed) {
				exchange(o, "again", func(e *topology.ObservedExchange) { e.Durable = false })
			},
			want: recreate(v1alpha1.KindExchange, "again", "durable", "true", "false",
				"durable is false, should be true; an exchange cannot be changed: it must be recreated"),
		},
		"an auto-delete exchange": {
			change: func(o topology.Observed) {
				exchange(o, "again", func(e *topology.ObservedExchange) { e.AutoDelete = true })
			},
			want: recreate(v1alpha1.KindExchange, "again", "autoDelete", "false", "true",
				"autoDelete is true, should be false; an exchange cannot be changed: it must be recreated"),
		},
		"an internal exchange": {
			change: func(o topology.Observed) {
				exchange(o, "again", func(e *topology.ObservedExchange) { e.Internal = true })
			},
			want: recreate(v1alpha1.KindExchange, "again", "internal", "false", "true",
				"internal is true, should be false; an exchange cannot be changed: it must be recreated"),
		},
		"an exchange with an argument": {
			change: func(o topology.Observed) {
				exchange(o, "again", func(e *topology.ObservedExchange) {
					e.Arguments = topology.Arguments{"alternate-exchange": "lost"}
				})
			},
			want: recreate(v1alpha1.KindExchange, "again", "arguments.alternate-exchange", "", "lost",
				"alternate-exchange is lost, should not be set; an exchange cannot be changed: it must be recreated"),
		},
		"a source exchange may have arguments of its own, such as an alternate exchange": {
			change: func(o topology.Observed) {
				exchange(o, "events", func(e *topology.ObservedExchange) {
					e.Arguments = topology.Arguments{"alternate-exchange": "lost"}
				})
			},
		},
		"a source exchange without a type may be anything": {
			change: func(o topology.Observed) {
				exchange(o, "legacy", func(e *topology.ObservedExchange) {
					*e = topology.ObservedExchange{Type: "x-delayed-message", AutoDelete: true, Internal: true}
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topo := desired(t, most, v43)
			observed := observe(t, topo)
			test.change(observed)
			got := topology.Diff(topo, observed, topology.Context{})

			equal(t, "changes", test.want, got.Changes)
			wantsRecreation := len(test.want) > 0 && test.want[0].Effect == v1alpha1.EffectRecreate
			equal(t, "recreate", wantsRecreation, got.Recreate())
			equal(t, "upgraded", false, got.Upgraded)
			var missing []string
			if len(test.want) > 0 && test.want[0].Effect == v1alpha1.EffectNone {
				missing = []string{test.want[0].Name}
			}
			equal(t, "missing exchanges", missing, got.MissingExchanges)
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

// An extra binding into one of the queues is Foreign, unless another ConsumerQueue wants it.
func TestDiffForeignBindings(t *testing.T) {
	t.Parallel()
	foreign := func(source, destination, key, arguments string) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{
			Kind: v1alpha1.KindBinding, Source: source, Destination: destination, RoutingKey: key, Arguments: arguments, State: v1alpha1.StateForeign,
		}
	}
	for name, test := range map[string]struct {
		found  topology.ObservedBinding
		wanted bool
		want   []v1alpha1.TopologyEntry
	}{
		"into the main queue": {
			found: topology.ObservedBinding{Source: "other", Destination: "orders", RoutingKey: "k"},
			want:  []v1alpha1.TopologyEntry{foreign("other", "orders", "k", "")},
		},
		"with another key": {
			found: topology.ObservedBinding{Source: "events", Destination: "orders", RoutingKey: "orders.#"},
			want:  []v1alpha1.TopologyEntry{foreign("events", "orders", "orders.#", "")},
		},
		"with other arguments": {
			found: topology.ObservedBinding{Source: "events", Destination: "orders", RoutingKey: "order.*", Arguments: topology.Arguments{"n": 1.0}},
			want:  []v1alpha1.TopologyEntry{foreign("events", "orders", "order.*", `{"n":1}`)},
		},
		"with arguments that JSON has not": {
			found: topology.ObservedBinding{Source: "other", Destination: "orders", Arguments: topology.Arguments{"n": math.Inf(1)}},
			want:  []v1alpha1.TopologyEntry{foreign("other", "orders", "", "{}")},
		},
		"into a delay tier":          {found: topology.ObservedBinding{Source: "other", Destination: "orders.retry.30s"}, want: []v1alpha1.TopologyEntry{foreign("other", "orders.retry.30s", "", "")}},
		"into the dead-letter queue": {found: topology.ObservedBinding{Source: "other", Destination: "orders.dlq"}, want: []v1alpha1.TopologyEntry{foreign("other", "orders.dlq", "", "")}},
		"wanted by another":          {found: topology.ObservedBinding{Source: "other", Destination: "orders.dlq"}, wanted: true},
		"into a queue of others":     {found: topology.ObservedBinding{Source: "events", Destination: "theirs"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topo := desired(t, most, v43)
			observed := observe(t, topo)
			bind(&observed, test.found)
			context := topology.Context{}
			if test.wanted {
				context.Wanted = func(b topology.BindingID) bool { return b.Source == test.found.Source }
			}
			got := topology.Diff(topo, observed, context)
			var entries []v1alpha1.TopologyEntry
			for _, entry := range got.Entries {
				if entry.State != v1alpha1.StateInSync {
					entries = append(entries, entry)
				}
			}
			equal(t, "entries", test.want, entries)
			equal(t, "changes", nil, got.Changes)
		})
	}
}

// After an upgrade of the broker: if every object that differs is just what the spec asks for on an older supported version,
// that is BrokerUpgraded and no drift.
func TestDiffUpgraded(t *testing.T) {
	t.Parallel()
	const reject = `{retry: {strategy: Reject}}`
	for name, test := range map[string]struct {
		spec   string
		from   topology.Version
		on     topology.Version
		change func(o topology.Observed)
		want   bool
		// objects that need recreation
		recreate []string
		foreign  int
	}{
		"the DLQ's limit came with 4.0":          {spec: `{}`, from: v313, on: v43, want: true, recreate: []string{"orders.dlq"}},
		"and a consumerTimeout does not hide it": {spec: `{queue: {consumerTimeout: 1h}}`, from: v313, on: v40, want: true, recreate: []string{"orders.dlq"}},
		"reject by reason came with 4.0":         {spec: reject, from: v313, on: v40, want: true, recreate: []string{"orders.dlx", "orders", "orders.dlq"}},
		"its old binding is not foreign":         {spec: `{retry: {strategy: Reject}}`, from: v310, on: v43, want: true, recreate: []string{"orders.dlx", "orders", "orders.dlq"}},
		"some of it may be new already":          {spec: reject, from: v313, on: v40, change: func(o topology.Observed) { o.Queues["orders.dlq"].Arguments["x-delivery-limit"] = -1 }, want: true, recreate: []string{"orders.dlx", "orders"}},
		"but not the main queue: rejects would go to the DLQ, not to the tier": {
			spec: reject, from: v313, on: v40, change: func(o topology.Observed) {
				delete(o.Queues["orders"].Arguments, "x-dead-letter-routing-key")
				o.Queues["orders"].Arguments["x-dead-letter-exchange"] = "orders.dlx"
			}, recreate: []string{"orders.dlx", "orders.dlq"}, foreign: 1,
		},
		"nothing needs recreation":                  {spec: `{}`, from: v40, on: v43},
		"missing objects are no sign of an upgrade": {spec: `{}`, from: v40, on: v43, change: func(o topology.Observed) { delete(o.Queues, "orders") }},
		"a missing object does not matter":          {spec: `{}`, from: v313, on: v43, change: func(o topology.Observed) { delete(o.Queues, "orders.retry.5m") }, want: true, recreate: []string{"orders.dlq"}},
		"another difference as well":                {spec: `{}`, from: v313, on: v43, change: func(o topology.Observed) { o.Queues["orders"].Arguments["x-max-length"] = 1 }, recreate: []string{"orders", "orders.dlq"}},
		"another difference of the same object":     {spec: `{}`, from: v313, on: v43, change: func(o topology.Observed) { o.Queues["orders.dlq"].Arguments["x-max-length"] = 1 }, recreate: []string{"orders.dlq"}},
		"an exchange that neither wants": {spec: reject, from: v313, on: v43, change: func(o topology.Observed) {
			o.Exchanges["orders.dlx"] = topology.ObservedExchange{Type: "direct", Durable: true}
		}, recreate: []string{"orders.dlx", "orders", "orders.dlq"}, foreign: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			observed := observe(t, desired(t, test.spec, test.from))
			if test.change != nil {
				test.change(observed)
			}
			cq := consumerQueue(t, test.spec)
			got := topology.Diff(desired(t, test.spec, test.on), observed, topology.Context{Older: topology.Older(cq, test.on)})
			equal(t, "upgraded", test.want, got.Upgraded)
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
			equal(t, "needs recreation", test.recreate, recreate)
			equal(t, "foreign bindings", test.foreign, foreign)
			equal(t, "recreate", len(test.recreate) > 0, got.Recreate())
		})
	}
}

func TestDiffReturnRoute(t *testing.T) {
	t.Parallel()
	const (
		nowhere = `exchange "back" of retry.returnTo routes key "again" to no queue: messages whose delay is over would be lost or stay in their delay tier; bind queue "orders" to it with that key`
		astray  = `exchange "back" of retry.returnTo routes key "again" to other queues ("other") and not to queue "orders": messages whose delay is over go there and do not come back; bind queue "orders" to it with that key`
		noWay   = `no binding leads from exchange "back" of retry.returnTo to queue "orders": messages whose delay is over would be lost or stay in their delay tier; bind the queue to it`
		absent  = `exchange "back" of retry.returnTo does not exist: messages whose delay is over would be lost or stay in their delay tier; declare it, or give a binding to it a type`
	)
	to := func(source, destination, key string) topology.ObservedBinding {
		return topology.ObservedBinding{Source: source, Destination: destination, RoutingKey: key}
	}
	through := func(source, destination, key string) topology.ObservedBinding {
		return topology.ObservedBinding{Source: source, Destination: destination, RoutingKey: key, ToExchange: true}
	}
	for name, test := range map[string]struct {
		key       string // of returnTo
		exchanges map[string]string
		bindings  []topology.ObservedBinding
		arguments topology.Arguments // of the exchange back
		missing   string
		fansOut   string // the queues in the advisory
	}{
		"no exchange":                         {missing: absent},
		"no binding":                          {exchanges: map[string]string{"back": "topic"}, missing: nowhere},
		"direct":                              {exchanges: map[string]string{"back": "direct"}, bindings: []topology.ObservedBinding{to("back", "orders", "again")}},
		"direct with another key":             {exchanges: map[string]string{"back": "direct"}, bindings: []topology.ObservedBinding{to("back", "orders", "#")}, missing: nowhere},
		"fanout":                              {exchanges: map[string]string{"back": "fanout"}, bindings: []topology.ObservedBinding{to("back", "orders", "whatever")}},
		"topic":                               {exchanges: map[string]string{"back": "topic"}, bindings: []topology.ObservedBinding{to("back", "orders", "*")}},
		"topic that does not match":           {exchanges: map[string]string{"back": "topic"}, bindings: []topology.ObservedBinding{to("back", "orders", "again.*")}, missing: nowhere},
		"fans out":                            {exchanges: map[string]string{"back": "topic"}, bindings: []topology.ObservedBinding{to("back", "orders", "again"), to("back", "z", "#"), to("back", `"a"`, "*"), to("back", "z", "again")}, fansOut: `"\"a\"", "z"`},
		"leads to others only":                {exchanges: map[string]string{"back": "direct"}, bindings: []topology.ObservedBinding{to("back", "other", "again")}, missing: astray},
		"headers: each message decides":       {exchanges: map[string]string{"back": "headers"}, bindings: []topology.ObservedBinding{to("back", "other", "again"), to("back", "orders", "")}},
		"a plugin's type":                     {exchanges: map[string]string{"back": "x-random"}, bindings: []topology.ObservedBinding{to("back", "other", "again"), to("back", "orders", "")}},
		"headers: to others only":             {exchanges: map[string]string{"back": "headers"}, bindings: []topology.ObservedBinding{to("back", "other", "again")}, missing: noWay},
		"headers: to an exchange in a circle": {exchanges: map[string]string{"back": "headers", "inner": "headers"}, bindings: []topology.ObservedBinding{through("back", "inner", ""), through("inner", "back", "")}, missing: noWay},
		"through another exchange":            {exchanges: map[string]string{"back": "topic", "inner": "direct"}, bindings: []topology.ObservedBinding{through("back", "inner", "#"), to("inner", "orders", "again")}},
		"through one that leads nowhere":      {exchanges: map[string]string{"back": "topic", "inner": "direct"}, bindings: []topology.ObservedBinding{through("back", "inner", "#"), to("inner", "orders", "other")}, missing: nowhere},
		"through one that each message picks": {exchanges: map[string]string{"back": "topic", "inner": "headers"}, bindings: []topology.ObservedBinding{through("back", "inner", "#"), to("inner", "orders", "other")}},
		"in a circle":                         {exchanges: map[string]string{"back": "fanout", "inner": "fanout"}, bindings: []topology.ObservedBinding{through("back", "inner", ""), through("inner", "back", ""), to("inner", "orders", "")}},
		"with an alternate exchange":          {exchanges: map[string]string{"back": "direct"}, arguments: topology.Arguments{"alternate-exchange": "lost"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topo := desired(t, `{retry: {returnTo: {exchange: back, routingKey: again}}}`, v43)
			observed := observe(t, topo)
			for exchange, kind := range test.exchanges {
				found := topology.ObservedExchange{Type: kind, Durable: true}
				if exchange == "back" {
					found.Arguments = test.arguments
				}
				observed.Exchanges[exchange] = found
			}
			for _, binding := range test.bindings {
				observed.BindingsFrom[binding.Source] = append(observed.BindingsFrom[binding.Source], binding)
			}
			got := topology.Diff(topo, observed, topology.Context{})
			equal(t, "missing return", test.missing, got.MissingReturn)
			var changes []v1alpha1.Change
			if test.missing != "" {
				changes = []v1alpha1.Change{{
					Kind: v1alpha1.KindExchange, Name: "back", Path: "route", Desired: "orders", Effect: v1alpha1.EffectNone, Message: test.missing,
				}}
			}
			equal(t, "changes", changes, got.Changes)
			var advisories []v1alpha1.Advisory
			if test.fansOut != "" {
				advisories = []v1alpha1.Advisory{{
					Code: v1alpha1.AdvisoryReturnRouteFansOut, Name: "back",
					Message: `exchange "back" routes key "again" to further queues (` + test.fansOut + `): each retry is copied there`,
				}}
			}
			equal(t, "advisories", advisories, got.Advisories)
		})
	}
}

// The first look at a broker must not complain of a route that declaring the topology makes.
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
			topo := desired(t, `{`+test.spec+`}`, v43)
			observed := topology.Observed{}
			if test.declared {
				observed = observe(t, topo)
			}
			got := topology.Diff(topo, observed, topology.Context{})
			equal(t, "is missing", test.missing, got.MissingReturn != "")
			equal(t, "advisories", nil, got.Advisories)
		})
	}
}

func TestDiffShadowedByPolicy(t *testing.T) {
	t.Parallel()
	type definition = topology.Arguments
	policy := func(key string, value any) []topology.Policy {
		return []topology.Policy{{Name: "p", Pattern: topology.ReadPattern("^orders$"), ApplyTo: "queues", Definition: definition{key: value}}}
	}
	everything := `{queue: {messageTTL: 5m, deliveryLimit: 50, maxLength: 100, maxLengthBytes: 1000}, deadLetter: {exchange: {type: direct}}, retry: {policy: None}}`
	onDLQ := func(key string, value any) []topology.Policy {
		policies := policy(key, value)
		policies[0].Pattern = topology.ReadPattern("dlq$")
		return policies
	}
	for name, test := range map[string]struct {
		spec     string
		policies []topology.Policy
		want     []string // queue: message
	}{
		"overflow":                      {spec: everything, policies: policy("overflow", "drop-head"), want: []string{`orders: policy "p" sets overflow drop-head over the queue's reject-publish: messages can be dropped instead of refused, or the other way round`}},
		"overflow without an own":       {spec: alone, policies: policy("overflow", "drop-head"), want: []string{`orders: policy "p" sets overflow drop-head over the queue's default: messages can be dropped instead of refused, or the other way round`}},
		"the same overflow":             {spec: everything, policies: policy("overflow", "reject-publish")},
		"message-ttl":                   {spec: everything, policies: policy("message-ttl", 299999), want: []string{`orders: policy "p" sets message-ttl 299999 over the queue's 300000: messages expire early`}},
		"message-ttl without an own":    {spec: alone, policies: policy("message-ttl", 5), want: []string{`orders: policy "p" sets message-ttl 5 over the queue's none: messages expire early`}},
		"a longer message-ttl":          {spec: everything, policies: policy("message-ttl", 300000)},
		"max-length":                    {spec: everything, policies: policy("max-length", 99), want: []string{`orders: policy "p" sets max-length 99 over the queue's 100: messages can be dropped or refused early`}},
		"max-length-bytes":              {spec: everything, policies: policy("max-length-bytes", 999), want: []string{`orders: policy "p" sets max-length-bytes 999 over the queue's 1000: messages can be dropped or refused early`}},
		"delivery-limit":                {spec: everything, policies: policy("delivery-limit", 5), want: []string{`orders: policy "p" sets delivery-limit 5 over the queue's 50: messages can be dropped or dead-lettered early`}},
		"delivery-limit over unlimited": {spec: alone, policies: policy("delivery-limit", 5), want: []string{`orders: policy "p" sets delivery-limit 5 over the queue's unlimited: messages can be dropped or dead-lettered early`}},
		"an unlimited delivery-limit":   {spec: everything, policies: policy("delivery-limit", -1)},
		"a limit that is no number":     {spec: everything, policies: policy("delivery-limit", "5")},
		"dead-letter-exchange":          {spec: alone, policies: policy("dead-letter-exchange", "x"), want: []string{`orders: policy "p" sets dead-letter-exchange x over the queue's none: messages go where this ConsumerQueue does not send them`}},
		"dead-letter-exchange loses":    {spec: everything, policies: policy("dead-letter-exchange", "x")},
		"dead-letter-routing-key":       {spec: noRetry, policies: policy("dead-letter-routing-key", "x"), want: []string{`orders: policy "p" sets dead-letter-routing-key x over the queue's none: messages go where this ConsumerQueue does not send them`}},
		"a routing key loses":           {spec: everything, policies: policy("dead-letter-routing-key", "x")},
		"dead-letter-strategy":          {spec: `{retry: {policy: None}, deadLetterStrategy: AtMostOnce}`, policies: policy("dead-letter-strategy", "at-least-once"), want: []string{`orders: policy "p" sets dead-letter-strategy at-least-once over the queue's none: messages are dead-lettered in another way than asked for`}},
		"a strategy loses":              {spec: everything, policies: policy("dead-letter-strategy", "at-most-once")},
		"expires":                       {spec: alone, policies: policy("expires", 20000), want: []string{`orders: policy "p" sets expires 20000 over the queue's none: the broker deletes the queue with its messages when nobody has used it for that long`}},
		"expires of dead letters":       {spec: noRetry, policies: onDLQ("expires", 20000), want: []string{`orders.dlq: policy "p" sets expires 20000 over the queue's none: the broker deletes the queue with its messages when nobody has used it for that long`}},
		"keys that do no harm":          {spec: everything, policies: policy("target-group-size", 5)},

		"dead letters at risk": {spec: noRetry, policies: onDLQ("delivery-limit", 5), want: []string{`orders.dlq: policy "p" sets delivery-limit 5 over the queue's unlimited: dead letters can be lost`}},
		"dead letters moved":   {spec: noRetry, policies: onDLQ("dead-letter-exchange", "x"), want: []string{`orders.dlq: policy "p" sets dead-letter-exchange x over the queue's none: messages go where this ConsumerQueue does not send them`}},

		"several keys and queues": {
			spec:     `{retry: {policy: None}}`,
			policies: []topology.Policy{{Name: "limits", Pattern: topology.ReadPattern(""), ApplyTo: "all", Definition: definition{"message-ttl": 1, "delivery-limit": 2}}},
			want: []string{
				`orders: policy "limits" sets delivery-limit 2 over the queue's none: messages can be dropped or dead-lettered early`,
				`orders: policy "limits" sets message-ttl 1 over the queue's none: messages expire early`,
				`orders.dlq: policy "limits" sets delivery-limit 2 over the queue's unlimited: dead letters can be lost`,
				`orders.dlq: policy "limits" sets message-ttl 1 over the queue's none: dead letters can be lost`,
			},
		},
		"a policy and an operator policy": {
			spec: alone,
			policies: []topology.Policy{
				{Name: "user", Pattern: topology.ReadPattern("."), ApplyTo: "queues", Definition: definition{"message-ttl": 2}},
				{Name: "ops", Pattern: topology.ReadPattern("."), ApplyTo: "queues", Operator: true, Definition: definition{"message-ttl": 1}},
			},
			want: []string{
				`orders: policy "user" sets message-ttl 2 over the queue's none: messages expire early`,
				`orders: operator policy "ops" sets message-ttl 1 over the queue's none: messages expire early`,
			},
		},
		"the highest priority holds alone": {
			spec: alone,
			policies: []topology.Policy{
				{Name: "low", Pattern: topology.ReadPattern("."), ApplyTo: "queues", Priority: -1, Definition: definition{"message-ttl": 1}},
				{Name: "high", Pattern: topology.ReadPattern("."), ApplyTo: "queues", Priority: 7, Definition: definition{"max-length": 1}},
				{Name: "middle", Pattern: topology.ReadPattern("."), ApplyTo: "queues", Definition: definition{"message-ttl": 1}},
			},
			want: []string{`orders: policy "high" sets max-length 1 over the queue's none: messages can be dropped or refused early`},
		},
		"of equal priority the first name": {
			spec: alone,
			policies: []topology.Policy{
				{Name: "b", Pattern: topology.ReadPattern("."), ApplyTo: "queues", Definition: definition{"message-ttl": 1}},
				{Name: "a", Pattern: topology.ReadPattern("."), ApplyTo: "queues", Definition: definition{"max-length": 1}},
			},
			want: []string{`orders: policy "a" sets max-length 1 over the queue's none: messages can be dropped or refused early`},
		},
		"another name": {spec: alone, policies: []topology.Policy{{Name: "p", Pattern: topology.ReadPattern("^order$"), ApplyTo: "queues", Definition: definition{"message-ttl": 1}}}},
		"the documentation's pattern": {
			spec:     noRetry,
			policies: []topology.Policy{{Name: "all", Pattern: topology.ReadPattern(`^(?!amq\.).*`), ApplyTo: "queues", Definition: definition{"overflow": "drop-head"}}},
			want: []string{
				`orders: policy "all" sets overflow drop-head over the queue's reject-publish: messages can be dropped instead of refused, or the other way round`,
				`orders.dlq: policy "all" sets overflow drop-head over the queue's default: dead letters can be lost`,
			},
		},
		"a pattern that cannot be read": {
			spec: alone,
			policies: []topology.Policy{
				{Name: "below", Pattern: topology.ReadPattern("^[[:alpha:]]"), ApplyTo: "queues", Definition: definition{"message-ttl": 1}},
				{Name: "effective", Pattern: topology.ReadPattern("^o"), ApplyTo: "queues", Priority: 1, Definition: definition{"message-ttl": 2}},
				{Name: "above", Pattern: topology.ReadPattern("^[[:alpha:]]"), ApplyTo: "queues", Priority: 2, Definition: definition{"message-ttl": 3}},
			},
			want: []string{
				`orders: policy "above" may apply (Warren cannot tell whether its pattern matches): it sets message-ttl 3 over the queue's none: messages expire early`,
				`orders: policy "effective" sets message-ttl 2 over the queue's none: messages expire early`,
			},
		},
		"quorum queues":  {spec: alone, policies: []topology.Policy{{Name: "p", Pattern: topology.ReadPattern(""), ApplyTo: "quorum_queues", Definition: definition{"max-length": 1}}}, want: []string{`orders: policy "p" sets max-length 1 over the queue's none: messages can be dropped or refused early`}},
		"classic queues": {spec: alone, policies: []topology.Policy{{Name: "p", Pattern: topology.ReadPattern(""), ApplyTo: "classic_queues", Definition: definition{"message-ttl": 1}}}},
		"streams":        {spec: alone, policies: []topology.Policy{{Name: "p", Pattern: topology.ReadPattern(""), ApplyTo: "streams", Definition: definition{"message-ttl": 1}}}},
		"exchanges":      {spec: alone, policies: []topology.Policy{{Name: "p", Pattern: topology.ReadPattern(""), ApplyTo: "exchanges", Definition: definition{"message-ttl": 1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topo := desired(t, test.spec, v43)
			observed := observe(t, topo)
			observed.Policies = test.policies
			got := topology.Diff(topo, observed, topology.Context{})
			var advisories []string
			for _, advisory := range got.Advisories {
				equal(t, "code", v1alpha1.AdvisoryShadowedByPolicy, advisory.Code)
				advisories = append(advisories, advisory.Name+": "+advisory.Message)
			}
			equal(t, "advisories", test.want, advisories)
			equal(t, "changes", nil, got.Changes)
		})
	}
}

// planHash identifies the set of changes, whatever their order and wording.
func TestPlanHash(t *testing.T) {
	t.Parallel()
	topo := desired(t, `{}`, v43)
	changes := topology.Diff(topo, topology.Observed{}, topology.Context{}).Changes
	hash := func(changes []v1alpha1.Change) string {
		t.Helper()
		got, err := topology.PlanHash(changes)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	equal(t, "of nothing", "", hash(nil))
	// It is kept in status and in people's approvals: it must not change from one release to the next.
	equal(t, "of one", "sha256:6552", hash([]v1alpha1.Change{{Kind: v1alpha1.KindQueue, Name: "orders", Effect: v1alpha1.EffectDeclare, Message: "m"}})[:11])
	if hash(changes) == hash(changes[1:]) {
		t.Error("hash of less is the same")
	}
}

func TestShapes(t *testing.T) {
	t.Parallel()
	topo := desired(t, most, v43)
	entries := topology.Diff(topo, observe(t, topo), topology.Context{}).Entries
	shapes := topo.Shapes()
	equal(t, "one shape for each entry", len(entries), len(shapes))
	equal(t, "shapes of the same spec", shapes, desired(t, most, v43).Shapes())

	changed := desired(t, most+"deadLetterStrategy: AtMostOnce\n", v43).Shapes()
	var differ []string
	for i := range shapes {
		if shapes[i] != changed[i] {
			differ = append(differ, entries[i].Name)
		}
	}
	equal(t, "what another spec wants differently", []string{"orders", "orders.retry.30s"}, differ)
	for _, shape := range shapes {
		if len(shape) != 16 {
			t.Errorf("shape %q: want the 16 characters that status has room for", shape)
		}
	}
}

func TestNormalize(t *testing.T) {
	t.Parallel()
	got := topology.Normalize(map[string]any{
		"int8": int8(-1), "uint8": uint8(2), "int32": int32(3), "int": 4, "uint64": uint64(5), "float32": float32(6), "float64": 7.0,
		"number": json.Number("8"), "exponent": json.Number("9e0"), "fraction": json.Number("1.5"), "huge": json.Number("1e400"),
		"large": uint64(math.MaxUint64), "half": 0.5, "string": "10", "bytes": []byte("b"), "true": true, "nil": nil,
		"list": []any{int16(1), []byte("c")}, "table": map[string]any{"n": json.Number("1"), "t": map[string]any{}},
	})
	want := topology.Arguments{
		"int8": int64(-1), "uint8": int64(2), "int32": int64(3), "int": int64(4), "uint64": int64(5), "float32": int64(6), "float64": int64(7),
		"number": int64(8), "exponent": int64(9), "fraction": 1.5, "huge": "1e400",
		"large": uint64(math.MaxUint64), "half": 0.5, "string": "10", "bytes": "b", "true": true, "nil": nil,
		"list": []any{int64(1), "c"}, "table": map[string]any{"n": int64(1), "t": map[string]any(nil)},
	}
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("normalized (-want +got):\n%s", difference)
	}
	if difference := cmp.Diff(topology.Arguments(nil), topology.Normalize(map[string]any{}), cmpopts.EquateEmpty()); difference != "" {
		t.Error(difference)
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]topology.Version{
		"4.3.6": v43, "4.0.0-rc.1": v40, "3.10": v310, "3.13.7.15": v313, "10.0.1": {Major: 10},
	} {
		got, err := topology.ParseVersion(text)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "4", "four.0", "4.x", "v4.0.0"} {
		_, err := topology.ParseVersion(text)
		if want := `RabbitMQ version "` + text + `": want numbers as in 4.3.6`; err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
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
			observed := observe(t, desired(t, spec, v43))
			observed.Exchanges["back"] = topology.ObservedExchange{Type: test.exchange, Durable: true}
			binding := topology.ObservedBinding{Source: "back", Destination: "orders", RoutingKey: test.key}
			observed.BindingsTo["orders"] = append(observed.BindingsTo["orders"], binding)
			observed.BindingsFrom["back"] = append(observed.BindingsFrom["back"], binding)
			got := topology.Diff(desired(t, spec, v43), observed, topology.Context{})
			foreign := slices.ContainsFunc(got.Entries, func(e v1alpha1.TopologyEntry) bool { return e.State == v1alpha1.StateForeign })
			equal(t, "foreign", test.foreign, foreign)
		})
	}
}
