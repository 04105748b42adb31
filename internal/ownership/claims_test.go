package ownership

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// Rivals are found from both sides. Thousands of ConsumerQueues that share an object with equal settings are not rivals.
func TestRivals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		one, other string
		want       bool
	}{
		"nothing in common":                    {one: `{}`, other: `{queue: {name: other}}`},
		"the main queue":                       {one: `{queue: {name: q}}`, other: `{queue: {name: q}}`, want: true},
		"a dead-letter queue that is a tier":   {one: `{deadLetter: {queue: {name: q}}}`, other: `{retry: {delayTiers: [{delay: 1s, queueName: q}]}}`, want: true},
		"the dead-letter queue":                {one: withGrave, other: withGrave},
		"the dead-letter queue, otherwise":     {one: withGrave, other: withBigGrave, want: true},
		"a dead-letter exchange with two ways": {one: `{deadLetter: {exchange: {name: x}}}`, other: `{deadLetter: {exchange: {name: x}}}`, want: true},
		"a dead-letter exchange with one way":  {one: `{deadLetter: {exchange: {name: x}, queue: {name: grave}}}`, other: `{deadLetter: {exchange: {name: x}, queue: {name: grave}}}`},
		"a source of one type":                 {one: `{bindings: [{exchange: {name: x, type: topic}}]}`, other: `{bindings: [{exchange: {name: x, type: topic}}]}`},
		"a source of two types":                {one: `{bindings: [{exchange: {name: x, type: topic}}]}`, other: `{bindings: [{exchange: {name: x, type: direct}}]}`, want: true},
		"a source that one has no type for":    {one: `{bindings: [{exchange: {name: x, type: topic}}]}`, other: `{bindings: [{exchange: {name: x}}]}`},
		"a source that is a retry exchange":    {one: `{bindings: [{exchange: {name: x, type: topic}}]}`, other: `{retry: {delayTiers: [{delay: 1s}], exchange: {name: x}}}`, want: true},
		"an exchange with the name of a queue": {one: `{queue: {name: x}}`, other: `{retry: {delayTiers: [{delay: 1s}], exchange: {name: x}}}`},
		"a spec that cannot become a topology": {one: withGrave, other: unknownSpec},
	} {
		one, other := controllertest.Named(t, "shop", "one", test.one), controllertest.Named(t, "shop", "other", test.other)
		topologytest.Equal(t, name, test.want, len(viewOf(one, other).disputing()) == 1)
		topologytest.Equal(t, name+", seen from the other side", test.want, len(viewOf(other, one).disputing()) == 1)
	}
}

// If FindConflict finds a conflict over an object, its claims have two forms. Only rivals can therefore conflict.
func TestWhoeverIsInConflictIsARival(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		one := controllertest.Named(t, "shop", "one", anySpec(rt, "one"))
		other := controllertest.Named(t, "shop", "other", anySpec(rt, "other"))
		version := rapid.SampledFrom([]vhost.Version{topologytest.V310, topologytest.V40, topologytest.V43}).Draw(rt, "version")
		found := overlaps(CandidateOf(one, version).Desired, CandidateOf(other, version).Desired)
		view := indexOf(other).View(one, here, version, leadsHere)
		if len(found) > 0 && len(view.disputing()) == 0 {
			rt.Errorf("no rivals, but %+v", found)
		}
	})
}

// The index claims nothing for a spec whose arguments, multiplied by the routing keys, take 80 MiB. The API server accepts this spec.
func TestMultipliedArgumentsClaimNothing(t *testing.T) {
	t.Parallel()
	cq := controllertest.ConsumerQueue(t, "{}")
	for range 34 {
		source := v1alpha1.SourceBinding{Exchange: v1alpha1.SourceExchange{Name: "events"}, Arguments: v1alpha1.Arguments{}}
		for i := range 32 {
			source.Arguments[fmt.Sprint(len(cq.Spec.Bindings), "-", i)] = intstr.FromString(strings.Repeat("x", 1024))
		}
		for i := range 64 {
			source.RoutingKeys = append(source.RoutingKeys, v1alpha1.RoutingKey(fmt.Sprint(i)))
		}
		cq.Spec.Bindings = append(cq.Spec.Bindings, source)
	}
	claims, wants := claimsOf(cq)
	topologytest.Equal(t, "claims", 0, len(claims))
	topologytest.Equal(t, "wants", 0, len(wants))
}

// anySpec draws from few names and settings, so that specs overlap.
func anySpec(rt *rapid.T, label string) string {
	draw := func(what string, from ...string) string { return rapid.SampledFrom(from).Draw(rt, label+" "+what) }
	return fmt.Sprintf(
		`{queue: {name: %s}, bindings: [{exchange: {name: %s%s}, routingKeys: ["a"]}], retry: {exchange: {name: %s%s}, delayTiers: [{delay: 1s, queueName: %s, routingKey: "%s"}]},`+
			` deadLetter: {exchange: {name: %s%s}, queue: {name: %s%s}%s}}`,
		draw("queue", "q1", "q2", "q3"),
		draw("source", "x1", "x2"), draw("source type", "", ", type: topic", ", type: direct"),
		draw("retry exchange", "x2", "x3"), draw("retry type", "", ", type: topic", ", type: direct"), draw("tier", "q2", "q4", "q5"), draw("tier key", "a.b", "a.*", "c"),
		draw("dead-letter exchange", "x3", "x4"), draw("dead-letter type", "", ", type: fanout", ", type: topic"), draw("dead-letter queue", "q3", "q6"),
		draw("length", "", ", maxLength: 5"), draw("dead-letter key", "", ", routingKey: a.b", ", routingKey: c"),
	)
}

// A hundred ConsumerQueues that share an exchange and a dead-letter queue with equal settings are not rivals.
func TestManyThatAgreeAreNoRivals(t *testing.T) {
	t.Parallel()
	var many []*v1alpha1.ConsumerQueue
	for i := range 100 {
		many = append(many, controllertest.Named(t, "shop", fmt.Sprint("q-", i),
			fmt.Sprintf(`{queue: {name: q-%d}, bindings: [{exchange: {name: events, type: topic}, routingKeys: ["%d"]}], deadLetter: {exchange: {name: dlx}, queue: {name: grave}}}`, i, i)))
	}
	index := indexOf(many...)
	view := index.View(many[0], here, topologytest.V43, leadsHere)
	topologytest.Equal(t, "rivals", 0, len(view.disputing()))
	topologytest.Equal(t, "peers", 99, len(slices.Collect(view.holders(vhost.QueueID("grave")))))
	names := slices.Collect(func(yield func(string) bool) {
		for p := range view.holders(vhost.QueueID("q-7")) {
			yield(p.Name)
		}
	})
	topologytest.Equal(t, "peers of a main queue", []string{"shop/q-7"}, names)
}
