package deadletterapi

import (
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A namespace has its share, and all together have no more than there is memory for.
func TestShares(t *testing.T) {
	t.Parallel()
	s := newShares()
	refused := func(namespace string) bool {
		_, err := s.take(namespace)
		return apierrors.IsTooManyRequests(err)
	}
	var ends []func()
	for number := range maxAnswers / maxAnswersEach {
		namespace := "n" + strconv.Itoa(number)
		for range maxAnswersEach {
			end, err := s.take(namespace)
			topologytest.Equal(t, "error in "+namespace, nil, err)
			ends = append(ends, end)
		}
		topologytest.Equal(t, "more than the share of "+namespace, true, refused(namespace))
	}
	topologytest.Equal(t, "more than all", true, refused("another"))
	ends[0]()
	topologytest.Equal(t, "one has ended", false, refused("another"))
	topologytest.Equal(t, "more than all again", true, refused("n0"))
	for _, end := range ends[1:] {
		end()
	}
	topologytest.Equal(t, "what is kept of namespaces without answers", map[string]int{"another": 1}, s.taken)
}
