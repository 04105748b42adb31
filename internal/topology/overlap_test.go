package topology_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
)

func TestTierKeysMustNotOverlap(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind, a, b string
		refused    bool
	}{
		{"topic", "#", "b", true},
		{"topic", "a.*", "a.b", true},
		{"topic", "a.b", "a.*", true},
		{"topic", "a.#", "a", true},
		{"topic", "#.z", "a.#", true},
		{"topic", "*.b", "a.*", true},
		{"topic", "*", "a.b", false},
		{"topic", "a.*", "b.*", false},
		{"topic", "a.#.z", "a.y", false},
		{"topic", "#.*", "*.#", true},
		{"topic", "a", "b", false},
		{"direct", "#", "b", false},
		{"topic", strings.Repeat("#.", 100) + "a", strings.Repeat("#.", 100) + "b", false},
	} {
		spec := `{retry: {exchange: {name: r, type: ` + test.kind + `}, delayTiers: [{delay: 1m, routingKey: "` + test.a + `"}, {delay: 2m, routingKey: "` + test.b + `"}]}}`
		_, err := topology.Desired(consumerQueue(t, spec), v43)
		equal(t, test.kind+" "+test.a+" and "+test.b, test.refused, err != nil)
		if refusal, ok := errors.AsType[*topology.Refusal](err); ok {
			equal(t, "reason", v1alpha1.ReasonInvalidSpec, refusal.Reason)
		}
	}
}

func TestContestOfOverlappingKeys(t *testing.T) {
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
		older := topology.Claimant{Name: "shop/one", Created: time.Unix(1, 0), Desired: desired(t, test.a, v43)}
		newer := topology.Claimant{Name: "shop/two", Created: time.Unix(2, 0), Desired: desired(t, test.b, v43)}
		equal(t, name+": the newer loses", test.conflict, topology.Contest(newer, []topology.Claimant{older}) != nil)
		equal(t, name+": the older does not", true, topology.Contest(older, []topology.Claimant{newer}) == nil)
		// Who holds a key keeps it, also against an older one whose key merely overlaps.
		for _, binding := range newer.Desired.Bindings {
			newer.Owned = append(newer.Owned, v1alpha1.TopologyEntry{
				Kind: v1alpha1.KindBinding, Source: binding.Source, Destination: binding.Destination, RoutingKey: binding.RoutingKey, Role: binding.Role,
			})
		}
		equal(t, name+": the holder does not", true, topology.Contest(newer, []topology.Claimant{older}) == nil)
		equal(t, name+": the older loses to the holder", test.conflict, topology.Contest(older, []topology.Claimant{newer}) != nil)
	}
}
