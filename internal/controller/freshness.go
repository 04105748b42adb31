package controller

import (
	"errors"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/rabbit"
)

// freshness remembers since when a resource wants a look at its broker that is newer than its question. A worker does not
// wait for the look: it may take as long as a broker that does not answer.
type freshness struct {
	mu    sync.Mutex
	since map[client.ObjectKey]time.Time
}

func newFreshness() *freshness { return &freshness{since: map[client.ObjectKey]time.Time{}} }

// errNotLooked ends a look at a resource that has to wait for a look at its broker.
var errNotLooked = errors.New("the broker has not been looked at yet")

// freshPoll is how soon it is seen whether the look has been.
const freshPoll = 100 * time.Millisecond

// look says whether there was a look since it was first asked for; then the question is answered, and the next one is a
// new one.
func (f *freshness) look(resource client.ObjectKey, connection *rabbit.Connection) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	since, asked := f.since[resource]
	if asked && connection.Health().SyncedAt.After(since) {
		delete(f.since, resource)
		return true
	}
	if !asked {
		f.since[resource] = time.Now()
		connection.LookNow()
	}
	return false
}

func (f *freshness) forget(resource client.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.since, resource)
}
