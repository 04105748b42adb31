package ownership

import (
	"context"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/metrics"
)

// ClaimLock is held while a ConsumerQueue records the objects that it claims. So the second of two ConsumerQueues that dispute an object
// sees the record of the first. ConsumerQueues that claim a subject in the same form cannot dispute it, and may hold the lock at the same
// time.
type ClaimLock struct {
	mu      sync.Mutex
	held    map[mark]holding
	changed chan struct{} // closed when claims are released
}

type holding struct {
	form  mark
	count int
}

// NewClaimLock returns a lock that is not held.
func NewClaimLock() *ClaimLock {
	return &ClaimLock{held: map[mark]holding{}, changed: make(chan struct{})}
}

// Acquire waits until none of the subjects is held in another form. It acquires all of them or none, which prevents deadlocks. It
// returns an error only if ctx ends.
func (l *ClaimLock) Acquire(ctx context.Context, claims Claims) (release func(), err error) {
	began := time.Now()
	for {
		l.mu.Lock()
		if l.isFree(claims) {
			for about, form := range claims {
				l.held[about] = holding{form, l.held[about].count + 1}
			}
			l.mu.Unlock()
			metrics.ClaimWaits.Observe(time.Since(began))
			return func() { l.release(claims) }, nil
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *ClaimLock) isFree(claims Claims) bool {
	for about, form := range claims {
		if now, held := l.held[about]; held && now.form != form {
			return false
		}
	}
	return true
}

func (l *ClaimLock) release(claims Claims) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for about, form := range claims {
		if left := l.held[about].count - 1; left > 0 {
			l.held[about] = holding{form, left}
		} else {
			delete(l.held, about)
		}
	}
	close(l.changed)
	l.changed = make(chan struct{})
}
