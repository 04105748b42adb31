package deadletterapi

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxAnswers is how many answers are gathered and written at a time. Each takes up to twice 8 MiB until the client has it.
	maxAnswers = 8
	// maxLooks is how many browses run at a time. Each may take 8 MiB of messages that it shows, and amqpconn.ConnectionBodies under way.
	maxLooks = 4
	// maxEach is how many answers, and how many browses, one namespace may have.
	maxEach = 2
)

// shares are slots for requests, by the namespace that a request is about. Clients that read slowly, and browses that take long, keep only
// the slots of their own namespace. A namespace gets its second slot only out of the first half of all: the rest is for namespaces that
// have none.
type shares struct {
	// verb describes what a request does while it has a slot.
	verb string
	max  int

	mu    sync.Mutex
	taken map[string]int
	inAll int
}

func newShares(verb string, most int) *shares {
	return &shares{verb: verb, max: most, taken: map[string]int{}}
}

func newAnswers() *shares { return newShares("wait for answers", maxAnswers) }

func newLooks() *shares { return newShares("browse queues", maxLooks) }

// take takes a slot of a namespace until the end is called.
func (s *shares) take(namespace string) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has := s.taken[namespace]
	switch {
	case s.inAll >= s.max:
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("%d other requests %s; try again", s.inAll, s.verb), retrySoon)
	case has >= maxEach, has > 0 && s.inAll >= s.max/2:
		text := fmt.Sprintf("%d of the requests that %s are about namespace %q; try again", has, s.verb, namespace)
		return nil, apierrors.NewTooManyRequests(text, retrySoon)
	}
	s.taken[namespace]++
	s.inAll++
	return func() { s.free(namespace) }, nil
}

func (s *shares) free(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inAll--
	if s.taken[namespace]--; s.taken[namespace] == 0 {
		delete(s.taken, namespace)
	}
}
