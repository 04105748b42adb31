package controller

import (
	"errors"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errNoTurn ends a look at a resource whose turn it is not.
var errNoTurn = errors.New("others are waiting for the same broker")

// turnPoll is when a resource tries again that nobody has woken.
const turnPoll = 5 * time.Second

// turns lets only some of the workers wait for one broker, so that a broker that does not answer leaves the others to the
// resources of other brokers.
type turns struct {
	limit int
	// wake has a resource reconciled whose turn may have come.
	wake func(client.ObjectKey)

	mu      sync.Mutex
	taken   map[client.ObjectKey]int // by BrokerConnection
	waiting map[client.ObjectKey][]client.ObjectKey
}

func newTurns(limit int, wake func(client.ObjectKey)) *turns {
	return &turns{
		limit: max(limit, 1), wake: wake,
		taken: map[client.ObjectKey]int{}, waiting: map[client.ObjectKey][]client.ObjectKey{},
	}
}

// take gives a resource its turn, which ends with the returned function; or it is false, and the resource is woken when
// there may be one.
func (t *turns) take(connection, resource client.ObjectKey) (done func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken[connection] >= t.limit {
		if !slices.Contains(t.waiting[connection], resource) {
			t.waiting[connection] = append(t.waiting[connection], resource)
		}
		return nil, false
	}
	t.taken[connection]++
	return func() { t.end(connection) }, true
}

func (t *turns) end(connection client.ObjectKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken[connection]--
	if t.taken[connection] == 0 {
		delete(t.taken, connection)
	}
	waiting := t.waiting[connection]
	if len(waiting) == 0 {
		delete(t.waiting, connection)
		return
	}
	t.waiting[connection] = waiting[1:]
	go t.wake(waiting[0]) // it waits for the controller to take it
}
