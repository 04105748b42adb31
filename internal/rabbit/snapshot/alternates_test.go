package snapshot

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// alternating returns a vhost in which exchange back has the alternate rest, by its argument or by a policy. rest leads to inner, and inner
// to a queue.
func alternating(byArgument, byPolicy bool) *Snapshot {
	back := management.ExchangeItem{Name: "back", Type: "direct", Durable: true}
	definition := map[string]any{"alternate-exchange": "rest"}
	var policies []management.PolicyItem
	if byArgument {
		back.Arguments = definition
	}
	if byPolicy {
		policies = []management.PolicyItem{{Name: "unrouted", Pattern: "^back$", ApplyTo: "exchanges", Definition: definition}}
	}
	return build(nil,
		[]management.ExchangeItem{back, {Name: "rest", Type: "fanout", Durable: true}, {Name: "inner", Type: "fanout", Durable: true}},
		[]management.QueueItem{{Name: "orders", Type: "quorum", Durable: true}},
		[]management.BindingItem{
			{Source: "rest", Destination: "inner", DestinationType: "exchange"},
			{Source: "inner", Destination: "orders", DestinationType: "queue"},
		}, policies, nil)
}

// A message reaches an alternate exchange through the exchange that has the alternate, so the route of that exchange changes, too.
func TestRoutesFollowAlternates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		byArgument, byPolicy bool
		change               func(*Snapshot)
		want                 []string
	}{
		"argument: a binding after the alternate": {
			byArgument: true, change: func(s *Snapshot) { delete(s.BindingsFrom, "rest") }, want: []string{"back", "rest"},
		},
		"policy: a binding after the alternate": {
			byPolicy: true, change: func(s *Snapshot) { delete(s.BindingsFrom, "rest") }, want: []string{"back", "rest"},
		},
		"neither: a binding after the alternate": {
			change: func(s *Snapshot) { delete(s.BindingsFrom, "rest") }, want: []string{"rest"},
		},
		"policy: cleared": {byPolicy: true, change: func(s *Snapshot) { s.Policies = nil }, want: []string{"back"}},
		"policy: another alternate": {byPolicy: true, change: func(s *Snapshot) {
			s.Policies[0].Definition = vhost.Arguments{vhost.ArgAlternateExchange: "inner"}
		}, want: []string{"back"}},
		"policy: another priority":                  {byPolicy: true, change: func(s *Snapshot) { s.Policies[0].Priority = 1 }},
		"policy below an argument: cleared":         {byArgument: true, byPolicy: true, change: func(s *Snapshot) { s.Policies = nil }},
		"policy: the alternate exchange is missing": {byPolicy: true, change: func(s *Snapshot) { delete(s.exchanges, "rest") }, want: []string{"back", "rest"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := alternating(test.byArgument, test.byPolicy)
			test.change(after)
			for _, sides := range [][2]*Snapshot{{alternating(test.byArgument, test.byPolicy), after}, {after, alternating(test.byArgument, test.byPolicy)}} {
				if difference := cmp.Diff(test.want, Changes(sides[0], sides[1]).Routes, cmpopts.EquateEmpty()); difference != "" {
					t.Errorf("wanted (-), routes (+):\n%s", difference)
				}
			}
		})
	}
}

func TestUpstreamOfAnAlternate(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*Snapshot{"argument": alternating(true, false), "policy": alternating(false, true)} {
		got := s.WithUpstream(Notice{Routes: []string{"inner"}}).Routes
		if difference := cmp.Diff([]string{"back", "inner", "rest"}, got); difference != "" {
			t.Errorf("%s: wanted (-), routes (+):\n%s", name, difference)
		}
	}
}

// The patterns of policies can take long, so a route gets the alternates, and a refresh keeps them until such a policy changes.
func TestAlternatesAreEvaluatedOnce(t *testing.T) {
	t.Parallel()
	var s Store
	s.Replace(alternating(false, true), "")
	observed, _ := s.Observe(vhost.Selection{FollowFrom: "back"})
	want := map[string][]string{"back": {"rest"}, "rest": nil, "inner": nil}
	if difference := cmp.Diff(want, observed.Alternates); difference != "" {
		t.Errorf("wanted (-), observed (+):\n%s", difference)
	}
	for _, step := range []struct {
		name   string
		change func(*Snapshot)
		want   []string
	}{
		{"no change", func(*Snapshot) {}, []string{"back", "inner", "rest"}},
		{"another policy", func(s *Snapshot) { s.Policies = append(s.Policies, vhost.Policy{Name: "z", ApplyTo: "queues"}) }, []string{"back", "inner", "rest"}},
	} {
		fresh := alternating(false, true)
		step.change(fresh)
		s.Replace(fresh, "")
		if difference := cmp.Diff(step.want, slices.Sorted(maps.Keys(s.Current.alternates.known))); difference != "" {
			t.Errorf("%s: wanted (-), known (+):\n%s", step.name, difference)
		}
	}
	fresh := alternating(false, true)
	fresh.Policies[0].Pattern = vhost.ReadPattern("^rest$")
	s.Replace(fresh, "")
	observed, _ = s.Observe(vhost.Selection{FollowFrom: "back"})
	if difference := cmp.Diff(map[string][]string{"back": nil}, observed.Alternates); difference != "" {
		t.Errorf("another pattern: wanted (-), observed (+):\n%s", difference)
	}
}
