package ownership

import (
	"context"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/metrics"
)

// ClaimLock is held while a ConsumerQueue records what it takes for its own: of two that dispute an object, the second sees
// what the first has taken. Those that claim a subject in one form cannot dispute it, and hold the lock together.
type ClaimLock struct {
	mu      sync.Mutex
	held    map[mark]holding
	changed chan struct{} // closed when claims are released
}

type holding struct {
	form  mark
	count int
}

// NewClaimLock makes a lock that nobody holds.
func NewClaimLock() *ClaimLock {
	return &ClaimLock{held: map[mark]holding{}, changed: make(chan struct{})}
}

// Acquire waits until nobody holds one of the subjects in another form. It takes all of them or none, so no two wait for each
// other.
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
