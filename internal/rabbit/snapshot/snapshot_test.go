package snapshot

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// some returns a new snapshot of a small vhost.
func some() *Snapshot {
	return build(
		map[string]vhost.Exchange{"amq.topic": {Type: "topic", Durable: true}},
		[]management.ExchangeItem{{Name: "x", Type: "topic", Durable: true}, {Name: "y", Type: "fanout", Durable: true}},
		[]management.QueueItem{
			{Name: "q", Durable: true, Arguments: map[string]any{"x-message-ttl": json.Number("5")}},
			{Name: "r", Durable: true, Type: "quorum"},
		},
		[]management.BindingItem{
			{Source: "", Destination: "q", DestinationType: "queue", RoutingKey: "q"},
			{Source: "x", Destination: "q", DestinationType: "queue", RoutingKey: "b"},
			{Source: "x", Destination: "q", DestinationType: "queue", RoutingKey: "a"},
			{Source: "x", Destination: "y", DestinationType: "exchange"},
			{Source: "y", Destination: "x", DestinationType: "exchange"},
			{Source: "y", Destination: "y", DestinationType: "exchange", RoutingKey: "to itself"},
			{Source: "y", Destination: "r", DestinationType: "queue", Arguments: map[string]any{"t": map[string]any{"n": json.Number("1")}}},
		},
		[]management.PolicyItem{{Name: "p", Pattern: "^q", Priority: 1, ApplyTo: "queues", Definition: map[string]any{"max-length": json.Number("1")}}},
		[]management.PolicyItem{{Name: "p", Pattern: "^r", ApplyTo: "all", Definition: map[string]any{"max-length": json.Number("1")}}},
	)
}

func TestDiff(t *testing.T) {
	t.Parallel()
	all := []string{"q", "r"}
	both := []string{"x", "y"} // exchanges that lead to each other
	alternate := func(pattern string) vhost.Policy {
		return vhost.Policy{
			Name: "e", Pattern: vhost.ReadPattern(pattern), ApplyTo: "exchanges", Definition: vhost.Arguments{vhost.ArgAlternateExchange: "none"},
		}
	}
	cases := map[string]struct {
		change                    func(*Snapshot)
		queues, exchanges, routes []string
	}{
		"nothing":    {func(*Snapshot) {}, nil, nil, nil},
		"queue gone": {func(s *Snapshot) { delete(s.Queues, "r") }, []string{"r"}, nil, nil},
		"queue new":  {func(s *Snapshot) { s.PutQueue("z", vhost.Queue{}) }, []string{"z"}, nil, nil},
		"argument": {func(s *Snapshot) {
			s.Queues["q"] = management.QueueItem{Durable: true, Arguments: map[string]any{"x-message-ttl": 6}}.Observed()
		}, []string{"q"}, nil, nil},
		"argument gone": {func(s *Snapshot) { s.Queues["q"] = management.QueueItem{Durable: true}.Observed() }, []string{"q"}, nil, nil},
		"other kind of value": {func(s *Snapshot) {
			s.Queues["q"] = management.QueueItem{Durable: true, Arguments: map[string]any{"x-message-ttl": "5"}}.Observed()
		}, []string{"q"}, nil, nil},
		"queue not durable": {func(s *Snapshot) { s.Queues["r"] = management.QueueItem{Type: "quorum"}.Observed() }, []string{"r"}, nil, nil},
		"exchange gone":     {func(s *Snapshot) { delete(s.exchanges, "y") }, nil, []string{"y"}, both},
		"exchange's type":   {func(s *Snapshot) { s.exchanges["x"] = vhost.Exchange{Type: "direct", Durable: true} }, nil, []string{"x"}, both},
		"binding new":       {func(s *Snapshot) { s.PutBinding(vhost.Binding{Source: "amq.topic", Destination: "r"}) }, []string{"r"}, nil, []string{"amq.topic"}},
		"bindings gone":     {func(s *Snapshot) { delete(s.bindingsTo, "q"); s.BindingsFrom["x"] = s.BindingsFrom["x"][2:] }, []string{"q"}, nil, both},
		"other routing key": {func(s *Snapshot) {
			s.bindingsTo["q"] = slices.Clone(s.bindingsTo["q"])
			s.bindingsTo["q"][0].RoutingKey = "c"
		}, []string{"q"}, nil, nil},
		"other order":       {func(s *Snapshot) { slices.Reverse(s.bindingsTo["q"]); slices.Reverse(s.BindingsFrom["x"]) }, nil, nil, nil},
		"nested argument":   {func(s *Snapshot) { s.bindingsTo["r"][0].Arguments["t"] = map[string]any{"n": int64(2)} }, []string{"r"}, nil, both},
		"policy gone":       {func(s *Snapshot) { s.Policies = s.Policies[1:] }, []string{"q"}, nil, nil},
		"policy's priority": {func(s *Snapshot) { s.Policies[0].Priority = 2 }, []string{"q"}, nil, nil},
		"policy's pattern":  {func(s *Snapshot) { s.Policies[0].Pattern = vhost.ReadPattern("^r") }, all, nil, nil},
		"operator policy":   {func(s *Snapshot) { s.Policies[1].Definition = nil }, []string{"r"}, nil, nil},
		"pattern of Perl's": {func(s *Snapshot) { s.Policies[0].Pattern = vhost.ReadPattern("^(?!amq)") }, all, nil, nil},
		"exchanges' policy": {func(s *Snapshot) {
			s.Policies = append(s.Policies, vhost.Policy{Name: "e", Pattern: vhost.ReadPattern(".*"), ApplyTo: "exchanges"})
		}, nil, nil, nil},
		"alternate exchange by a policy": {func(s *Snapshot) { s.Policies = append(s.Policies, alternate("^amq")) }, nil, nil, []string{"amq.topic"}},
		"alternate exchange of none":     {func(s *Snapshot) { s.Policies = append(s.Policies, alternate("^other")) }, nil, nil, nil},
		"fence": {func(s *Snapshot) {
			s.Fences = append(s.Fences, vhost.Policy{Name: "warren-fence-1-ABCDEF:a:q", Pattern: vhost.ReadPattern("^q"), ApplyTo: "queues"})
		}, nil, nil, nil},
		"policy, other kind": {func(s *Snapshot) { s.Policies[0].Operator = true }, []string{"q"}, nil, nil},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fresh := some()
			test.change(fresh)
			for _, sides := range [][2]*Snapshot{{some(), fresh}, {fresh, some()}} {
				want := Notice{Queues: test.queues, Exchanges: test.exchanges, Routes: test.routes}
				if difference := cmp.Diff(want, Changes(sides[0], sides[1]), cmpopts.EquateEmpty()); difference != "" {
					t.Error(difference)
				}
			}
		})
	}
}

func TestDifferenceOf(t *testing.T) {
	t.Parallel()
	binding := vhost.Binding{Source: "x", Destination: "r", RoutingKey: "c", Arguments: vhost.Arguments{"n": int64(1)}}
	bindingID := vhost.ID{Kind: vhost.KindBinding, Source: "x", Destination: "r", RoutingKey: "c"}
	for name, test := range map[string]struct {
		change           func(*Snapshot)
		created, deleted Difference
	}{
		"nothing":  {func(*Snapshot) {}, Difference{}, Difference{}},
		"queue":    {func(s *Snapshot) { s.PutQueue("z", vhost.Queue{}) }, Difference{Created: []vhost.ID{vhost.QueueID("z")}}, Difference{Deleted: []vhost.ID{vhost.QueueID("z")}}},
		"exchange": {func(s *Snapshot) { s.PutExchange("z", vhost.Exchange{}) }, Difference{Created: []vhost.ID{vhost.ExchangeID("z")}}, Difference{Deleted: []vhost.ID{vhost.ExchangeID("z")}}},
		"binding":  {func(s *Snapshot) { s.PutBinding(binding) }, Difference{Created: []vhost.ID{bindingID}}, Difference{Deleted: []vhost.ID{bindingID}}},
		"policy": {
			func(s *Snapshot) { s.Policies = append(s.Policies, vhost.Policy{Name: "z"}) },
			Difference{Policies: []string{"z"}},
			Difference{Policies: []string{"z"}},
		},
		"another cluster": {func(s *Snapshot) { s.PutQueue("z", vhost.Queue{}); s.Cluster = "green" }, Difference{}, Difference{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with := some()
			test.change(with)
			if difference := cmp.Diff(test.created, differenceOf(some(), with)); difference != "" {
				t.Errorf("created (-want +got):\n%s", difference)
			}
			if difference := cmp.Diff(test.deleted, differenceOf(with, some())); difference != "" {
				t.Errorf("deleted (-want +got):\n%s", difference)
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
		"existing objects only":             {vhost.Selection{Exchanges: []string{"x", "none"}, Queues: []string{"q", "none"}}, []string{"x"}, nil, []string{"q"}},
		"all round":                         {vhost.Selection{FollowFrom: "x"}, []string{"x", "y"}, []string{"x", "y"}, nil},
		"from an exchange without bindings": {vhost.Selection{FollowFrom: "amq.topic"}, []string{"amq.topic"}, nil, nil},
		"one exchange alone":                {vhost.Selection{BindingsFrom: []string{"x", "none"}}, nil, []string{"x"}, nil},
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

// Objects that a caller has observed do not change when later changes are applied.
func TestObservedDoesNotChange(t *testing.T) {
	t.Parallel()
	var s Store
	s.Replace(some(), "")
	names := vhost.Selection{Exchanges: []string{"x"}, Queues: []string{"q", "new"}, FollowFrom: "x"}
	observed, _ := s.Observe(names)
	before := some().observe(names)
	var together sync.WaitGroup
	for i := range 20 {
		together.Go(func() {
			s.Write(Write{Apply: func(s *Snapshot) bool {
				return s.PutBinding(vhost.Binding{Source: "x", Destination: "q", RoutingKey: fmt.Sprint(i)})
			}})
			s.Write(Write{Apply: func(s *Snapshot) bool { return s.PutQueue("new", vhost.Queue{}) }})
			s.Observe(names)
		})
	}
	together.Wait()
	if difference := cmp.Diff(before, observed); difference != "" {
		t.Error(difference)
	}
	if now, _ := s.Observe(names); len(now.BindingsTo["q"]) != 22 || len(now.Queues) != 2 {
		t.Errorf("%+v", now)
	}
}

// An ETag is trusted once two successive answers carried it, until a change is applied to the snapshot.
func TestStoreKeepsTheETagOfTheSnapshot(t *testing.T) {
	t.Parallel()
	declare := func(name string) Write {
		return Write{Apply: func(s *Snapshot) bool { return s.PutQueue(name, vhost.Queue{}) }}
	}
	refresh := func(s *Store, etag string, meanwhile ...Write) {
		s.Begin()
		for _, w := range meanwhile {
			s.Write(w)
		}
		s.Replace(some(), etag)
	}
	cases := map[string]struct {
		after func(*Store)
		want  string
	}{
		"two refreshes":                {func(*Store) {}, "first"},
		"a refresh without changes":    {func(s *Store) { s.Begin(); s.End() }, "first"},
		"another ETag":                 {func(s *Store) { refresh(s, "second") }, ""},
		"another ETag twice":           {func(s *Store) { refresh(s, "second"); refresh(s, "second") }, "second"},
		"a write that changes nothing": {func(s *Store) { s.Write(declare("q")) }, "first"},
		"a write":                      {func(s *Store) { s.Write(declare("new")) }, ""},
		"a write and one refresh":      {func(s *Store) { s.Write(declare("new")); refresh(s, "first") }, ""},
		"a write and two refreshes":    {func(s *Store) { s.Write(declare("new")); refresh(s, "second"); refresh(s, "second") }, ""},
		"a write and three refreshes": {func(s *Store) {
			s.Write(declare("new"))
			refresh(s, "second")
			refresh(s, "second")
			refresh(s, "second")
		}, "second"},
		"a write during a refresh":                 {func(s *Store) { refresh(s, "first", declare("new")) }, ""},
		"a write that the refresh saw":             {func(s *Store) { refresh(s, "first", declare("q")) }, "first"},
		"a write during a refresh without changes": {func(s *Store) { s.Begin(); s.Write(declare("new")); s.End() }, ""},
		"a reconnect":                              {func(s *Store) { s.Forget() }, ""},
		"a reconnect and one refresh":              {func(s *Store) { s.Forget(); refresh(s, "first") }, ""},
		"a broker without ETags":                   {func(s *Store) { refresh(s, ""); refresh(s, "") }, ""},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s Store
			refresh(&s, "first")
			refresh(&s, "first")
			test.after(&s)
			if etag := s.Begin(); etag != test.want {
				t.Errorf("%q, should be %q", etag, test.want)
			}
		})
	}
}

// large serves the definitions of a vhost with 60,000 objects: 20,000 queues, 10,000 exchanges, 30,000 bindings.
func large(b *testing.B) (*management.Client, *httptest.Server) {
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
	uri, err := url.Parse(server.URL)
	if err != nil {
		b.Fatal(err)
	}
	return management.NewClient(management.Options{URI: uri, TLS: &tls.Config{MinVersion: tls.VersionTLS12}, VHost: "/", Timeout: time.Minute, Connections: 1}), server
}

// BenchmarkRefresh measures a refresh of 60,000 objects after one queue has changed: request, decoding, comparison and notice.
func BenchmarkRefresh(b *testing.B) {
	api, _ := large(b)
	var s Store
	for b.Loop() {
		s.Begin()
		fresh, etag, err := ReadDefinitions(b.Context(), api, "", nil)
		if err != nil {
			b.Fatal(err)
		}
		fresh.Queues["service.orders.00007"] = vhost.Queue{}
		s.Replace(fresh, etag)
		s.Write(Write{Apply: func(s *Snapshot) bool { delete(s.Queues, "service.orders.00007"); return true }})
	}
}

// BenchmarkDiff measures only the comparison.
func BenchmarkDiff(b *testing.B) {
	api, _ := large(b)
	old, _, err := ReadDefinitions(b.Context(), api, "", nil)
	if err != nil {
		b.Fatal(err)
	}
	fresh, _, err := ReadDefinitions(b.Context(), api, "", nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		Changes(old, fresh)
	}
}

// BenchmarkObserve measures one ConsumerQueue's selection of 60,000 objects, on all cores in parallel.
func BenchmarkObserve(b *testing.B) {
	api, _ := large(b)
	fresh, _, err := ReadDefinitions(b.Context(), api, "", nil)
	if err != nil {
		b.Fatal(err)
	}
	var s Store
	s.Replace(fresh, "")
	names := vhost.Selection{
		Exchanges: []string{"exchange.00001"}, FollowFrom: "exchange.00002",
		Queues: []string{"service.orders.00007", "service.orders.00008", "service.orders.00009", "service.orders.00010"},
	}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s.Observe(names)
		}
	})
}

func TestAnETagIsTrustedOnceTwoAnswersCarriedIt(t *testing.T) {
	t.Parallel()
	s := &Store{}
	answer := func(etag string) {
		s.Begin()
		s.Replace(New(), etag)
	}
	for i, step := range []struct{ answer, want string }{
		{`"1"`, ""}, {`"1"`, `"1"`}, {`"2"`, ""}, {`"3"`, ""}, {`"3"`, `"3"`}, {"", ""}, {"", ""},
	} {
		answer(step.answer)
		if got := s.Begin(); got != step.want {
			t.Errorf("step %d: after ETag %s the next refresh has If-None-Match %q, want %q", i, step.answer, got, step.want)
		}
	}
	answer(`"4"`)
	s.Write(Write{Apply: func(*Snapshot) bool { return true }})
	answer(`"4"`)
	if got := s.Begin(); got != "" {
		t.Errorf("an ETag %s from before a change of our own was kept", got)
	}
}

// An object that a refresh misses stays in the snapshot until a second refresh misses it, too.
func TestMissingOnceIsNotGone(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		lose func(*Snapshot)
		kept bool
	}{
		"nothing":  {func(*Snapshot) {}, false},
		"queue":    {func(s *Snapshot) { delete(s.Queues, "r") }, true},
		"exchange": {func(s *Snapshot) { delete(s.exchanges, "y") }, true},
		"binding": {func(s *Snapshot) {
			s.BindingsFrom["x"], s.bindingsTo["q"] = slices.Delete(s.BindingsFrom["x"], 1, 2), s.bindingsTo["q"][1:]
		}, true},
		"binding with arguments": {func(s *Snapshot) {
			s.BindingsFrom["y"] = s.BindingsFrom["y"][1:]
			delete(s.bindingsTo, "r")
		}, true},
		"policy":          {func(s *Snapshot) { s.Policies = s.Policies[1:] }, true},
		"operator policy": {func(s *Snapshot) { s.Policies = s.Policies[:1] }, true},
		"everything": {func(s *Snapshot) {
			mine := s.bindingsTo["mine"][0]
			*s = *New()
			s.Queues["mine"] = vhost.Queue{Exclusive: true}
			s.addBinding(mine)
		}, true},
		"another cluster": {func(s *Snapshot) { *s = *New(); s.Cluster = "another" }, false},
		"exclusive queue": {func(s *Snapshot) {
			delete(s.Queues, "mine")
			delete(s.bindingsTo, "mine")
			s.BindingsFrom["x"] = s.BindingsFrom["x"][1:]
		}, false},
	}
	vh := func() *Snapshot {
		s := some()
		s.Queues["mine"] = vhost.Queue{Exclusive: true}
		s.addBinding(vhost.Binding{Source: "x", Destination: "mine", RoutingKey: "c"})
		s.sort()
		return s
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lacking := func() *Snapshot {
				s := vh()
				test.lose(s)
				return s
			}
			var s Store
			s.Replace(vh(), "")
			_, _, again := s.Replace(lacking(), "")
			want := lacking()
			if test.kept {
				want = vh()
			}
			if again != test.kept {
				t.Errorf("Replace asks for another refresh: %v", again)
			}
			if difference := cmp.Diff(want, s.Current, compareWhole); difference != "" {
				t.Errorf("after one refresh, wanted (-), is (+):\n%s", difference)
			}
			if _, _, again := s.Replace(lacking(), ""); again {
				t.Error("Replace asks for a third refresh")
			}
			if difference := cmp.Diff(lacking(), s.Current, compareWhole); difference != "" {
				t.Errorf("after two refreshes, wanted (-), is (+):\n%s", difference)
			}
		})
	}
}

// Removing an object from a snapshot does not change slices that a caller has observed.
func TestRemovingLeavesWhatWasObserved(t *testing.T) {
	t.Parallel()
	var s Store
	s.Replace(some(), "")
	names := vhost.Selection{Exchanges: []string{"x"}, Queues: []string{"q", "r"}, FollowFrom: "x"}
	observed, _ := s.Observe(names)
	want := some().observe(names)
	for _, drop := range []func(*Snapshot) bool{
		func(s *Snapshot) bool {
			return s.DropBinding(vhost.Binding{Source: "x", Destination: "q", RoutingKey: "a"})
		},
		func(s *Snapshot) bool { return s.DropQueue("q") },
		func(s *Snapshot) bool { return s.DropExchange("y") },
	} {
		s.Write(Write{Apply: drop})
	}
	if difference := cmp.Diff(want, observed); difference != "" {
		t.Error(difference)
	}
	now, _ := s.Observe(names)
	if len(now.Queues) != 1 || len(now.BindingsTo)+len(now.BindingsFrom) != 0 || len(now.Exchanges) != 1 {
		t.Errorf("%+v", now)
	}
}

// build makes a snapshot of items of the management API.
func build(builtin map[string]vhost.Exchange, exchanges []management.ExchangeItem, queues []management.QueueItem, bindings []management.BindingItem,
	policies, operator []management.PolicyItem,
) *Snapshot {
	reader := newSnapshotReader(management.NewLimits(0), builtin)
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

// compareWhole compares snapshots except their memory, the fences under way, the index of dead letters and the cache of alternates.
var compareWhole = cmp.Options{cmp.AllowUnexported(Snapshot{}), cmpopts.IgnoreFields(Snapshot{}, "Room", "UnderWay", "deadLetters", "alternates")}

// Observe shows no fence after Warren has removed its policy, although no refresh has shown that.
func TestAFenceThatIsTakenDownIsNotObserved(t *testing.T) {
	t.Parallel()
	const name = "warren-fence-1-ABCDEF:a:q"
	fresh := New()
	fresh.Fences = []vhost.Policy{{Name: name, Pattern: vhost.ReadPattern("^q")}}
	store := Store{}
	store.Replace(fresh, "")
	fences := func() int {
		observed, _ := store.Observe(vhost.Selection{})
		return len(observed.Fences)
	}
	if before := fences(); before != 1 {
		t.Fatalf("%d fences before", before)
	}
	store.Write(Write{Apply: func(known *Snapshot) bool { return known.DropFence(name) }})
	if after := fences(); after != 0 {
		t.Errorf("%d fences after", after)
	}
}
