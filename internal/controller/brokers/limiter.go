package brokers

import (
	"errors"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrBusy ends the reconciliation of a resource whose turn it is not.
var ErrBusy = errors.New("others are waiting for the same broker")

// LimiterRetry is when a resource tries again that nobody has woken.
const LimiterRetry = 5 * time.Second

// Limiter lets only some of the workers wait for one broker, so that a broker that does not answer leaves the others to the
// resources of other brokers. Brokers are told apart by their endpoint: a hundred namespaces may have a BrokerConnection each to
// one broker. Resources get their turns in the order in which they asked.
type Limiter struct {
	limit int
	// wake has a resource reconciled whose turn has come.
	wake func(client.ObjectKey)

	mu sync.Mutex
	of map[string]*turns // by endpoint
}

// turns are those of one broker.
type turns struct {
	taken   int
	waiting []client.ObjectKey
	// offered turns are kept for resources that were woken.
	offered map[client.ObjectKey]bool
}

// NewLimiter makes a Limiter that gives each broker so many turns at a time, one at least.
func NewLimiter(limit int, wake func(client.ObjectKey)) *Limiter {
	return &Limiter{limit: max(limit, 1), wake: wake, of: map[string]*turns{}}
}

// TryAcquire gives a resource its turn at a broker, which ends with the returned function; or it is false, and the resource is
// woken when its turn has come.
func (l *Limiter) TryAcquire(endpoint string, resource client.ObjectKey) (done func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.of[endpoint]
	if t == nil {
		t = &turns{offered: map[client.ObjectKey]bool{}}
		l.of[endpoint] = t
	}
	switch {
	case t.offered[resource]:
		delete(t.offered, resource)
	case t.free(l.limit) == 0:
		if !slices.Contains(t.waiting, resource) {
			t.waiting = append(t.waiting, resource)
		}
		return nil, false
	}
	t.taken++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		t.taken--
		l.offer(endpoint, t)
	}, true
}

// free counts the turns that are neither taken nor offered.
func (t *turns) free(limit int) int { return limit - t.taken - len(t.offered) }

// Pass gives up the turns that a resource was offered and does not need: others are woken instead. It is for the end of a reconciliation
// that was not ended by ErrBusy.
func (l *Limiter) Pass(resource client.ObjectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for endpoint, t := range l.of {
		if t.offered[resource] {
			delete(t.offered, resource)
			l.offer(endpoint, t)
		}
	}
}

// offer wakes as many of those that wait as there are free turns.
func (l *Limiter) offer(endpoint string, t *turns) {
	for t.free(l.limit) > 0 && len(t.waiting) > 0 {
		next := t.waiting[0]
		t.waiting = t.waiting[1:]
		t.offered[next] = true
		go l.wake(next) // it waits for the controller to take it
	}
	if t.taken == 0 && len(t.offered) == 0 && len(t.waiting) == 0 {
		delete(l.of, endpoint)
	}
}
