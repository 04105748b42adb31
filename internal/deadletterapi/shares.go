package deadletterapi

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxAnswers is how many answers are gathered and written at a time. Each takes up to twice 8 MiB until the client has it.
	maxAnswers = 8
	// maxAnswersEach is how many of them one namespace may have, and so how many browses.
	maxAnswersEach = 2
)

// shares are the answers under way, by the namespace that is asked about. A namespace whose clients read slowly keeps only its own share.
type shares struct {
	mu    sync.Mutex
	taken map[string]int
	inAll int
}

func newShares() *shares { return &shares{taken: map[string]int{}} }

// take takes a slot of a namespace until the end is called.
func (s *shares) take(namespace string) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.taken[namespace] >= maxAnswersEach:
		text := fmt.Sprintf("%d other requests of namespace %q wait for answers; try again", maxAnswersEach, namespace)
		return nil, apierrors.NewTooManyRequests(text, retrySoon)
	case s.inAll >= maxAnswers:
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("%d others wait for answers; try again", maxAnswers), retrySoon)
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
