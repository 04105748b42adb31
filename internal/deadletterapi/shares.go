package deadletterapi

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxAnswers is how many responses are collected and written at a time. Each uses up to twice 8 MiB until the client has it.
	maxAnswers = 8
	// maxBrowses is how many browses run at a time. Each uses up to 8 MiB for shown messages, and amqpconn.ConnectionBodies for
	// messages in flight.
	maxBrowses = 4
	// maxLists is how many lists of queues are collected and written at a time. Each is held as JSON until the client has it.
	maxLists = 8
	// maxEach is how many responses, browses and lists one namespace may have. Lists of all namespaces count as one namespace more.
	maxEach = 2
	// maxConnections is how many connections are open at a time. Each uses up to 512 KiB before Warren knows who sends a request,
	// because crypto/tls accepts 256 KiB of client certificates. One address has at most maxEachAddress.
	maxConnections, maxEachAddress = 256, 32
)

// shares limits requests by namespace, so that slow clients and long browses delay only their own namespace. It limits connections
// by address in the same way. An owner gets a second slot only while less than half of all slots are taken: the rest is reserved for
// owners without a slot.
type shares struct {
	// verb completes "other requests …" in messages.
	verb string
	// max is the number of slots, each how many of them one owner may have.
	max, each int

	mu    sync.Mutex
	taken map[string]int
	inAll int
}

func newShares(verb string, limit, each int) *shares {
	return &shares{verb: verb, max: limit, each: each, taken: map[string]int{}}
}

func newAnswers() *shares { return newShares("wait for answers", maxAnswers, maxEach) }

func newBrowses() *shares { return newShares("browse queues", maxBrowses, maxEach) }

func newLists() *shares { return newShares("list queues", maxLists, maxEach) }

func newConnections() *shares { return newShares("are connections", maxConnections, maxEachAddress) }

// take occupies a slot of a namespace until end is called. If there is none, it returns 429 immediately.
func (s *shares) take(namespace string) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has := s.taken[namespace]
	switch {
	case s.inAll >= s.max:
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("%d other requests %s; try again", s.inAll, s.verb), retrySoon)
	case has >= s.each, has > 0 && s.inAll >= s.max/2:
		about := fmt.Sprintf("namespace %q", namespace)
		if namespace == "" {
			about = "all namespaces"
		}
		text := fmt.Sprintf("%d of the requests that %s are about %s; try again", has, s.verb, about)
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
