package controller

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/rabbit"
)

// notLooked ends a look at a resource that has to wait for a look at its broker.
type notLooked struct{ wait time.Duration }

func (*notLooked) Error() string { return "the broker has not been looked at yet" }

// A look is asked about again soon at first and less often later: thousands may wait for one broker.
const (
	firstAsk = 100 * time.Millisecond
	lastAsk  = 2 * time.Second
)

// freshness remembers since when a resource wants a look at its broker that is newer than its question. A worker does not
// wait for the look: it may take as long as a broker that does not answer.
type freshness struct {
	mu    sync.Mutex
	since map[client.ObjectKey]time.Time
}

func newFreshness() *freshness { return &freshness{since: map[client.ObjectKey]time.Time{}} }

// look is zero if there was a look since it was first asked for, which was not before the given time; then the question is
// answered, and the next one is a new one. Otherwise it is how soon to ask again.
func (f *freshness) look(resource client.ObjectKey, connection *rabbit.Connection, notBefore time.Time) (wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	since, asked := f.since[resource]
	switch {
	case !asked || since.Before(notBefore):
		f.since[resource] = time.Now()
		connection.LookNow()
		return firstAsk
	case connection.Health().SyncedAt.After(since):
		delete(f.since, resource)
		return 0
	}
	return min(max(time.Since(since), firstAsk), lastAsk)
}

func (f *freshness) forget(resource client.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.since, resource)
}
