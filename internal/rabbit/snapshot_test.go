package rabbit

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/warren-mq/warren/internal/vhost"
)

// some is a small vhost; each change is made to a copy of it.
func some() *snapshot {
	return build(
		map[string]vhost.Exchange{"amq.topic": {Type: "topic", Durable: true}},
		[]exchangeItem{{Name: "x", Type: "topic", Durable: true}, {Name: "y", Type: "fanout", Durable: true}},
		[]queueItem{
			{Name: "q", Durable: true, Arguments: map[string]any{"x-message-ttl": json.Number("5")}},
			{Name: "r", Durable: true, Type: "quorum"},
		},
		[]bindingItem{
			{Source: "", Destination: "q", DestinationType: "queue", RoutingKey: "q"},
			{Source: "x", Destination: "q", DestinationType: "queue", RoutingKey: "b"},
			{Source: "x", Destination: "q", DestinationType: "queue", RoutingKey: "a"},
			{Source: "x", Destination: "y", DestinationType: "exchange"},
			{Source: "y", Destination: "x", DestinationType: "exchange"},
			{Source: "y", Destination: "y", DestinationType: "exchange", RoutingKey: "to itself"},
			{Source: "y", Destination: "r", DestinationType: "queue", Arguments: map[string]any{"t": map[string]any{"n": json.Number("1")}}},
		},
		[]policyItem{{Name: "p", Pattern: "^q", Priority: 1, ApplyTo: "queues", Definition: map[string]any{"max-length": json.Number("1")}}},
		[]policyItem{{Name: "p", Pattern: "^r", ApplyTo: "all", Definition: map[string]any{"max-length": json.Number("1")}}},
	)
}

func TestDiff(t *testing.T) {
	t.Parallel()
	all := []string{"q", "r"}
	both := []string{"x", "y"} // exchanges that lead to each other
	cases := map[string]struct {
		change                    func(*snapshot)
		queues, exchanges, routes []string
	}{
		"nothing":    {func(*snapshot) {}, nil, nil, nil},
		"queue gone": {func(s *snapshot) { delete(s.queues, "r") }, []string{"r"}, nil, nil},
		"queue new":  {func(s *snapshot) { s.putQueue("z", vhost.Queue{}) }, []string{"z"}, nil, nil},
		"argument": {func(s *snapshot) {
			s.queues["q"] = queueItem{Durable: true, Arguments: map[string]any{"x-message-ttl": 6}}.observed()
		}, []string{"q"}, nil, nil},
		"argument gone": {func(s *snapshot) { s.queues["q"] = queueItem{Durable: true}.observed() }, []string{"q"}, nil, nil},
		"other kind of value": {func(s *snapshot) {
			s.queues["q"] = queueItem{Durable: true, Arguments: map[string]any{"x-message-ttl": "5"}}.observed()
		}, []string{"q"}, nil, nil},
		"queue not durable": {func(s *snapshot) { s.queues["r"] = queueItem{Type: "quorum"}.observed() }, []string{"r"}, nil, nil},
		"exchange gone":     {func(s *snapshot) { delete(s.exchanges, "y") }, nil, []string{"y"}, both},
		"exchange's type":   {func(s *snapshot) { s.exchanges["x"] = vhost.Exchange{Type: "direct", Durable: true} }, nil, []string{"x"}, both},
		"binding new":       {func(s *snapshot) { s.putBinding(vhost.Binding{Source: "amq.topic", Destination: "r"}) }, []string{"r"}, nil, []string{"amq.topic"}},
		"bindings gone":     {func(s *snapshot) { delete(s.bindingsTo, "q"); s.bindingsFrom["x"] = s.bindingsFrom["x"][2:] }, []string{"q"}, nil, both},
		"other routing key": {func(s *snapshot) {
			s.bindingsTo["q"] = slices.Clone(s.bindingsTo["q"])
			s.bindingsTo["q"][0].RoutingKey = "c"
		}, []string{"q"}, nil, nil},
		"other order":       {func(s *snapshot) { slices.Reverse(s.bindingsTo["q"]); slices.Reverse(s.bindingsFrom["x"]) }, nil, nil, nil},
		"nested argument":   {func(s *snapshot) { s.bindingsTo["r"][0].Arguments["t"] = map[string]any{"n": int64(2)} }, []string{"r"}, nil, both},
		"policy gone":       {func(s *snapshot) { s.policies = s.policies[1:] }, []string{"q"}, nil, nil},
		"policy's priority": {func(s *snapshot) { s.policies[0].Priority = 2 }, []string{"q"}, nil, nil},
		"policy's pattern":  {func(s *snapshot) { s.policies[0].Pattern = vhost.ReadPattern("^r") }, all, nil, nil},
		"operator policy":   {func(s *snapshot) { s.policies[1].Definition = nil }, []string{"r"}, nil, nil},
		"pattern of Perl's": {func(s *snapshot) { s.policies[0].Pattern = vhost.ReadPattern("^(?!amq)") }, all, nil, nil},
		"exchanges' policy": {func(s *snapshot) {
			s.policies = append(s.policies, vhost.Policy{Name: "e", Pattern: vhost.ReadPattern(".*"), ApplyTo: "exchanges"})
		}, nil, nil, nil},
		"fence": {func(s *snapshot) {
			s.fences = append(s.fences, vhost.Policy{Name: "warren-fence-1-ABCDEF:a:q", Pattern: vhost.ReadPattern("^q"), ApplyTo: "queues"})
		}, nil, nil, nil},
		"policy, other kind": {func(s *snapshot) { s.policies[0].Operator = true }, []string{"q"}, nil, nil},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fresh := some()
			test.change(fresh)
			for _, sides := range [][2]*snapshot{{some(), fresh}, {fresh, some()}} {
				want := Notice{Queues: test.queues, Exchanges: test.exchanges, Routes: test.routes}
				if difference := cmp.Diff(want, diff(sides[0], sides[1]), cmpopts.EquateEmpty()); difference != "" {
					t.Error(difference)
				}
			}
		})
	}
}

func TestObserveFollowsExchanges(t *testing.T) {
	t.Parallel()
	s := some()
	cases := map[string]struct {
		names                 vhost.Selection
		exchanges, from, into []string
	}{
		"nothing":                           {vhost.Selection{}, nil, nil, nil},
		"what is there only":                {vhost.Selection{Exchanges: []string{"x", "none"}, Queues: []string{"q", "none"}}, []string{"x"}, nil, []string{"q"}},
		"all round":                         {vhost.Selection{FollowFrom: "x"}, []string{"x", "y"}, []string{"x", "y"}, nil},
		"from an exchange without bindings": {vhost.Selection{FollowFrom: "amq.topic"}, []string{"amq.topic"}, nil, nil},
		"from an exchange that is missing":  {vhost.Selection{FollowFrom: "none"}, nil, nil, nil},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			observed := s.observe(test.names)
			for what, sides := range map[string][2][]string{
				"exchanges": {keys(observed.Exchanges), test.exchanges},
				"from":      {keys(observed.BindingsFrom), test.from},
				"to":        {keys(observed.BindingsTo), test.into},
			} {
				if !slices.Equal(sides[0], sides[1]) {
					t.Errorf("%s: %v, should be %v", what, sides[0], sides[1])
				}
			}
			if len(observed.Policies) != 2 {
				t.Errorf("policies: %+v", observed.Policies)
			}
		})
	}
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// What was given out stays as it was, whatever is written through later.
func TestObservedDoesNotChange(t *testing.T) {
	t.Parallel()
	var s store
	s.replace(some(), "")
	names := vhost.Selection{Exchanges: []string{"x"}, Queues: []string{"q", "new"}, FollowFrom: "x"}
	observed, _ := s.observe(names)
	before := some().observe(names)
	var together sync.WaitGroup
	for i := range 20 {
		together.Go(func() {
			s.write(func(s *snapshot) bool {
				return s.putBinding(vhost.Binding{Source: "x", Destination: "q", RoutingKey: fmt.Sprint(i)})
			})
			s.write(func(s *snapshot) bool { return s.putQueue("new", vhost.Queue{}) })
			s.observe(names)
		})
	}
	together.Wait()
	if difference := cmp.Diff(before, observed); difference != "" {
		t.Error(difference)
	}
	if now, _ := s.observe(names); len(now.BindingsTo["q"]) != 22 || len(now.Queues) != 2 {
		t.Errorf("%+v", now)
	}
}

// An ETag is trusted when it came with two answers one after the other, and only as long as the snapshot is what it
// stands for.
func TestStoreKeepsTheETagOfWhatItHas(t *testing.T) {
	t.Parallel()
	declare := func(name string) write {
		return func(s *snapshot) bool { return s.putQueue(name, vhost.Queue{}) }
	}
	look := func(s *store, etag string, meanwhile ...write) {
		s.begin()
		for _, w := range meanwhile {
			s.write(w)
		}
		s.replace(some(), etag)
	}
	cases := map[string]struct {
		after func(*store)
		want  string
	}{
		"two looks":                    {func(*store) {}, "first"},
		"a look without news":          {func(s *store) { s.begin(); s.end() }, "first"},
		"another ETag":                 {func(s *store) { look(s, "second") }, ""},
		"another ETag twice":           {func(s *store) { look(s, "second"); look(s, "second") }, "second"},
		"a write that changes nothing": {func(s *store) { s.write(declare("q")) }, "first"},
		"a write":                      {func(s *store) { s.write(declare("new")) }, ""},
		"a write and one look":         {func(s *store) { s.write(declare("new")); look(s, "first") }, ""},
		"a write and two looks":        {func(s *store) { s.write(declare("new")); look(s, "second"); look(s, "second") }, ""},
		"a write and three looks":      {func(s *store) { s.write(declare("new")); look(s, "second"); look(s, "second"); look(s, "second") }, "second"},
		"a write during a look":        {func(s *store) { look(s, "first", declare("new")) }, ""},
		"a write that the look saw":    {func(s *store) { look(s, "first", declare("q")) }, "first"},
		"a write during no news":       {func(s *store) { s.begin(); s.write(declare("new")); s.end() }, ""},
		"a reconnect":                  {func(s *store) { s.forget() }, ""},
		"a reconnect and one look":     {func(s *store) { s.forget(); look(s, "first") }, ""},
		"a broker without ETags":       {func(s *store) { look(s, ""); look(s, "") }, ""},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s store
			look(&s, "first")
			look(&s, "first")
			test.after(&s)
			if etag := s.begin(); etag != test.want {
				t.Errorf("%q, should be %q", etag, test.want)
			}
		})
	}
}

// large answers the definitions of a vhost with 60,000 objects: 20,000 queues, 10,000 exchanges, 30,000 bindings.
func large(b *testing.B) (*management, *httptest.Server) {
	b.Helper()
	definitions := map[string][]any{}
	for i := range 20000 {
		queue, exchange := fmt.Sprintf("service.orders.%05d", i), fmt.Sprintf("exchange.%05d", i/2)
		definitions["queues"] = append(definitions["queues"], map[string]any{
			"name": queue, "durable": true, "type": "quorum", "arguments": map[string]any{
				"x-queue-type": "quorum", "x-dead-letter-exchange": queue + ".dlx", "x-dead-letter-strategy": "at-least-once",
				"x-overflow": "reject-publish", "x-message-ttl": 30000,
			},
		})
		definitions["bindings"] = append(definitions["bindings"], map[string]any{
			"source": exchange, "destination": queue, "destination_type": "queue", "routing_key": queue, "arguments": map[string]any{},
		})
		if i%2 == 0 {
			definitions["exchanges"] = append(definitions["exchanges"], map[string]any{"name": exchange, "type": "topic", "durable": true})
			definitions["bindings"] = append(definitions["bindings"], map[string]any{
				"source": exchange, "destination": queue, "destination_type": "queue", "routing_key": "#", "arguments": map[string]any{"x-match": "all"},
			})
		}
	}
	text, err := json.Marshal(definitions)
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }))
	b.Cleanup(server.Close)
	config := Config{AMQPURI: "amqp://localhost", ManagementURI: server.URL, VHost: "/", ResyncInterval: time.Second, Limits: NewLimits(0)}
	to, err := config.parse()
	if err != nil {
		b.Fatal(err)
	}
	return newManagement(config.managementOptions(to, time.Minute, 1)), server
}

// BenchmarkLook is a look at 60,000 objects in which one queue has changed: request, decoding, comparing, notice.
func BenchmarkLook(b *testing.B) {
	management, _ := large(b)
	var s store
	for b.Loop() {
		s.begin()
		fresh, etag, err := readDefinitions(b.Context(), management, "", nil)
		if err != nil {
			b.Fatal(err)
		}
		fresh.queues["service.orders.00007"] = vhost.Queue{}
		s.replace(fresh, etag)
		s.write(func(s *snapshot) bool { delete(s.queues, "service.orders.00007"); return true })
	}
}

// BenchmarkDiff is the comparing alone.
func BenchmarkDiff(b *testing.B) {
	management, _ := large(b)
	old, _, err := readDefinitions(b.Context(), management, "", nil)
	if err != nil {
		b.Fatal(err)
	}
	fresh, _, err := readDefinitions(b.Context(), management, "", nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		diff(old, fresh)
	}
}

// BenchmarkObserve is one ConsumerQueue's view of 60,000 objects, all cores at once.
func BenchmarkObserve(b *testing.B) {
	management, _ := large(b)
	fresh, _, err := readDefinitions(b.Context(), management, "", nil)
	if err != nil {
		b.Fatal(err)
	}
	var s store
	s.replace(fresh, "")
	names := vhost.Selection{
		Exchanges: []string{"exchange.00001"}, FollowFrom: "exchange.00002",
		Queues: []string{"service.orders.00007", "service.orders.00008", "service.orders.00009", "service.orders.00010"},
	}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.observe(names)
		}
	})
}

func TestAnETagIsTrustedOnceTwoAnswersCarriedIt(t *testing.T) {
	t.Parallel()
	s := &store{}
	answer := func(etag string) {
		s.begin()
		s.replace(newSnapshot(), etag)
	}
	for i, step := range []struct{ answer, want string }{
		{`"1"`, ""}, {`"1"`, `"1"`}, {`"2"`, ""}, {`"3"`, ""}, {`"3"`, `"3"`}, {"", ""}, {"", ""},
	} {
		answer(step.answer)
		if got := s.begin(); got != step.want {
			t.Errorf("step %d: after ETag %s the next look has If-None-Match %q, want %q", i, step.answer, got, step.want)
		}
	}
	answer(`"4"`)
	s.write(func(*snapshot) bool { return true })
	answer(`"4"`)
	if got := s.begin(); got != "" {
		t.Errorf("an ETag %s from before a change of our own was kept", got)
	}
}

// What is missing for the first time stays until the vhost was read once more.
func TestMissingOnceIsNotGone(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		lose func(*snapshot)
		kept bool
	}{
		"nothing":  {func(*snapshot) {}, false},
		"queue":    {func(s *snapshot) { delete(s.queues, "r") }, true},
		"exchange": {func(s *snapshot) { delete(s.exchanges, "y") }, true},
		"binding": {func(s *snapshot) {
			s.bindingsFrom["x"], s.bindingsTo["q"] = slices.Delete(s.bindingsFrom["x"], 1, 2), s.bindingsTo["q"][1:]
		}, true},
		"binding with arguments": {func(s *snapshot) {
			s.bindingsFrom["y"] = s.bindingsFrom["y"][1:]
			delete(s.bindingsTo, "r")
		}, true},
		"policy":          {func(s *snapshot) { s.policies = s.policies[1:] }, true},
		"operator policy": {func(s *snapshot) { s.policies = s.policies[:1] }, true},
		"everything": {func(s *snapshot) {
			mine := s.bindingsTo["mine"][0]
			*s = *newSnapshot()
			s.queues["mine"] = vhost.Queue{Exclusive: true}
			s.addBinding(mine)
		}, true},
		"another cluster": {func(s *snapshot) { *s = *newSnapshot(); s.cluster = "another" }, false},
		"exclusive queue": {func(s *snapshot) {
			delete(s.queues, "mine")
			delete(s.bindingsTo, "mine")
			s.bindingsFrom["x"] = s.bindingsFrom["x"][1:]
		}, false},
	}
	vh := func() *snapshot {
		s := some()
		s.queues["mine"] = vhost.Queue{Exclusive: true}
		s.addBinding(vhost.Binding{Source: "x", Destination: "mine", RoutingKey: "c"})
		s.sort()
		return s
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lacking := func() *snapshot {
				s := vh()
				test.lose(s)
				return s
			}
			var s store
			s.replace(vh(), "")
			_, again := s.replace(lacking(), "")
			want := lacking()
			if test.kept {
				want = vh()
			}
			if again != test.kept {
				t.Errorf("is to be read again: %v", again)
			}
			if difference := cmp.Diff(want, s.current, compareWhole); difference != "" {
				t.Errorf("after one reading, wanted (-), is (+):\n%s", difference)
			}
			if _, again := s.replace(lacking(), ""); again {
				t.Error("is to be read a third time")
			}
			if difference := cmp.Diff(lacking(), s.current, compareWhole); difference != "" {
				t.Errorf("after two readings, wanted (-), is (+):\n%s", difference)
			}
		})
	}
}

// What is written through does not change what was given out.
func TestRemovingLeavesWhatWasObserved(t *testing.T) {
	t.Parallel()
	var s store
	s.replace(some(), "")
	names := vhost.Selection{Exchanges: []string{"x"}, Queues: []string{"q", "r"}, FollowFrom: "x"}
	observed, _ := s.observe(names)
	want := some().observe(names)
	for _, w := range []write{
		func(s *snapshot) bool {
			return s.dropBinding(vhost.Binding{Source: "x", Destination: "q", RoutingKey: "a"})
		},
		func(s *snapshot) bool { return s.dropQueue("q") },
		func(s *snapshot) bool { return s.dropExchange("y") },
	} {
		s.write(w)
	}
	if difference := cmp.Diff(want, observed); difference != "" {
		t.Error(difference)
	}
	now, _ := s.observe(names)
	if len(now.Queues) != 1 || len(now.BindingsTo)+len(now.BindingsFrom) != 0 || len(now.Exchanges) != 1 {
		t.Errorf("%+v", now)
	}
}

// build makes a snapshot of what a broker says.
func build(builtin map[string]vhost.Exchange, exchanges []exchangeItem, queues []queueItem, bindings []bindingItem,
	policies, operator []policyItem,
) *snapshot {
	management := &management{Options: Options{Limits: NewLimits(0)}}
	reader := newSnapshotReader(management.Limits, builtin)
	addAll(reader.addExchange, exchanges)
	addAll(reader.addQueue, queues)
	addAll(reader.addBinding, bindings)
	addAll(reader.addPolicy, policies)
	addAll(reader.addOperatorPolicy, operator)
	fresh, _, _ := reader.end("", nil)
	return fresh
}

func addAll[T any](add func(T) int64, items []T) {
	for _, item := range items {
		add(item)
	}
}

// compareWhole compares snapshots, but for what they cost and what is under way.
var compareWhole = cmp.Options{cmp.AllowUnexported(snapshot{}), cmpopts.IgnoreFields(snapshot{}, "room", "underWay")}
