package brokers

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit"
)

// RefreshRecheck is when a resource checks whether its question was answered, if the RefreshGate has not enqueued it.
const RefreshRecheck = 5 * time.Second

// RefreshGate records which resources wait for a refresh, and since when. The reconciliation ends instead of blocking a worker,
// because a refresh takes long if the broker does not answer. Each refresh enqueues the resources that wait for it.
type RefreshGate struct {
	// wake enqueues a resource.
	wake func(client.ObjectKey)

	mu        sync.Mutex
	questions map[client.ObjectKey]openQuestion
}

// Question is why a resource waits for a refresh. The answer to one question does not answer another.
type Question struct {
	About string
	// NotBefore is the earliest time at which the question may have been asked.
	NotBefore time.Time
	// CatchUp: a catch-up answers the question, which needs no refresh if events keep the snapshot current.
	CatchUp bool
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

// Pending reports whether the resource must wait. The first call with a question requests a refresh. After that refresh Pending
// removes the question and returns false.
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
	case known: // the answer enqueues the resource
	case question.CatchUp:
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
	if q.CatchUp {
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
