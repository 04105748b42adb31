package deadletterapi

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A namespace has a second slot only while half of all slots are free, so that two namespaces cannot take all.
func TestShares(t *testing.T) {
	t.Parallel()
	s := newShares("wait", 4)
	ends := map[string]func(){}
	for _, step := range []struct {
		namespace string
		granted   bool
	}{
		{"a", true}, {"a", true}, {"a", false}, // its share
		{"b", true}, {"b", false}, // a second slot out of the second half
		{"c", true}, {"d", false}, // all are taken
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
