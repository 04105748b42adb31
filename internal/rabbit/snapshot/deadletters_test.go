package snapshot

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

func TestDeadLetterSources(t *testing.T) {
	t.Parallel()
	dead := func(name, exchange string, key any) management.QueueItem {
		arguments := map[string]any{"x-dead-letter-exchange": exchange}
		if key != nil {
			arguments["x-dead-letter-routing-key"] = key
		}
		return management.QueueItem{Name: name, Type: "quorum", Durable: true, Arguments: arguments}
	}
	plain := func(name, kind string) management.QueueItem {
		return management.QueueItem{Name: name, Type: kind, Durable: true}
	}
	exchanges := []management.ExchangeItem{
		{Name: "dlx", Type: "fanout"},
		{Name: "onward", Type: "fanout"},
		{Name: "other", Type: "fanout"},
		{Name: "alternating", Type: "direct", Arguments: map[string]any{"alternate-exchange": "dlx"}},
	}
	bindings := []management.BindingItem{
		{Source: "dlx", Destination: "dlq", DestinationType: "queue"},
		{Source: "onward", Destination: "dlx", DestinationType: "exchange"},
		{Source: "other", Destination: "dlq", DestinationType: "queue"},
	}
	policy := func(name, pattern, applyTo string, priority management.Priority, definition map[string]any) management.PolicyItem {
		return management.PolicyItem{Name: name, Pattern: pattern, ApplyTo: applyTo, Priority: priority, Definition: definition}
	}
	toDLX := map[string]any{"dead-letter-exchange": "dlx"}
	key := func(text string) *string { return &text }
	cases := map[string]struct {
		queues             []management.QueueItem
		policies, operator []management.PolicyItem
		want               []vhost.DeadLetterRoute
	}{
		"none": {nil, nil, nil, nil},
		"by argument": {[]management.QueueItem{
			dead("a named exchange", "dlx", nil), dead("its own key", "dlx", "k"), dead("one that leads on", "onward", nil),
			dead("an alternating one", "alternating", nil), dead("somewhere else", "other", nil), dead("missing", "nowhere", nil),
			dead("named queue", "", "q"), dead("other queue", "", "x"), dead("each its own", "", nil), plain("nothing", "quorum"),
		}, nil, nil, []vhost.DeadLetterRoute{
			{Queue: "a named exchange", Exchange: "dlx"},
			{Queue: "an alternating one", Exchange: "alternating"},
			{Queue: "each its own"},
			{Queue: "its own key", Exchange: "dlx", RoutingKey: key("k")},
			{Queue: "named queue", RoutingKey: key("q")},
			{Queue: "one that leads on", Exchange: "onward"},
		}},
		"by policy": {
			[]management.QueueItem{plain("a", "quorum"), plain("b", "quorum"), plain("c", "quorum")},
			[]management.PolicyItem{policy("p", "^a$", "queues", 0, map[string]any{"dead-letter-exchange": "dlx", "dead-letter-routing-key": "k"})},
			[]management.PolicyItem{policy("o", "^b$", "all", 0, toDLX)},
			[]vhost.DeadLetterRoute{{Queue: "a", Exchange: "dlx", RoutingKey: key("k")}, {Queue: "b", Exchange: "dlx"}},
		},
		"the argument wins, key by key": {
			[]management.QueueItem{dead("a", "other", nil), dead("b", "dlx", nil)},
			[]management.PolicyItem{policy("p", ".", "queues", 0, map[string]any{"dead-letter-exchange": "dlx", "dead-letter-routing-key": "k"})},
			nil,
			[]vhost.DeadLetterRoute{{Queue: "b", Exchange: "dlx"}, {Queue: "b", Exchange: "dlx", RoutingKey: key("k")}},
		},
		"any policy that matches may be in effect": {
			[]management.QueueItem{plain("a", "quorum"), plain("b", "quorum")},
			[]management.PolicyItem{
				policy("p", ".", "queues", 1, toDLX), policy("q", "a", "queues", 2, map[string]any{"max-length": json.Number("5")}),
				policy("r", "b", "queues", 1, map[string]any{"dead-letter-exchange": "other"}),
			},
			nil,
			[]vhost.DeadLetterRoute{{Queue: "a", Exchange: "dlx"}, {Queue: "b", Exchange: "dlx"}},
		},
		"a policy with a lookahead": {
			[]management.QueueItem{plain("amq.gen", "quorum"), plain("legacy", "quorum")},
			[]management.PolicyItem{policy("p", "^(?!amq\\.).*", "queues", 0, toDLX)},
			nil,
			[]vhost.DeadLetterRoute{{Queue: "legacy", Exchange: "dlx"}},
		},
		"a policy that cannot be read may match": {
			[]management.QueueItem{plain("legacy", "quorum")},
			[]management.PolicyItem{policy("p", "^[[:alpha:]]", "queues", 0, toDLX)},
			nil,
			[]vhost.DeadLetterRoute{{Queue: "legacy", Exchange: "dlx"}},
		},
		"policies for certain types": {
			[]management.QueueItem{plain("c", "classic"), plain("q", "quorum"), plain("s", "stream")},
			[]management.PolicyItem{
				policy("1", "^.$", "exchanges", 9, map[string]any{"dead-letter-exchange": "other"}),
				policy("2", "^.$", "classic_queues", 3, map[string]any{"dead-letter-exchange": "dlx", "dead-letter-routing-key": "classic"}),
				policy("3", "^.$", "quorum_queues", 3, map[string]any{"dead-letter-exchange": "dlx", "dead-letter-routing-key": "quorum"}),
				policy("4", "^.$", "streams", 3, map[string]any{"max-age": "1h"}),
				policy("5", "^(?!c)", "all", 4, map[string]any{"dead-letter-exchange": "other"}),
			},
			nil,
			[]vhost.DeadLetterRoute{{Queue: "c", Exchange: "dlx", RoutingKey: key("classic")}, {Queue: "q", Exchange: "dlx", RoutingKey: key("quorum")}},
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := build(nil, exchanges, test.queues, bindings, test.policies, test.operator)
			names := vhost.Selection{Exchanges: []string{"dlx", "none"}, Queues: []string{"q"}}
			if without := s.observe(names); len(without.DeadLetterRoutes)+len(without.BindingsFrom) != 0 {
				t.Errorf("without being asked for: %+v", without)
			}
			names.IncludeDeadLetterSources = true
			observed := s.observe(names)
			if difference := cmp.Diff(test.want, observed.DeadLetterRoutes, cmpopts.EquateEmpty()); difference != "" {
				t.Errorf("wanted (-), observed (+):\n%s", difference)
			}
			if difference := cmp.Diff([]string{"alternating", "dlx", "onward"}, keys(observed.Exchanges)); difference != "" {
				t.Error(difference)
			}
			if difference := cmp.Diff([]string{"dlx", "onward"}, keys(observed.BindingsFrom)); difference != "" {
				t.Error(difference)
			}
		})
	}
}

// The policy of an exchange leads dead letters to a named exchange, also if the exchange is declared later.
func TestDeadLettersByTheAlternateExchangeOfAPolicy(t *testing.T) {
	t.Parallel()
	s := build(nil,
		[]management.ExchangeItem{{Name: "dlx", Type: "fanout"}, {Name: "hub", Type: "direct"}},
		[]management.QueueItem{{Name: "theirs", Type: "quorum", Durable: true, Arguments: map[string]any{"x-dead-letter-exchange": "hub"}}},
		nil,
		[]management.PolicyItem{{Name: "unrouted", Pattern: "^hub", ApplyTo: "exchanges", Definition: map[string]any{"alternate-exchange": "dlx"}}},
		nil)
	observed := s.observe(vhost.Selection{Exchanges: []string{"dlx"}, IncludeDeadLetterSources: true})
	if difference := cmp.Diff([]vhost.DeadLetterRoute{{Queue: "theirs", Exchange: "hub"}}, observed.DeadLetterRoutes); difference != "" {
		t.Error(difference)
	}
	if difference := cmp.Diff([]string{"dlx", "hub"}, keys(observed.Exchanges)); difference != "" {
		t.Error(difference)
	}
	if difference := cmp.Diff(map[string][]string{"hub": {"dlx"}}, observed.Alternates); difference != "" {
		t.Error(difference)
	}
	s.PutExchange("hub-2", vhost.Exchange{Type: "direct"})
	observed = s.observe(vhost.Selection{Exchanges: []string{"dlx"}, IncludeDeadLetterSources: true})
	if difference := cmp.Diff(map[string][]string{"hub": {"dlx"}, "hub-2": {"dlx"}}, observed.Alternates); difference != "" {
		t.Error(difference)
	}
}

// Thousands of queues may dead-letter to one direct exchange, each with its own routing key. The sources whose dead letters cannot reach
// a named queue are left out, except the first, which shows that the exchange is in use.
func TestDeadLetterSourcesOfASharedExchange(t *testing.T) {
	t.Parallel()
	dead := func(name string, key any) management.QueueItem {
		arguments := map[string]any{"x-dead-letter-exchange": "dlx"}
		if key != nil {
			arguments["x-dead-letter-routing-key"] = key
		}
		return management.QueueItem{Name: name, Type: "quorum", Durable: true, Arguments: arguments}
	}
	queues := []management.QueueItem{
		dead("a", "1"), dead("b", "2"), dead("c", "3"), dead("each its own", nil), {Name: "dlq", Type: "quorum", Durable: true},
	}
	bound := []management.BindingItem{
		{Source: "dlx", Destination: "dlq", DestinationType: "queue", RoutingKey: "2"},
		{Source: "dlx", Destination: "other", DestinationType: "queue", RoutingKey: "3"},
	}
	all := []string{"a", "b", "c", "each its own"}
	for name, test := range map[string]struct {
		kind      string
		arguments map[string]any
		further   []management.BindingItem
		want      []string
	}{
		"direct":                              {kind: "direct", want: []string{"a", "b", "each its own"}},
		"topic":                               {kind: "topic", want: all},
		"with an alternate":                   {kind: "direct", arguments: map[string]any{"alternate-exchange": "dlx"}, want: all},
		"another exchange is bound to it":     {kind: "direct", further: []management.BindingItem{{Source: "dlx", Destination: "x", DestinationType: "exchange"}}, want: all},
		"bound to another exchange, by a key": {kind: "direct", further: []management.BindingItem{{Source: "x", Destination: "dlx", DestinationType: "exchange"}}, want: []string{"a", "b", "each its own"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exchanges := []management.ExchangeItem{{Name: "dlx", Type: test.kind, Arguments: test.arguments}, {Name: "x", Type: "fanout"}}
			s := build(nil, exchanges, queues, append(test.further, bound...), nil, nil)
			observed := s.observe(vhost.Selection{Exchanges: []string{"dlx"}, Queues: []string{"dlq"}, IncludeDeadLetterSources: true})
			var sources []string
			for _, letter := range observed.DeadLetterRoutes {
				sources = append(sources, letter.Queue)
			}
			if difference := cmp.Diff(test.want, sources); difference != "" {
				t.Errorf("wanted (-), observed (+):\n%s", difference)
			}
		})
	}
}

// Thousands of queues may share a dead-letter queue that is bound with all of their routing keys. The sources that need a named binding
// are listed, and enough others to show that dead letters of a queue that is not named reach the dead-letter queue.
func TestDeadLetterSourcesOfASharedDeadLetterQueue(t *testing.T) {
	t.Parallel()
	var queues []management.QueueItem
	bindings := []management.BindingItem{}
	for _, name := range []string{"a", "b", "c", "d"} {
		queues = append(queues, management.QueueItem{Name: name, Type: "quorum", Durable: true, Arguments: map[string]any{
			"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": name,
		}})
		bindings = append(bindings, management.BindingItem{Source: "dlx", Destination: "dlq", DestinationType: "queue", RoutingKey: name})
	}
	queues = append(queues, management.QueueItem{Name: "dlq", Type: "quorum", Durable: true})
	s := build(nil, []management.ExchangeItem{{Name: "dlx", Type: "direct"}}, queues, bindings, nil, nil)
	for name, test := range map[string]struct {
		own  []string
		want []string
	}{
		"one of them":  {[]string{"c"}, []string{"a", "c"}},
		"the first":    {[]string{"a"}, []string{"a", "b"}},
		"all but one":  {[]string{"a", "b", "c"}, []string{"a", "b", "c", "d"}},
		"all":          {[]string{"a", "b", "c", "d"}, []string{"a", "b", "c", "d"}},
		"none of them": {nil, []string{"a"}},
	} {
		names := vhost.Selection{Exchanges: []string{"dlx"}, Queues: append([]string{"dlq"}, test.own...), IncludeDeadLetterSources: true}
		for _, queue := range test.own {
			names.Bindings = append(names.Bindings, vhost.Binding{Source: "dlx", Destination: "dlq", RoutingKey: queue}.ID())
		}
		var sources []string
		for _, letter := range s.observe(names).DeadLetterRoutes {
			sources = append(sources, letter.Queue)
		}
		if difference := cmp.Diff(test.want, sources); difference != "" {
			t.Errorf("%s: wanted (-), observed (+):\n%s", name, difference)
		}
	}
}

// Dead letters of a queue that is not named may reach a named queue through an exchange that is not named.
func TestDeadLettersByAnExchangeThatIsNotNamed(t *testing.T) {
	t.Parallel()
	dead := func(name, exchange string, key any) management.QueueItem {
		arguments := map[string]any{"x-dead-letter-exchange": exchange}
		if key != nil {
			arguments["x-dead-letter-routing-key"] = key
		}
		return management.QueueItem{Name: name, Type: "quorum", Durable: true, Arguments: arguments}
	}
	exchange := func(name, kind string) management.ExchangeItem {
		return management.ExchangeItem{Name: name, Type: kind}
	}
	bound := func(source, kind, destination, key string) management.BindingItem {
		return management.BindingItem{Source: source, Destination: destination, DestinationType: kind, RoutingKey: key}
	}
	alternating := management.ExchangeItem{Name: "alternating", Type: "direct", Arguments: map[string]any{"alternate-exchange": "legacy"}}
	for name, test := range map[string]struct {
		exchanges []management.ExchangeItem
		bindings  []management.BindingItem
		other     management.QueueItem
		want      string
	}{
		"a fanout that is bound to it": {
			exchanges: []management.ExchangeItem{exchange("legacy", "fanout")}, bindings: []management.BindingItem{bound("legacy", "queue", "dlq", "")},
			other: dead("other", "legacy", nil), want: "other",
		},
		"by a direct exchange with the binding's key": {
			exchanges: []management.ExchangeItem{exchange("legacy", "direct")}, bindings: []management.BindingItem{bound("legacy", "queue", "dlq", "k")},
			other: dead("other", "legacy", "k"), want: "other",
		},
		"by a direct exchange with the key of each message": {
			exchanges: []management.ExchangeItem{exchange("legacy", "direct")}, bindings: []management.BindingItem{bound("legacy", "queue", "dlq", "k")},
			other: dead("other", "legacy", nil), want: "other",
		},
		"by a direct exchange with another key": {
			exchanges: []management.ExchangeItem{exchange("legacy", "direct")}, bindings: []management.BindingItem{bound("legacy", "queue", "dlq", "k")},
			other: dead("other", "legacy", "l"),
		},
		"by a topic exchange with a key that matches": {
			exchanges: []management.ExchangeItem{exchange("legacy", "topic")}, bindings: []management.BindingItem{bound("legacy", "queue", "dlq", "a.*")},
			other: dead("other", "legacy", "a.b"), want: "other",
		},
		"by a headers exchange, whatever its key": {
			exchanges: []management.ExchangeItem{exchange("legacy", "headers")}, bindings: []management.BindingItem{bound("legacy", "queue", "dlq", "")},
			other: dead("other", "legacy", "k"), want: "other",
		},
		"through two exchanges": {
			exchanges: []management.ExchangeItem{exchange("legacy", "direct"), exchange("first", "fanout")},
			bindings:  []management.BindingItem{bound("legacy", "queue", "dlq", "k"), bound("first", "exchange", "legacy", "")},
			other:     dead("other", "first", "k"), want: "other",
		},
		"through an alternate exchange": {
			exchanges: []management.ExchangeItem{alternating, exchange("legacy", "fanout")}, bindings: []management.BindingItem{bound("legacy", "queue", "dlq", "")},
			other: dead("other", "alternating", "k"), want: "other",
		},
		"the first of its exchanges brings its own dead letters only": {
			exchanges: []management.ExchangeItem{exchange("a", "fanout"), exchange("legacy", "fanout")},
			bindings:  []management.BindingItem{bound("a", "queue", "dlq", ""), bound("legacy", "queue", "dlq", "")},
			other:     dead("other", "legacy", nil), want: "other",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queues := []management.QueueItem{dead("dlq", "a", nil), {Name: "main", Type: "quorum", Durable: true}, test.other}
			s := build(nil, test.exchanges, queues, test.bindings, nil, nil)
			observed := s.observe(vhost.Selection{Exchanges: []string{"dlx"}, Queues: []string{"dlq", "main"}, IncludeDeadLetterSources: true})
			if got := observed.SearchDeadLetters().Into("dlq", nil); got != test.want {
				t.Errorf("%q dead-letters into the queue, want %q", got, test.want)
			}
			if got := observed.SearchDeadLetters().Into("main", nil); got != "" {
				t.Errorf("%q dead-letters into the other queue", got)
			}
		})
	}
}

// Thousands of ConsumerQueues may send their dead letters to one queue, each through its own exchange. One source is enough to retain
// the queue.
func TestDeadLettersByThousandsOfExchanges(t *testing.T) {
	t.Parallel()
	const count = 3000
	var exchanges []management.ExchangeItem
	var queues []management.QueueItem
	var bindings []management.BindingItem
	for number := range count {
		name := fmt.Sprintf("orders-%04d", number)
		exchanges = append(exchanges, management.ExchangeItem{Name: name + ".dlx", Type: "fanout"})
		queues = append(queues, management.QueueItem{Name: name, Type: "quorum", Durable: true, Arguments: map[string]any{"x-dead-letter-exchange": name + ".dlx"}})
		bindings = append(bindings, management.BindingItem{Source: name + ".dlx", Destination: "dlq", DestinationType: "queue"})
	}
	s := build(nil, exchanges, queues, bindings, nil, nil)
	observed := s.observe(vhost.Selection{
		Exchanges: []string{"orders-0000.dlx"}, Queues: []string{"orders-0000", "dlq"}, IncludeDeadLetterSources: true,
	})
	want := []vhost.DeadLetterRoute{{Queue: "orders-0000", Exchange: "orders-0000.dlx"}, {Queue: "orders-0001", Exchange: "orders-0001.dlx"}}
	if difference := cmp.Diff(want, observed.DeadLetterRoutes); difference != "" {
		t.Errorf("wanted (-), observed (+):\n%s", difference)
	}
}
