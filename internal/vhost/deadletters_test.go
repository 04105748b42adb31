package vhost

import (
	"fmt"
	"slices"
	"testing"
)

// waysToQ is a vhost in which exchanges of each type lead to queue q, and some lead to other queues.
func waysToQ() Observed {
	o := Observed{
		Exchanges: map[string]Exchange{
			"fanout": {Type: "fanout"}, "direct": {Type: "direct"}, "topic": {Type: "topic"}, "headers": {Type: "headers"}, "plugin": {Type: "x-random"},
			"chain": {Type: "direct"}, "circle": {Type: "fanout"}, "around": {Type: "fanout"}, "empty": {Type: "fanout"},
			"alternating": {Type: "direct", Arguments: Arguments{"alternate-exchange": "direct"}},
		},
		BindingsTo: map[string][]Binding{}, BindingsFrom: map[string][]Binding{},
	}
	for _, b := range []Binding{
		{Source: "fanout", Destination: "q", RoutingKey: "any"},
		{Source: "direct", Destination: "q", RoutingKey: "k"},
		{Source: "topic", Destination: "q", RoutingKey: "a.*"},
		{Source: "headers", Destination: "q"},
		{Source: "plugin", Destination: "q"},
		{Source: "chain", Destination: "direct", RoutingKey: "other", ToExchange: true},
		{Source: "circle", Destination: "around", ToExchange: true},
		{Source: "around", Destination: "circle", ToExchange: true},
		{Source: "around", Destination: "q", ToExchange: true}, // an exchange of the queue's name
	} {
		o.BindingsFrom[b.Source] = append(o.BindingsFrom[b.Source], b)
		if !b.ToExchange {
			o.BindingsTo[b.Destination] = append(o.BindingsTo[b.Destination], b)
		}
	}
	return o
}

func TestInto(t *testing.T) {
	t.Parallel()
	key := func(text string) *string { return &text }
	for name, test := range map[string]struct {
		from DeadLetterRoute
		want bool
	}{
		"a fanout, with any key":                    {DeadLetterRoute{Exchange: "fanout", RoutingKey: key("x")}, true},
		"a direct exchange with its key":            {DeadLetterRoute{Exchange: "direct", RoutingKey: key("k")}, true},
		"with another key":                          {DeadLetterRoute{Exchange: "direct", RoutingKey: key("K")}, false},
		"with the key of each message":              {DeadLetterRoute{Exchange: "direct"}, true},
		"a topic exchange with a key that matches":  {DeadLetterRoute{Exchange: "topic", RoutingKey: key("a.b")}, true},
		"with one that does not":                    {DeadLetterRoute{Exchange: "topic", RoutingKey: key("a.b.c")}, false},
		"a headers exchange: unknown":               {DeadLetterRoute{Exchange: "headers", RoutingKey: key("k")}, true},
		"an exchange type of a plugin: unknown":     {DeadLetterRoute{Exchange: "plugin", RoutingKey: key("k")}, true},
		"through another exchange":                  {DeadLetterRoute{Exchange: "chain", RoutingKey: key("k")}, true},
		"through another that does not take it":     {DeadLetterRoute{Exchange: "chain", RoutingKey: key("other")}, false},
		"from one exchange to its alternate":        {DeadLetterRoute{Exchange: "alternating", RoutingKey: key("k")}, true},
		"round and round":                           {DeadLetterRoute{Exchange: "circle"}, false},
		"an exchange that leads nowhere":            {DeadLetterRoute{Exchange: "empty"}, false},
		"one that does not exist":                   {DeadLetterRoute{Exchange: "nowhere"}, false},
		"the default exchange with the queue's key": {DeadLetterRoute{RoutingKey: key("q")}, true},
		"with the key of another queue":             {DeadLetterRoute{RoutingKey: key("r")}, false},
		"the default exchange with any key":         {DeadLetterRoute{}, true},
	} {
		o := waysToQ()
		test.from.Queue = "theirs"
		o.DeadLetterRoutes = []DeadLetterRoute{test.from}
		want := ""
		if test.want {
			want = "theirs"
		}
		if got := o.SearchDeadLetters().Into("q", nil); got != want {
			t.Errorf("%s: fed by %q, want %q", name, got, want)
		}
		if got := o.SearchDeadLetters().Into("q", []string{"theirs"}); got != "" {
			t.Errorf("%s: fed by %q, which does not count", name, got)
		}
		test.from.Queue = "q"
		o.DeadLetterRoutes = []DeadLetterRoute{test.from}
		if got := o.SearchDeadLetters().Into("q", nil); got != "" {
			t.Errorf("%s: fed by itself", name)
		}
	}
}

// leadsOn reports whether another binding replaces one that is removed.
func leadsOn(_ string, other Binding) bool { return other.Destination != "foreign" }

// Dead letters need a binding that matches them, unless another binding to a queue certainly matches them too and stays.
func TestNeededByDeadLetters(t *testing.T) {
	t.Parallel()
	key := func(text string) *string { return &text }
	for name, test := range map[string]struct {
		exchange string
		key      *string
		also     Binding
		want     bool
	}{
		"no other": {exchange: "direct", key: key("k"), want: true},
		"another with the same key": {
			exchange: "direct", key: key("k"), also: Binding{Destination: "r", RoutingKey: "k"},
		},
		"another with another key": {
			exchange: "direct", key: key("k"), also: Binding{Destination: "r", RoutingKey: "l"}, want: true,
		},
		"another with the same key, for dead letters of any":  {exchange: "direct", also: Binding{Destination: "r", RoutingKey: "k"}},
		"another with another key, for dead letters of any":   {exchange: "direct", also: Binding{Destination: "r", RoutingKey: "l"}, want: true},
		"another that takes more":                             {exchange: "topic", key: key("a.b"), also: Binding{Destination: "r", RoutingKey: "#"}},
		"another that takes more, for dead letters of any":    {exchange: "topic", also: Binding{Destination: "r", RoutingKey: "#"}, want: true},
		"another of a fanout":                                 {exchange: "fanout", also: Binding{Destination: "r", RoutingKey: "else"}},
		"another that takes the same headers":                 {exchange: "headers", also: Binding{Destination: "r"}},
		"another that takes other headers":                    {exchange: "headers", also: Binding{Destination: "r", Arguments: Arguments{"x-match": "any"}}, want: true},
		"another to an exchange, which may lead nowhere":      {exchange: "fanout", also: Binding{Destination: "empty", ToExchange: true}, want: true},
		"another that is no replacement":                      {exchange: "fanout", also: Binding{Destination: "foreign"}, want: true},
		"another that is leaving as well":                     {exchange: "fanout", also: Binding{Destination: "left"}, want: true},
		"dead letters that do not take it need nothing":       {exchange: "direct", key: key("l")},
		"dead letters that come by way of an exchange: chain": {exchange: "chain", key: key("k"), want: true},
	} {
		o := waysToQ()
		o.DeadLetterRoutes = []DeadLetterRoute{{Queue: "theirs", Exchange: test.exchange, RoutingKey: test.key}}
		source := test.exchange
		if source == "chain" {
			source = "direct"
		}
		binding := o.BindingsFrom[source][0]
		if test.also.Destination != "" {
			test.also.Source = source
			o.BindingsFrom[source] = append(o.BindingsFrom[source], test.also)
		}
		want := ""
		if test.want {
			want = "theirs"
		}
		if got := o.SearchDeadLetters().NeededBy(binding, IDs{binding.ID(): true, (Binding{Source: source, Destination: "left"}).ID(): true}, leadsOn); got != want {
			t.Errorf("%s: needed by %q, want %q", name, got, want)
		}
	}
}

// Queues share a dead-letter exchange, each with its own key. The time of a question grows with the number of queues, not with
// its square.
func BenchmarkInto(b *testing.B) {
	for _, count := range []int{300, 3000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			observed := Observed{
				Exchanges:    map[string]Exchange{"dlx": {Type: TypeDirect}, "events": {Type: TypeTopic}},
				BindingsTo:   map[string][]Binding{"orders": {{Source: "events", Destination: "orders", RoutingKey: "order"}}},
				BindingsFrom: map[string][]Binding{},
			}
			for number := range count {
				key := fmt.Sprint("queue-", number)
				observed.DeadLetterRoutes = append(observed.DeadLetterRoutes, DeadLetterRoute{Queue: key, Exchange: "dlx", RoutingKey: &key})
				observed.BindingsFrom["dlx"] = append(observed.BindingsFrom["dlx"], Binding{Source: "dlx", Destination: "dlq", RoutingKey: key})
			}
			for b.Loop() {
				if found := observed.SearchDeadLetters().Into("orders", nil); found != "" {
					b.Fatalf("%q dead-letters here", found)
				}
			}
		})
	}
}

// A hostile vhost can make a search long: a chain of exchanges, and for each of them a queue that dead-letters to it.
func TestDeadLettersOfALongChain(t *testing.T) {
	t.Parallel()
	const count = 50_000
	chain := Observed{Exchanges: map[string]Exchange{}, BindingsTo: map[string][]Binding{}, BindingsFrom: map[string][]Binding{}}
	for number := range count {
		from, to := fmt.Sprint("x", number), fmt.Sprint("x", number+1)
		chain.Exchanges[from] = Exchange{Type: TypeDirect}
		chain.BindingsFrom[from] = []Binding{{Source: from, Destination: to, ToExchange: true}}
		chain.DeadLetterRoutes = append(chain.DeadLetterRoutes, DeadLetterRoute{Queue: to, Exchange: from})
	}
	aside := Binding{Source: "aside", Destination: "q"}
	chain.BindingsTo["q"], chain.BindingsFrom["aside"] = []Binding{aside}, []Binding{aside}
	if got := chain.SearchDeadLetters().Into("q", nil); got != "" {
		t.Errorf("the chain leads to %q", got)
	}
	if got := chain.SearchDeadLetters().NeededBy(aside, nil, func(string, Binding) bool { return true }); got != "" {
		t.Errorf("the binding is needed by %q", got)
	}
}

// A search with too many steps ends, and finds that the object is needed. All questions together have as many steps as one.
func TestASearchStopsAtItsStepLimit(t *testing.T) {
	t.Parallel()
	const count = 500
	key := "never"
	o := Observed{Exchanges: map[string]Exchange{"x": {Type: TypeDirect}}, BindingsTo: map[string][]Binding{}, BindingsFrom: map[string][]Binding{}}
	for number := range count {
		o.DeadLetterRoutes = append(o.DeadLetterRoutes, DeadLetterRoute{Queue: fmt.Sprint("theirs-", number), Exchange: "x", RoutingKey: &key})
		o.BindingsTo["q"] = append(o.BindingsTo["q"], Binding{Source: "x", Destination: "q", RoutingKey: fmt.Sprint(number)})
	}
	last := Binding{Source: "x", Destination: "last", RoutingKey: key}
	o.BindingsFrom["x"] = slices.Concat(o.BindingsTo["q"], []Binding{last})
	byLast := func(_ string, other Binding) bool { return other.Destination == "last" }
	for name, ask := range map[string]func(*DeadLetterSearch) string{
		"into q":             func(s *DeadLetterSearch) string { return s.Into("q", nil) },
		"needed by the last": func(s *DeadLetterSearch) string { return s.NeededBy(last, nil, byLast) },
	} {
		search := o.SearchDeadLetters()
		if got := ask(search); got != "" || search.steps < count*count {
			t.Errorf("%s: %q after %d steps", name, got, search.steps)
		}
		search.steps = searchLimit - count
		if got := ask(search); got == "" {
			t.Errorf("%s: the search goes on", name)
		}
		if got := ask(search); got != "theirs-0" {
			t.Errorf("%s: another question of this search found %q", name, got)
		}
	}
}

// The patterns of policies can take long, so a search does not evaluate them if the alternates are known.
func TestASearchUsesTheKnownAlternates(t *testing.T) {
	t.Parallel()
	o := waysToQ()
	o.DeadLetterRoutes = []DeadLetterRoute{{Queue: "theirs", Exchange: "empty"}}
	o.Policies = []Policy{{Name: "unrouted", Pattern: ReadPattern("^empty$"), ApplyTo: "exchanges", Definition: Arguments{ArgAlternateExchange: "fanout"}}}
	for name, test := range map[string]struct {
		known map[string][]string
		want  string
	}{
		"unknown": {nil, "theirs"},
		"known":   {map[string][]string{"empty": {"direct"}}, "theirs"},
		"none":    {map[string][]string{}, ""},
	} {
		o.Alternates = test.known
		if got := o.SearchDeadLetters().Into("q", nil); got != test.want {
			t.Errorf("%s: fed by %q, want %q", name, got, test.want)
		}
	}
}

// A route does not evaluate the patterns either, but only for an exchange whose alternates are known.
func TestARouteUsesTheKnownAlternates(t *testing.T) {
	t.Parallel()
	o := waysToQ()
	o.Policies = []Policy{{Name: "unrouted", Pattern: ReadPattern("^empty$"), ApplyTo: "exchanges", Definition: Arguments{ArgAlternateExchange: "fanout"}}}
	for name, test := range map[string]struct {
		known  map[string][]string
		queues []string
		sure   bool
		leads  bool
	}{
		"unknown":          {known: nil, queues: []string{"q"}, leads: true},
		"of another alone": {known: map[string][]string{"fanout": nil}, queues: []string{"q"}, leads: true},
		"known":            {known: map[string][]string{"empty": {"around"}}},
		"none":             {known: map[string][]string{"empty": nil}, sure: true},
	} {
		o.Alternates = test.known
		if queues, sure := o.Route("empty", "k"); !slices.Equal(queues, test.queues) || sure != test.sure {
			t.Errorf("%s: routed to %q, known: %t", name, queues, sure)
		}
		if leads := o.MayLead("empty", "q"); leads != test.leads {
			t.Errorf("%s: may lead to q: %t", name, leads)
		}
	}
}

func TestHasAlternative(t *testing.T) {
	t.Parallel()
	binding := Binding{Source: "x", Destination: "old", RoutingKey: "a"}
	for name, test := range map[string]struct {
		kind  string
		other Binding
		leave bool
		want  bool
	}{
		"the same key":                         {kind: TypeDirect, other: Binding{Source: "x", Destination: "new", RoutingKey: "a"}, want: true},
		"another key":                          {kind: TypeDirect, other: Binding{Source: "x", Destination: "new", RoutingKey: "b"}},
		"another key of a fanout":              {kind: TypeFanout, other: Binding{Source: "x", Destination: "new", RoutingKey: "b"}, want: true},
		"the same key, other arguments":        {kind: "headers", other: Binding{Source: "x", Destination: "new", RoutingKey: "a", Arguments: Arguments{"k": "v"}}},
		"a pattern, whose matches are unknown": {kind: "topic", other: Binding{Source: "x", Destination: "new", RoutingKey: "#"}},
		"to an exchange":                       {kind: TypeFanout, other: Binding{Source: "x", Destination: "y", RoutingKey: "a", ToExchange: true}},
		"no replacement":                       {kind: TypeDirect, other: Binding{Source: "x", Destination: "foreign", RoutingKey: "a"}},
		"leaving, too":                         {kind: TypeDirect, other: Binding{Source: "x", Destination: "new", RoutingKey: "a"}, leave: true},
		"itself":                               {kind: TypeDirect, other: binding},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			observed := Observed{
				Exchanges: map[string]Exchange{"x": {Type: test.kind}}, BindingsFrom: map[string][]Binding{"x": {binding, test.other}},
			}
			leaving := IDs{binding.ID(): true}
			if test.leave {
				leaving[test.other.ID()] = true
			}
			if got := observed.HasAlternative(binding, leaving, func(other Binding) bool { return leadsOn("", other) }); got != test.want {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestDeadLettersAtLeastOnce(t *testing.T) {
	policy := func(priority float64, definition Arguments) Policy {
		return Policy{Name: "p", Pattern: ReadPattern("^orders$"), ApplyTo: "queues", Priority: priority, Definition: definition}
	}
	operator := func(definition Arguments) Policy {
		limiting := policy(0, definition)
		limiting.Operator = true
		return limiting
	}
	unclear := policy(1, Arguments{KeyOverflow: OverflowDropHead})
	unclear.Pattern = ReadPattern("^[[:alpha:].]+$")
	strategy := Arguments{ArgDeadLetterStrategy: StrategyAtLeastOnce}
	both := Arguments{ArgDeadLetterStrategy: StrategyAtLeastOnce, ArgOverflow: OverflowRejectPublish}
	drops, refuses := Arguments{KeyOverflow: OverflowDropHead}, Arguments{KeyOverflow: OverflowRejectPublish}
	for name, test := range map[string]struct {
		arguments Arguments
		policies  []Policy
		want      bool
	}{
		"both arguments":       {arguments: both, want: true},
		"the strategy alone":   {arguments: strategy},
		"overflow alone":       {arguments: Arguments{ArgOverflow: OverflowRejectPublish}},
		"overflow by a policy": {arguments: strategy, policies: []Policy{policy(0, refuses)}, want: true},
		"overflow by a policy that is outranked": {
			arguments: strategy, policies: []Policy{policy(0, refuses), policy(1, Arguments{KeyMaxLength: int64(9)})},
		},
		"a policy drops messages": {arguments: both, policies: []Policy{policy(0, drops)}},
		"a policy drops messages, below one that applies to no quorum queue": {
			arguments: both, policies: []Policy{policy(0, drops), policy(1, Arguments{"queue-mode": "lazy"})},
		},
		"a policy that may match drops messages": {arguments: both, policies: []Policy{unclear}},
		"an operator policy drops messages":      {arguments: both, policies: []Policy{operator(drops)}},
		"an operator policy refuses messages":    {arguments: both, policies: []Policy{operator(refuses)}, want: true},
		"both by a policy": {
			policies: []Policy{policy(0, Arguments{KeyDeadLetterStrategy: StrategyAtLeastOnce, KeyOverflow: OverflowRejectPublish})}, want: true,
		},
		"the strategy of a policy is overridden": {
			arguments: Arguments{ArgDeadLetterStrategy: "at-most-once", ArgOverflow: OverflowRejectPublish},
			policies:  []Policy{policy(0, Arguments{KeyDeadLetterStrategy: StrategyAtLeastOnce})},
		},
	} {
		if got := DeadLettersAtLeastOnce("orders", test.arguments, test.policies); got != test.want {
			t.Errorf("%s: at least once: %t", name, got)
		}
	}
}
