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
	// maxEach is how many responses, browses and lists one namespace may have. Lists of all namespaces count as one more namespace.
	maxEach = 2
	// maxConnections is how many connections are open at a time. Each uses up to 512 KiB before its client is authenticated, because
	// crypto/tls accepts 256 KiB of client certificates. One address has at most maxEachAddress.
	maxConnections, maxEachAddress = 256, 32
)

// shares limits requests by namespace, so that slow clients and long browses delay only their own namespace. It limits connections by
// address in the same way. An owner gets a second slot only while less than half of all slots are taken. The other half is reserved for
// owners without a slot.
type shares struct {
	// max is the number of slots, each how many of them one owner may have.
	max, each int

	mu    sync.Mutex
	taken map[string]int
	inAll int
}

func newShares(limit, each int) *shares {
	return &shares{max: limit, each: each, taken: map[string]int{}}
}

// take occupies a slot of an owner until end is called. If no slot is free, end is nil, and has is the number of slots that the owner
// already has.
func (s *shares) take(owner string) (end func(), has int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has = s.taken[owner]
	if s.inAll >= s.max || has >= s.each || has > 0 && s.inAll >= s.max/2 {
		return nil, has
	}
	s.taken[owner]++
	s.inAll++
	return func() { s.free(owner) }, has
}

func (s *shares) free(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inAll--
	if s.taken[owner]--; s.taken[owner] == 0 {
		delete(s.taken, owner)
	}
}

// takeSlot occupies a slot of a namespace until end is called. If there is none, it returns 429 immediately. verb completes "requests
// that …".
func takeSlot(slots *shares, namespace, verb string) (end func(), err error) {
	end, has := slots.take(namespace)
	of := ""
	switch {
	case end != nil:
		return end, nil
	case has == 0: // other namespaces have all slots
	case namespace == "":
		of = " for all namespaces"
	default:
		of = fmt.Sprintf(" of namespace %q", namespace)
	}
	return nil, tooMany(fmt.Sprintf("too many requests%s that %s are under way; try again", of, verb))
}

func tooMany(message string) error { return apierrors.NewTooManyRequests(message, retrySoon) }
