package topology_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
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
		_, err := topology.Desired(topologytest.ConsumerQueue(t, spec), topologytest.V43)
		topologytest.Equal(t, test.kind+" "+test.a+" and "+test.b, test.refused, err != nil)
		if refusal, ok := errors.AsType[*topology.Refusal](err); ok {
			topologytest.Equal(t, "reason", v1alpha1.ReasonInvalidSpec, refusal.Reason)
		}
	}
}
