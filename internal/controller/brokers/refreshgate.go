package brokers

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit"
)

// RefreshRecheck is after what time a resource checks whether its question was answered, if it was not woken. It does not ask
// again.
const RefreshRecheck = 5 * time.Second

// RefreshGate records which resources wait for a refresh, and since when. Workers end the reconciliation instead of blocking on
// the refresh, which can take long if the broker does not answer. Each refresh enqueues the resources that wait for it.
type RefreshGate struct {
	// wake enqueues a resource.
	wake func(client.ObjectKey)

	mu        sync.Mutex
	questions map[client.ObjectKey]openQuestion
}

// Question is what a resource waits to know. The answer to one question does not answer another.
type Question struct {
	About string
	// NotBefore is the earliest time at which the question may have been asked.
	NotBefore time.Time
	// Known: a current snapshot suffices. No refresh is needed if events keep the snapshot current.
	Known bool
}

type openQuestion struct {
	Question

	connection refresher
	since      time.Time
	woken      bool
}

// NewRefreshGate returns a gate for which no resource waits.
func NewRefreshGate(wake func(client.ObjectKey)) *RefreshGate {
	return &RefreshGate{wake: wake, questions: map[client.ObjectKey]openQuestion{}}
}

// refresher is a connection that refreshes its vhost.
type refresher interface {
	RequestRefresh()
	RequestCatchUp()
	Health() rabbit.Health
}

// Pending reports whether the resource must wait. It returns false if the vhost was refreshed since the question was first asked;
// that answers the question.
func (f *RefreshGate) Pending(resource client.ObjectKey, connection refresher, question Question) bool {
	f.mu.Lock()
	asked, known := f.questions[resource]
	known = known && asked.About == question.About && asked.connection == connection && !asked.since.Before(question.NotBefore)
	if known && asked.isAnsweredBy(connection.Health()) {
		delete(f.questions, resource)
		f.mu.Unlock()
		metrics.RefreshWaits.Observe(time.Since(asked.since))
		return false
	}
	if !known {
		f.questions[resource] = openQuestion{Question: question, connection: connection, since: time.Now()}
	}
	f.mu.Unlock()
	switch {
	case known: // the answer wakes the resource
	case question.Known:
		connection.RequestCatchUp()
	default:
		connection.RequestRefresh()
	}
	return true
}

// IsOpen reports whether a resource waits for the answer of a connection.
func (f *RefreshGate) IsOpen(resource client.ObjectKey, connection refresher) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked, known := f.questions[resource]
	return known && asked.connection == connection && !asked.isAnsweredBy(connection.Health())
}

func (q openQuestion) isAnsweredBy(health rabbit.Health) bool {
	if q.Known {
		return health.CurrentAt.After(q.since)
	}
	return health.SyncedAt.After(q.since)
}

// Wake enqueues, once each, the resources whose question to a connection is answered.
func (f *RefreshGate) Wake(connection refresher) {
	health := connection.Health()
	f.mu.Lock()
	var answered []client.ObjectKey
	for resource, asked := range f.questions {
		if asked.connection == connection && !asked.woken && asked.isAnsweredBy(health) {
			answered = append(answered, resource)
			asked.woken = true
			f.questions[resource] = asked
		}
	}
	f.mu.Unlock()
	for _, resource := range answered {
		f.wake(resource)
	}
}

// Forget removes the question of a resource.
func (f *RefreshGate) Forget(resource client.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.questions, resource)
}

// EmitMetrics emits how many resources wait.
func (f *RefreshGate) EmitMetrics(emit metrics.Emit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	metrics.RefreshWaiting.Emit(emit, float64(len(f.questions)))
}
