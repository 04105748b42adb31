package amqpconn

import (
	"context"
	"slices"
	"sync"
	"time"
)

// slots let as many operations run at a time as the limit allows. Operations get slots in the order in which they asked.
type slots struct {
	mu      sync.Mutex
	limit   limit
	taken   int
	waiting []chan struct{} // closed when there is a slot
}

// take waits for a slot. The caller must call leave unless take returns an error.
func (p *slots) take(ctx context.Context) error {
	p.mu.Lock()
	turn := make(chan struct{})
	p.waiting = append(p.waiting, turn)
	p.admit()
	p.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, turn); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	} else { // admit gave it a slot just before the lock was taken
		p.taken--
		p.admit()
	}
	return ctx.Err()
}

func (p *slots) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	p.admit()
}

// admit gives free slots to waiting operations. The caller holds the lock.
func (p *slots) admit() {
	for p.taken < p.limit.now() && len(p.waiting) > 0 {
		close(p.waiting[0])
		p.waiting = p.waiting[1:]
		p.taken++
	}
}

// measure begins to measure an operation that has a slot. The caller calls the returned function when the operation ends, unless
// its duration does not depend on the broker.
func (p *slots) measure() (ended func(missing bool)) {
	a := answer{began: time.Now(), among: p.count()}
	return func(missing bool) {
		a.ended, a.missing = time.Now(), missing
		p.adapt(func(l *limit) {
			a.among = max(a.among, p.taken)
			l.note(a)
		})
	}
}

// adapt changes the limit, and admits operations if it rose.
func (p *slots) adapt(change func(*limit)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.limit)
	p.admit()
}

// count returns how many slots are taken.
func (p *slots) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// now returns how many slots there are.
func (p *slots) now() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit.now()
}

// isBlocked reports whether the broker has blocked the connection.
func (p *slots) isBlocked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit.blocked
}
