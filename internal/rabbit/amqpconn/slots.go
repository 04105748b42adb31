package amqpconn

import (
	"context"
	"slices"
	"sync"
	"time"
)

// slots limits how many operations run at a time. Operations get slots in the order in which they ask.
type slots struct {
	mu      sync.Mutex
	limit   limit
	taken   int
	waiting []chan struct{} // closed when there is a slot
}

// take waits for a slot. The caller must call leave unless take returns an error.
func (s *slots) take(ctx context.Context) error {
	s.mu.Lock()
	granted := make(chan struct{})
	s.waiting = append(s.waiting, granted)
	s.admit()
	s.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, granted); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else { // admit gave it a slot just before the lock was taken
		s.taken--
		s.admit()
	}
	return ctx.Err()
}

func (s *slots) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	s.admit()
}

// admit gives free slots to waiting operations. The caller holds the lock.
func (s *slots) admit() {
	for s.taken < s.limit.now() && len(s.waiting) > 0 {
		close(s.waiting[0])
		s.waiting = s.waiting[1:]
		s.taken++
	}
}

// measure begins to measure an operation that has a slot. The caller calls the returned function when the operation ends, unless
// its duration does not depend on the broker.
func (s *slots) measure() (ended func(missing bool)) {
	a := answer{began: time.Now(), among: s.count()}
	return func(missing bool) {
		a.ended, a.missing = time.Now(), missing
		s.adapt(func(l *limit) {
			a.among = max(a.among, s.taken)
			l.note(a)
		})
	}
}

// adapt changes the limit, and admits operations if it rose.
func (s *slots) adapt(change func(*limit)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.limit)
	s.admit()
}

func (s *slots) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

// now returns how many slots there are.
func (s *slots) now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit.now()
}

func (s *slots) isBlocked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit.blocked
}
