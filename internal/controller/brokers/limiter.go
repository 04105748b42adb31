package brokers

import (
	"errors"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/metrics"
)

// ErrBusy ends the reconciliation of a resource whose turn it is not.
var ErrBusy = errors.New("others are waiting for the same broker")

// LimiterRetry is after what time a resource that nobody has woken tries again. Thousands may wait, and be woken, before that.
const LimiterRetry = 30 * time.Second

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
	waiting []waiter
	// offered turns are kept for resources that were woken.
	offered map[client.ObjectKey]waiter
}

// waiter is a resource that waits for its turn at a broker.
type waiter struct {
	resource client.ObjectKey
	since    time.Time
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
		t = &turns{offered: map[client.ObjectKey]waiter{}}
		l.of[endpoint] = t
	}
	wait := time.Duration(0)
	if woken, offered := t.offered[resource]; offered {
		delete(t.offered, resource)
		wait = time.Since(woken.since)
	} else if t.free(l.limit) == 0 {
		if !slices.ContainsFunc(t.waiting, func(w waiter) bool { return w.resource == resource }) {
			t.waiting = append(t.waiting, waiter{resource, time.Now()})
		}
		return nil, false
	}
	metrics.LimiterWaits.Observe(wait)
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
		if _, offered := t.offered[resource]; offered {
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
		t.offered[next.resource] = next
		go l.wake(next.resource) // it waits for the controller to take it
	}
	if t.taken == 0 && len(t.offered) == 0 && len(t.waiting) == 0 {
		delete(l.of, endpoint)
	}
}

// EmitMetrics emits how many resources wait.
func (l *Limiter) EmitMetrics(emit metrics.Emit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := 0
	for _, t := range l.of {
		waiting += len(t.waiting)
	}
	metrics.LimiterWaiting.Emit(emit, float64(waiting))
}
