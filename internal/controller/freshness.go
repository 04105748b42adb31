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
	mu        sync.Mutex
	questions map[client.ObjectKey]question
}

// question is what a resource wants to know of the broker.
type question struct {
	about string
	since time.Time
}

func newFreshness() *freshness { return &freshness{questions: map[client.ObjectKey]question{}} }

// looker is a connection that looks at its broker.
type looker interface {
	LookNow()
	Health() rabbit.Health
}

// look is zero if there was a look since this question was first asked, which was not before the given time; then the
// question is answered. Otherwise it is how soon to ask again. An answer to another question is none to this one.
func (f *freshness) look(resource client.ObjectKey, connection looker, about string, notBefore time.Time) (wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked, known := f.questions[resource]
	switch {
	case !known || asked.about != about || asked.since.Before(notBefore):
		f.questions[resource] = question{about, time.Now()}
		connection.LookNow()
		return firstAsk
	case connection.Health().SyncedAt.After(asked.since):
		delete(f.questions, resource)
		return 0
	}
	return min(max(time.Since(asked.since), firstAsk), lastAsk)
}

// forget drops the question of a resource that does not ask any more.
func (f *freshness) forget(resource client.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.questions, resource)
}
