package brokers

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit"
)

// RefreshRecheck is how soon a resource checks whether its question was answered, if the RefreshGate has not enqueued it.
const RefreshRecheck = 5 * time.Second

// RefreshGate records which resources wait for a refresh, and since when. The reconciliation ends instead of blocking a worker,
// because a refresh takes long if the broker does not answer. Each refresh enqueues the resources that wait for it.
type RefreshGate struct {
	enqueue func(client.ObjectKey)

	mu        sync.Mutex
	questions map[client.ObjectKey]openQuestion
}

// Question is why a resource waits for a refresh. The answer to one question does not answer another.
type Question struct {
	About string
	// NotBefore is the earliest time at which the question may have been asked.
	NotBefore time.Time
	// CatchUp: a catch-up answers the question. It needs no refresh while events keep the snapshot current.
	CatchUp bool
}

type openQuestion struct {
	Question

	connection refresher
	since      time.Time
	enqueued   bool
}

// NewRefreshGate returns a gate for which no resource waits.
func NewRefreshGate(enqueue func(client.ObjectKey)) *RefreshGate {
	return &RefreshGate{enqueue: enqueue, questions: map[client.ObjectKey]openQuestion{}}
}

// refresher is a connection that refreshes its vhost.
type refresher interface {
	RequestRefresh()
	RequestCatchUp()
	Health() rabbit.Health
}

// Pending reports whether the resource must wait. The first call with a question requests a refresh. After that refresh Pending
// removes the question and returns false.
func (g *RefreshGate) Pending(resource client.ObjectKey, connection refresher, question Question) bool {
	g.mu.Lock()
	asked, known := g.questions[resource]
	known = known && asked.About == question.About && asked.connection == connection && !asked.since.Before(question.NotBefore)
	if known && asked.isAnsweredBy(connection.Health()) {
		delete(g.questions, resource)
		g.mu.Unlock()
		metrics.RefreshWaits.Observe(time.Since(asked.since))
		return false
	}
	if !known {
		g.questions[resource] = openQuestion{Question: question, connection: connection, since: time.Now()}
	}
	g.mu.Unlock()
	switch {
	case known: // the answer enqueues the resource
	case question.CatchUp:
		connection.RequestCatchUp()
	default:
		connection.RequestRefresh()
	}
	return true
}

// IsWaiting reports whether a resource waits for the answer of a connection to the question with this About.
func (g *RefreshGate) IsWaiting(resource client.ObjectKey, connection refresher, about string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked, known := g.questions[resource]
	return known && asked.About == about && asked.connection == connection && !asked.isAnsweredBy(connection.Health())
}

func (q openQuestion) isAnsweredBy(health rabbit.Health) bool {
	if q.CatchUp {
		return health.CurrentAt.After(q.since)
	}
	return health.SyncedAt.After(q.since)
}

// EnqueueAnswered enqueues, once each, the resources whose question to a connection is answered.
func (g *RefreshGate) EnqueueAnswered(connection refresher) {
	health := connection.Health()
	g.mu.Lock()
	var answered []client.ObjectKey
	for resource, asked := range g.questions {
		if asked.connection == connection && !asked.enqueued && asked.isAnsweredBy(health) {
			answered = append(answered, resource)
			asked.enqueued = true
			g.questions[resource] = asked
		}
	}
	g.mu.Unlock()
	for _, resource := range answered {
		g.enqueue(resource)
	}
}

// Forget removes the question of a resource.
func (g *RefreshGate) Forget(resource client.ObjectKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.questions, resource)
}

// EmitWaiting emits how many resources wait at one of the gates, or at several.
func EmitWaiting(emit metrics.Emit, gates []*RefreshGate) {
	waiting := map[client.ObjectKey]bool{}
	for _, gate := range gates {
		gate.mu.Lock()
		for resource := range gate.questions {
			waiting[resource] = true
		}
		gate.mu.Unlock()
	}
	metrics.RefreshWaiting.Emit(emit, float64(len(waiting)))
}
