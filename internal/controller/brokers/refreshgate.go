package brokers

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit"
)

// RefreshPending ends a reconciliation that has to wait for a refresh of the vhost, which wakes the resource.
type RefreshPending struct{}

func (*RefreshPending) Error() string { return "the vhost has not been refreshed yet" }

// RefreshRecheck is after what time a resource that nobody has woken looks whether its question was answered. It does not ask again.
const RefreshRecheck = 5 * time.Second

// RefreshGate records, per resource, the time after which a refresh counts. Workers end the reconciliation instead of blocking on
// the refresh, which may take as long as a broker that does not answer. Each refresh wakes the resources that wait for one.
type RefreshGate struct {
	// wake has a resource reconciled.
	wake func(client.ObjectKey)

	mu        sync.Mutex
	questions map[client.ObjectKey]openQuestion
}

// Question is what a resource wants to know of the broker. An answer to another question is none to this one.
type Question struct {
	About string
	// NotBefore is when the question may have been asked at the earliest.
	NotBefore time.Time
	// Known: it is enough to know what there is; a refresh is not needed where events tell that.
	Known bool
}

// openQuestion is a question that has been asked.
type openQuestion struct {
	Question

	connection refresher
	since      time.Time
	woken      bool
}

// NewRefreshGate makes an empty gate.
func NewRefreshGate(wake func(client.ObjectKey)) *RefreshGate {
	return &RefreshGate{wake: wake, questions: map[client.ObjectKey]openQuestion{}}
}

// refresher is a connection that refreshes its vhost.
type refresher interface {
	RequestRefresh()
	RequestCatchUp()
	Health() rabbit.Health
}

// Pending says whether the resource has to wait. It is false if there was a refresh since the question was first asked; then the
// question is answered.
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

// IsOpen reports whether a resource waits for the answer to a question to a connection.
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

// Wake has the resources reconciled, once each, whose question to a connection is answered.
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

// Forget drops the question of a resource that does not ask any more.
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
