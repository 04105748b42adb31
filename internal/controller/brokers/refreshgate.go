package brokers

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit"
)

// RefreshPending ends a reconciliation that has to wait for a refresh of the vhost.
type RefreshPending struct{ Wait time.Duration }

func (*RefreshPending) Error() string { return "the vhost has not been refreshed yet" }

// A refresh is asked about again soon at first and less often later: thousands may wait for one broker.
const (
	MinRecheck = 100 * time.Millisecond
	MaxRecheck = 2 * time.Second
)

// RefreshGate records, per resource, the time after which a refresh counts. Workers requeue the resource instead of blocking on the
// refresh, which may take as long as a broker that does not answer.
type RefreshGate struct {
	mu        sync.Mutex
	questions map[client.ObjectKey]question
}

// question is what a resource wants to know of the broker.
type question struct {
	about string
	since time.Time
}

// NewRefreshGate makes an empty gate.
func NewRefreshGate() *RefreshGate { return &RefreshGate{questions: map[client.ObjectKey]question{}} }

// refresher is a connection that refreshes its vhost.
type refresher interface {
	RequestRefresh()
	Health() rabbit.Health
}

// Pending is zero if there was a refresh since this question was first asked, which was not before the given time; then the
// question is answered. Otherwise it is how soon to ask again. An answer to another question is none to this one.
func (f *RefreshGate) Pending(resource client.ObjectKey, connection refresher, about string, notBefore time.Time) (wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked, known := f.questions[resource]
	switch {
	case !known || asked.about != about || asked.since.Before(notBefore):
		f.questions[resource] = question{about, time.Now()}
		connection.RequestRefresh()
		return MinRecheck
	case connection.Health().SyncedAt.After(asked.since):
		metrics.RefreshWaits.Observe(time.Since(asked.since))
		delete(f.questions, resource)
		return 0
	}
	return min(max(time.Since(asked.since), MinRecheck), MaxRecheck)
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
