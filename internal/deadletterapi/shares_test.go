package deadletterapi

import (
	"testing"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A namespace gets a second slot only while half of all slots are free, so that two namespaces cannot occupy all.
func TestShares(t *testing.T) {
	t.Parallel()
	s := newShares(4, 2)
	ends := map[string]func(){}
	for _, step := range []struct {
		namespace string
		granted   bool
	}{
		{"a", true}, {"a", true}, {"a", false}, // its limit
		{"b", true}, {"b", false}, // no second slot from the second half
		{"c", true}, {"d", false}, // no slot is left
	} {
		end, _ := s.take(step.namespace)
		topologytest.Equal(t, "granted to "+step.namespace, step.granted, end != nil)
		if end != nil {
			ends[step.namespace] = end
		}
	}
	ends["c"]()
	end, has := s.take("a")
	topologytest.Equal(t, "the free slot is not for a namespace that has two", true, end == nil && has == 2)
	end, _ = s.take("d")
	topologytest.Equal(t, "the free slot is for a namespace that has none", true, end != nil)
	topologytest.Equal(t, "what is kept of namespaces", map[string]int{"a": 2, "b": 1, "d": 1}, s.taken)
}
