package brokers

import (
	"errors"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrBusy ends a look at a resource whose turn it is not.
var ErrBusy = errors.New("others are waiting for the same broker")

// LimiterRetry is when a resource tries again that nobody has woken.
const LimiterRetry = 5 * time.Second

// Limiter lets only some of the workers wait for one broker, so that a broker that does not answer leaves the others to the
// resources of other brokers.
type Limiter struct {
	limit int
	// wake has a resource reconciled whose turn may have come.
	wake func(client.ObjectKey)

	mu      sync.Mutex
	inUse   map[client.ObjectKey]int // by BrokerConnection
	waiting map[client.ObjectKey][]client.ObjectKey
}

func NewLimiter(limit int, wake func(client.ObjectKey)) *Limiter {
	return &Limiter{
		limit: max(limit, 1), wake: wake,
		inUse: map[client.ObjectKey]int{}, waiting: map[client.ObjectKey][]client.ObjectKey{},
	}
}

// TryAcquire gives a resource its turn, which ends with the returned function; or it is false, and the resource is woken when
// there may be one.
func (t *Limiter) TryAcquire(connection, resource client.ObjectKey) (done func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inUse[connection] >= t.limit {
		if !slices.Contains(t.waiting[connection], resource) {
			t.waiting[connection] = append(t.waiting[connection], resource)
		}
		return nil, false
	}
	t.inUse[connection]++
	return func() { t.release(connection) }, true
}

func (t *Limiter) release(connection client.ObjectKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inUse[connection]--
	if t.inUse[connection] == 0 {
		delete(t.inUse, connection)
	}
	waiting := t.waiting[connection]
	if len(waiting) == 0 {
		delete(t.waiting, connection)
		return
	}
	t.waiting[connection] = waiting[1:]
	go t.wake(waiting[0]) // it waits for the controller to take it
}
