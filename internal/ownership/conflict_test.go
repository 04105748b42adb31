package ownership_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/conformance"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// candidate returns a ConsumerQueue with a name and a spec, created at noon, that holds nothing.
func candidate(t testing.TB, name, spec string) ownership.Candidate {
	t.Helper()
	cq := topologytest.ConsumerQueue(t, spec)
	cq.Name = name
	topo, err := topology.Desired(cq, topologytest.V43)
	if err != nil {
		t.Fatal(err)
	}
	return ownership.Candidate{Name: "shop/" + name, Created: noon, Desired: topo}
}

// holding returns a candidate that holds everything it specifies.
func holding(t testing.TB, c ownership.Candidate) ownership.Candidate {
	t.Helper()
	c.Owned = topologytest.Owned(c.Desired)
	return c
}

func createdLater(c ownership.Candidate) ownership.Candidate {
	c.Created = c.Created.Add(time.Second)
	return c
}

// The advice at the end of a conflict.
const (
	rename        = "; choose another name in one of the two ConsumerQueues"
	renameOrShare = rename + ", or use the same settings to share it"
	reroute       = "; choose another exchange or routing key in one of the two ConsumerQueues"
)

// Each case expects the result for b. Both candidates are new, and b is second by name: it loses every conflict.
func TestFindConflict(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		a, b string
		want string // about a
	}{
		"nothing in common": {a: `{}`, b: `{}`},
		"the same main queue, even with the same settings": {
			a: `{queue: {name: work}}`, b: `{queue: {name: work}}`, want: `has queue "work" as its main queue` + rename,
		},
		"the same delay tier": {
			a: `{retry: {delayTiers: [{delay: 1m, queueName: wait}]}}`, b: `{retry: {delayTiers: [{delay: 1m, queueName: wait}]}}`,
			want: `has queue "wait" as its delay tier` + rename,
		},
		"a main queue as delay tier": {
			a: `{queue: {name: work}}`, b: `{retry: {delayTiers: [{delay: 1m, queueName: work}]}}`, want: `has queue "work" as its main queue` + rename,
		},
		"a delay tier as dead-letter queue": {
			a: `{retry: {delayTiers: [{delay: 1m, queueName: wait}]}}`, b: `{deadLetter: {queue: {name: wait}}}`,
			want: `has queue "wait" as its delay tier` + rename,
		},
		"a dead-letter queue as main queue": {
			a: `{deadLetter: {queue: {name: dead}}}`, b: `{queue: {name: dead}}`, want: `has queue "dead" as its dead-letter queue` + rename,
		},
		"a dead-letter queue in common": {a: `{deadLetter: {queue: {name: dead}}}`, b: `{deadLetter: {queue: {name: dead}}}`},
		"a dead-letter queue with other settings": {
			a: `{deadLetter: {queue: {name: dead}}}`, b: `{deadLetter: {queue: {name: dead, maxLength: 5}}}`,
			want: `has the dead-letter queue "dead" with other settings ({"x-delivery-limit":-1,"x-queue-type":"quorum"}; ` +
				`here {"x-delivery-limit":-1,"x-max-length":5,"x-overflow":"reject-publish","x-queue-type":"quorum"})` + renameOrShare,
		},

		"a dead-letter exchange in common": {
			a: `{deadLetter: {exchange: {name: dead, type: direct}, routingKey: a}}`, b: `{deadLetter: {exchange: {name: dead, type: direct}, routingKey: b}}`,
		},
		"a dead-letter exchange of another type": {
			a: `{deadLetter: {exchange: {name: dead, type: direct}}}`, b: `{deadLetter: {exchange: {name: dead, type: topic}}}`,
			want: `has exchange "dead" as its dead-letter exchange of type direct (here the dead-letter exchange of type topic)` + renameOrShare,
		},
		"a headers exchange in common": {
			a: `{retry: {strategy: Reject}, deadLetter: {exchange: {name: dead}}}`, b: `{retry: {strategy: Reject}, deadLetter: {exchange: {name: dead, type: headers}}}`,
			want: `has the headers exchange "dead" as its dead-letter exchange, which cannot be shared` + rename,
		},
		"a dead-letter exchange as retry exchange": {
			a: `{deadLetter: {exchange: {name: dead, type: direct}}}`, b: `{retry: {exchange: {name: dead}}}`,
			want: `has exchange "dead" as its dead-letter exchange of type direct (here the retry exchange of type direct)` + rename,
		},
		"a retry exchange as source exchange": {
			a: `{retry: {exchange: {name: again}}}`, b: `{bindings: [{exchange: {name: again, type: direct}}]}`,
			want: `has exchange "again" as its retry exchange of type direct (here the source exchange of type direct)` + rename,
		},
		"a retry exchange that the other only binds to": {
			a: `{retry: {exchange: {name: again}}}`, b: `{bindings: [{exchange: {name: again}}]}`,
		},
		"a source exchange in common": {
			a: `{bindings: [{exchange: {name: shop, type: topic}}]}`, b: `{bindings: [{exchange: {name: shop, type: topic}}]}`,
		},
		"a source exchange of another type": {
			a: `{bindings: [{exchange: {name: shop, type: topic}}]}`, b: `{bindings: [{exchange: {name: shop, type: direct}}]}`,
			want: `has exchange "shop" as its source exchange of type topic (here the source exchange of type direct)` + renameOrShare,
		},
		"a source exchange whose type only one knows": {
			a: `{bindings: [{exchange: {name: shop, type: topic}}]}`, b: `{bindings: [{exchange: {name: shop}}]}`,
		},
		"an exchange and a queue of one name": {
			a: `{deadLetter: {exchange: {name: dead}}}`, b: `{deadLetter: {queue: {name: dead}}}`,
		},

		"a fanout exchange for one dead-letter queue": {
			a: `{deadLetter: {exchange: {name: dead}, queue: {name: one}}}`, b: `{deadLetter: {exchange: {name: dead}, queue: {name: one}}}`,
		},
		"a fanout exchange for two dead-letter queues": {
			a: `{deadLetter: {exchange: {name: dead}, queue: {name: one}}}`, b: `{deadLetter: {exchange: {name: dead}, queue: {name: two}}}`,
			want: `routes the fanout exchange "dead" to dead-letter queue "one" (here to "two")` + reroute + ", or use the same dead-letter queue",
		},
		"a retry exchange with a key for each": {
			a: `{retry: {exchange: {name: again}, delayTiers: [{delay: 1m}]}}`, b: `{retry: {exchange: {name: again}, delayTiers: [{delay: 1m}]}}`,
		},
		"a retry exchange with one key for two delay tiers": {
			a:    `{retry: {exchange: {name: again}, delayTiers: [{delay: 1m, routingKey: soon}]}}`,
			b:    `{retry: {exchange: {name: again}, delayTiers: [{delay: 1m, routingKey: soon}]}}`,
			want: `routes key "soon" of the retry exchange "again" to delay tier "a.retry.1m" (here to "b.retry.1m")` + reroute,
		},
		"a source exchange with one key": {
			a: `{bindings: [{exchange: {name: shop, type: fanout}, routingKeys: [k]}]}`, b: `{bindings: [{exchange: {name: shop, type: fanout}, routingKeys: [k]}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := candidate(t, "a", test.a), candidate(t, "b", test.b)
			var want *ownership.Conflict
			var uncertain []string
			if test.want != "" {
				want = &ownership.Conflict{Message: "ConsumerQueue shop/a " + test.want}
				uncertain = []string{"shop/b"}
			}
			topologytest.Equal(t, "conflict of b", want, ownership.FindConflict(b, []ownership.Candidate{a}))
			topologytest.Equal(t, "conflict of a", nil, ownership.FindConflict(a, []ownership.Candidate{b}))
			topologytest.Equal(t, "of whom a is not sure that it holds nothing", uncertain, ownership.NeedsLiveRead(a, []ownership.Candidate{b}))
		})
	}
}

// The winner is the candidate that holds an object in its desired form, then the candidate that holds it at all, then the older,
// then the first by name.
func TestFindConflictRanks(t *testing.T) {
	t.Parallel()
	a, b := candidate(t, "a", `{deadLetter: {queue: {name: dead}}}`), candidate(t, "b", `{deadLetter: {queue: {name: dead, maxLength: 5}}}`)
	before := candidate(t, "b", `{deadLetter: {queue: {name: dead}}}`)
	otherwise := b // it holds the queue, but its spec has changed since
	otherwise.Owned = topologytest.Owned(before.Desired)
	unseen := holding(t, b) // it is about to declare the queue
	for i := range unseen.Owned {
		unseen.Owned[i].LastSyncedHash = ""
	}
	for name, test := range map[string]struct {
		a, b   ownership.Candidate
		winner string
	}{
		"two newcomers of one age: the first by name": {a, b, "a"},
		"two newcomers: the older":                    {createdLater(a), b, "b"},
		"a holder and an older newcomer":              {a, createdLater(holding(t, b)), "b"},
		"a holder that wants it otherwise":            {a, createdLater(otherwise), "b"},
		"a holder that is about to declare it":        {a, createdLater(unseen), "b"},
		"it is held by both, and as one wants it":     {createdLater(holding(t, a)), otherwise, "a"},
		"it is held by both as they want it":          {createdLater(holding(t, a)), holding(t, b), "b"},
		"both hold it otherwise":                      {a: createdLater(withOwned(a, otherwise.Owned)), b: otherwise, winner: "a"},
		"further objects of the holder do not matter": {a, withOwned(b, topologytest.Owned(candidate(t, "b", `{}`).Desired)), "a"},
	} {
		loses := func(own, other ownership.Candidate) bool {
			return ownership.FindConflict(own, []ownership.Candidate{other}) != nil
		}
		topologytest.Equal(t, name+": a loses", test.winner == "b", loses(test.a, test.b))
		topologytest.Equal(t, name+": b loses", test.winner == "a", loses(test.b, test.a))
	}
}

// holderIn returns the name of the ConsumerQueue with which the message of a conflict begins.
func holderIn(conflict *ownership.Conflict) string {
	return strings.Fields(conflict.Message)[1]
}

func withOwned(c ownership.Candidate, owned []v1alpha1.TopologyEntry) ownership.Candidate {
	c.Owned = owned
	return c
}

// A candidate holds a binding if it has the binding's destination in its spec.
func TestFindConflictForABinding(t *testing.T) {
	t.Parallel()
	a, b := candidate(t, "a", `{deadLetter: {exchange: {name: dead}, queue: {name: one}}}`), candidate(t, "b", `{deadLetter: {exchange: {name: dead}, queue: {name: two}}}`)
	topologytest.Equal(t, "a conflict of the holder", nil, ownership.FindConflict(holding(t, b), []ownership.Candidate{a}))
	topologytest.Equal(t, "the holder", "shop/b", holderIn(ownership.FindConflict(a, []ownership.Candidate{holding(t, b)})))
	leaving := withOwned(b, holding(t, a).Owned) // it held the exchange with the binding to the other queue
	topologytest.Equal(t, "the ConsumerQueue that led it elsewhere", "shop/a", holderIn(ownership.FindConflict(leaving, []ownership.Candidate{a})))
}

func TestFindConflictNamesTheFirstThatWins(t *testing.T) {
	t.Parallel()
	own := candidate(t, "c", `{queue: {name: work}}`)
	others := []ownership.Candidate{candidate(t, "d", `{queue: {name: work}}`), candidate(t, "b", `{queue: {name: work}}`), candidate(t, "a", `{queue: {name: work}}`)}
	topologytest.Equal(t, "holder", "shop/b", holderIn(ownership.FindConflict(own, others)))
	topologytest.Equal(t, "uncertain", []string{"shop/d", "shop/b", "shop/a"}, ownership.NeedsLiveRead(own, others))
	others[0] = holding(t, others[0])
	topologytest.Equal(t, "uncertain, of those that are not known to hold it", []string{"shop/b", "shop/a"}, ownership.NeedsLiveRead(own, others))
	topologytest.Equal(t, "without other ConsumerQueues", nil, ownership.FindConflict(own, nil))
	topologytest.Equal(t, "with one whose spec cannot become a topology", nil, ownership.FindConflict(own, []ownership.Candidate{{Name: "shop/a", Owned: others[0].Owned}}))
}

// If each of two candidates holds one of two disputed objects, both lose, and a user must decide.
func TestFindConflictOfTwoHolders(t *testing.T) {
	t.Parallel()
	a := candidate(t, "a", `{deadLetter: {queue: {name: dead}, exchange: {name: x, type: direct}}}`)
	b := candidate(t, "b", `{deadLetter: {queue: {name: dead, maxLength: 5}, exchange: {name: x, type: topic}}}`)
	only := func(c ownership.Candidate, name string) ownership.Candidate {
		return withOwned(c, slices.DeleteFunc(topologytest.Owned(c.Desired), func(e v1alpha1.TopologyEntry) bool { return e.Name != name }))
	}
	a, b = only(a, "x"), only(b, "dead")
	topologytest.Equal(t, "the holder of the queue", "shop/b", holderIn(ownership.FindConflict(a, []ownership.Candidate{b})))
	topologytest.Equal(t, "the holder of the exchange", "shop/a", holderIn(ownership.FindConflict(b, []ownership.Candidate{a})))
}

// The ConsumerQueues of one vector can share their objects.
func TestConformanceVectorsHaveNoConflict(t *testing.T) {
	t.Parallel()
	several := 0
	for _, vector := range conformance.Load(t) {
		for _, version := range topologytest.Versions {
			if _, supported := vector.Expect(version); !supported {
				continue
			}
			var all []ownership.Candidate
			for i := range vector.ConsumerQueues {
				cq := &vector.ConsumerQueues[i]
				topo, err := topology.Desired(cq, version)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, ownership.Candidate{Name: cq.Namespace + "/" + cq.Name, Desired: topo})
			}
			if len(all) > 1 {
				several++
			}
			for i, own := range all {
				others := slices.Delete(slices.Clone(all), i, i+1)
				topologytest.Equal(t, vector.Name+": conflict of "+own.Name, nil, ownership.FindConflict(own, others))
			}
		}
	}
	if several == 0 {
		t.Error("no vector has several ConsumerQueues")
	}
}

// drawCandidate uses few names and settings, so that conflicts are common.
func drawCandidate(rt *rapid.T, t *testing.T, name string) ownership.Candidate {
	one := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, label) }
	queues := rapid.Permutation([]string{"p", "q", "r", "s", "t"}).Draw(rt, "queues")
	exchanges := rapid.Permutation([]string{"x", "y", "z"}).Draw(rt, "exchanges")
	c := candidate(t, name, fmt.Sprintf(`{
		queue: {name: %s},
		retry: {exchange: {name: %s, type: %s}, delayTiers: [{delay: %s, queueName: %s, routingKey: %s}]},
		deadLetter: {exchange: {name: %s, type: %s}, queue: {name: %s, maxLength: %s}}
	}`, queues[0], exchanges[0], one("type", "direct", "topic"), one("delay", "1m", "2m"), queues[1], one("key", "k", "l"),
		exchanges[1], one("type", "fanout", "direct"), queues[2], one("length", "5", "6")))
	c.Created = noon.Add(time.Duration(rapid.IntRange(0, 1).Draw(rt, "age")))
	return c
}

// Of two candidates with conflicting specs exactly one loses, whichever is asked: the holder wins, or the better newcomer.
func TestExactlyOneOfTwoLoses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		a, b := drawCandidate(rt, t, "a"), drawCandidate(rt, t, "b")
		if rapid.Bool().Draw(rt, "a holds what it wants") {
			a = holding(t, a)
		}
		ofA, ofB := ownership.FindConflict(a, []ownership.Candidate{b}), ownership.FindConflict(b, []ownership.Candidate{a})
		if ofA == nil && ofB == nil {
			if len(ownership.NeedsLiveRead(a, []ownership.Candidate{b}))+len(ownership.NeedsLiveRead(b, []ownership.Candidate{a})) > 0 {
				rt.Error("a conflict without a loser")
			}
			return
		}
		if ofA != nil && ofB != nil {
			rt.Errorf("both lose: %s / %s", ofA.Message, ofB.Message)
		}
		if len(a.Owned) > 0 && ofA != nil {
			rt.Errorf("the holder loses: %s", ofA.Message)
		}
	})
}

// Among newcomers, at least the oldest has no conflict, and the candidates without a conflict do not conflict with each other.
func TestThoseThatDoNotLoseAreAtPeace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var all []ownership.Candidate
		for i := range rapid.IntRange(2, 5).Draw(rt, "candidates") {
			all = append(all, drawCandidate(rt, t, fmt.Sprint("cq-", i)))
		}
		var winners []ownership.Candidate
		for i, own := range all {
			if ownership.FindConflict(own, slices.Delete(slices.Clone(all), i, i+1)) == nil {
				winners = append(winners, own)
			}
		}
		if len(winners) == 0 {
			rt.Fatal("all lose")
		}
		for i, own := range winners {
			topologytest.Equal(rt, "conflict among winners", nil, ownership.FindConflict(own, slices.Delete(slices.Clone(winners), i, i+1)))
		}
	})
}

// The message of a conflict reveals neither names nor settings of other namespaces.
func TestConflictWithAnotherNamespace(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ a, b, want, advice string }{
		"a queue": {
			`{deadLetter: {queue: {name: dlq, maxLength: 5}}}`, `{deadLetter: {queue: {name: dlq}}}`, `queue "dlq"`, renameOrShare,
		},
		"an exchange": {
			`{deadLetter: {exchange: {name: dead, type: topic}}}`, `{deadLetter: {exchange: {name: dead}}}`, `exchange "dead"`, renameOrShare,
		},
		"a binding": {
			`{deadLetter: {exchange: {name: dead}, queue: {name: one}}}`, `{deadLetter: {exchange: {name: dead}, queue: {name: two}}}`,
			`routing key "" of exchange "dead"`, reroute + ", or use the same dead-letter queue",
		},
	} {
		a, b := candidate(t, "a", test.a), candidate(t, "b", test.b)
		a.Name = "elsewhere/secret"
		want := "a ConsumerQueue in another namespace uses " + test.want + " exclusively, or with other settings" + test.advice
		conflict := ownership.FindConflict(b, []ownership.Candidate{a})
		topologytest.Equal(t, name, &ownership.Conflict{Message: want}, conflict)
	}
}

func TestConflictOfOverlappingKeys(t *testing.T) {
	t.Parallel()
	retry := func(kind, key, queue string) string {
		return `{queue: {name: ` + queue + `}, deadLetter: {policy: Disabled}, retry: {exchange: {name: r, type: ` + kind + `}, delayTiers: [{delay: 1m, routingKey: "` + key + `"}]}}`
	}
	dead := func(kind, key, queue string) string {
		return `{queue: {name: ` + queue + `}, retry: {policy: None}, deadLetter: {exchange: {name: d, type: ` + kind + `}, routingKey: "` + key + `"}}`
	}
	for name, test := range map[string]struct {
		a, b     string
		conflict bool
	}{
		"overlapping tier keys":        {retry("topic", "a.*", "one"), retry("topic", "a.b", "two"), true},
		"tier keys apart":              {retry("topic", "a.*", "one"), retry("topic", "b.*", "two"), false},
		"one key of a direct DLX":      {dead("direct", "dead", "one"), dead("direct", "dead", "two"), true},
		"keys of a direct DLX":         {dead("direct", "one", "one"), dead("direct", "two", "two"), false},
		"overlapping keys of a topic":  {dead("topic", "dead.#", "one"), dead("topic", "dead.two", "two"), true},
		"keys of a topic that stay so": {dead("topic", "dead.one", "one"), dead("topic", "dead.two", "two"), false},
	} {
		older := ownership.Candidate{Name: "shop/one", Created: time.Unix(1, 0), Desired: topologytest.Desired(t, test.a, topologytest.V43)}
		newer := ownership.Candidate{Name: "shop/two", Created: time.Unix(2, 0), Desired: topologytest.Desired(t, test.b, topologytest.V43)}
		topologytest.Equal(t, name+": the newer loses", test.conflict, ownership.FindConflict(newer, []ownership.Candidate{older}) != nil)
		topologytest.Equal(t, name+": the older does not", true, ownership.FindConflict(older, []ownership.Candidate{newer}) == nil)
		// The holder of a key keeps it, even against an older candidate whose key only overlaps.
		for _, binding := range newer.Desired.Bindings {
			newer.Owned = append(newer.Owned, v1alpha1.TopologyEntry{
				Kind: v1alpha1.KindBinding, Source: binding.Source, Destination: binding.Destination, RoutingKey: binding.RoutingKey, Role: binding.Role,
			})
		}
		topologytest.Equal(t, name+": the holder does not", true, ownership.FindConflict(newer, []ownership.Candidate{older}) == nil)
		topologytest.Equal(t, name+": the older loses to the holder", test.conflict, ownership.FindConflict(older, []ownership.Candidate{newer}) != nil)
	}
}
