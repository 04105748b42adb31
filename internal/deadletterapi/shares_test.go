package deadletterapi

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A namespace gets a second slot only while half of all slots are free, so that two namespaces cannot occupy all.
func TestShares(t *testing.T) {
	t.Parallel()
	s := newShares("wait", 4, 2)
	ends := map[string]func(){}
	for _, step := range []struct {
		namespace string
		granted   bool
	}{
		{"a", true}, {"a", true}, {"a", false}, // its limit
		{"b", true}, {"b", false}, // no second slot from the second half
		{"c", true}, {"d", false}, // no slot is left
	} {
		end, err := s.take(step.namespace)
		if step.granted {
			topologytest.Equal(t, "error in "+step.namespace, nil, err)
			ends[step.namespace] = end
		} else {
			topologytest.Equal(t, "too many in "+step.namespace, true, apierrors.IsTooManyRequests(err))
		}
	}
	ends["c"]()
	_, err := s.take("a")
	topologytest.Equal(t, "the free slot is not for a namespace that has two", true, apierrors.IsTooManyRequests(err))
	_, err = s.take("d")
	topologytest.Equal(t, "the free slot is for a namespace that has none", nil, err)
	topologytest.Equal(t, "what is kept of namespaces", map[string]int{"a": 2, "b": 1, "d": 1}, s.taken)
}
