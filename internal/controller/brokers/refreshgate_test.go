package brokers

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit"
)

// refreshedAt is a connection with refresh times that a test sets. It counts requests.
type refreshedAt struct {
	health              rabbit.Health
	refreshes, catchUps int
}

func (r *refreshedAt) RequestRefresh()       { r.refreshes++ }
func (r *refreshedAt) RequestCatchUp()       { r.catchUps++ }
func (r *refreshedAt) Health() rabbit.Health { return r.health }

func TestRefreshGate(t *testing.T) {
	t.Parallel()
	resource := client.ObjectKey{Namespace: "shop", Name: "orders"}
	connection, other := &refreshedAt{}, &refreshedAt{}
	past, future := time.Now().Add(-time.Minute), time.Now().Add(time.Minute)
	gate := NewRefreshGate(func(client.ObjectKey) {})
	for _, step := range []struct {
		name            string
		question        Question
		connection      *refreshedAt
		synced, current time.Time
		pending         bool
		refreshes       int
		catchUps        int
	}{
		{name: "a refresh before the question does not answer it", question: Question{About: "a"}, synced: future, pending: true, refreshes: 1},
		{name: "an old refresh does not answer the question", question: Question{About: "a"}, synced: past, pending: true, refreshes: 1},
		{name: "events do not replace a refresh", question: Question{About: "a"}, synced: past, current: future, pending: true, refreshes: 1},
		{name: "another question needs another refresh", question: Question{About: "b"}, synced: future, pending: true, refreshes: 2},
		{name: "a refresh after the question answers it", question: Question{About: "b"}, synced: future, refreshes: 2},
		{name: "the same question needs a new refresh after its answer", question: Question{About: "b"}, synced: future, pending: true, refreshes: 3},
		{
			name: "an event after the refresh needs a new refresh", question: Question{About: "b", NotBefore: future.Add(time.Hour)},
			synced: future, pending: true, refreshes: 4,
		},
		{name: "another connection needs its own refresh", question: Question{About: "b"}, connection: other, synced: future, pending: true, refreshes: 1},
		{name: "a question for a catch-up requests a catch-up", question: Question{About: "c", CatchUp: true}, pending: true, refreshes: 4, catchUps: 1},
		{name: "a catch-up answers a question for a catch-up", question: Question{About: "c", CatchUp: true}, synced: past, current: future, refreshes: 4, catchUps: 1},
	} {
		asked := connection
		if step.connection != nil {
			asked = step.connection
		}
		asked.health = rabbit.Health{SyncedAt: step.synced, CurrentAt: step.current}
		if pending := gate.Pending(resource, asked, step.question); pending != step.pending {
			t.Errorf("%s: pending %v", step.name, pending)
		}
		if asked.refreshes != step.refreshes || asked.catchUps != step.catchUps {
			t.Errorf("%s: %d refreshes and %d catch-ups were requested", step.name, asked.refreshes, asked.catchUps)
		}
	}
	gate.Pending(resource, connection, Question{About: "d"})
	for about, waits := range map[string]bool{"d": true, "e": false} {
		if gate.IsWaiting(resource, connection, about) != waits {
			t.Errorf("waiting for the answer about %s: %v", about, !waits)
		}
	}
	gate.Forget(resource)
	connection.health.SyncedAt = future
	if !gate.Pending(resource, connection, Question{About: "d"}) {
		t.Error("a forgotten question is answered")
	}
}

func TestARefreshEnqueuesTheResourcesWhoseQuestionsItAnswers(t *testing.T) {
	t.Parallel()
	var enqueued []string
	gate := NewRefreshGate(func(resource client.ObjectKey) { enqueued = append(enqueued, resource.Name) })
	connection, other := &refreshedAt{}, &refreshedAt{}
	gate.Pending(client.ObjectKey{Name: "answered"}, connection, Question{About: "a"})
	gate.Pending(client.ObjectKey{Name: "of another connection"}, other, Question{About: "a"})
	gate.EnqueueAnswered(connection)
	connection.health.SyncedAt = time.Now().Add(time.Second)
	other.health.SyncedAt = connection.health.SyncedAt
	gate.EnqueueAnswered(connection)
	gate.EnqueueAnswered(connection)
	if len(enqueued) != 1 || enqueued[0] != "answered" {
		t.Errorf("enqueued: %q", enqueued)
	}
}

func TestEmitWaiting(t *testing.T) {
	t.Parallel()
	orders, returns := client.ObjectKey{Namespace: "shop", Name: "orders"}, client.ObjectKey{Namespace: "shop", Name: "returns"}
	gates := []*RefreshGate{NewRefreshGate(func(client.ObjectKey) {}), NewRefreshGate(func(client.ObjectKey) {})}
	gates[0].Pending(orders, &refreshedAt{}, Question{About: "a"})
	gates[1].Pending(orders, &refreshedAt{}, Question{About: "b"})
	gates[1].Pending(returns, &refreshedAt{}, Question{About: "b"})
	const want = `
		# HELP warren_refresh_waiting ConsumerQueues that wait for a refresh of their vhost.
		# TYPE warren_refresh_waiting gauge
		warren_refresh_waiting 2
	`
	collector := metrics.NewCollector(func(emit metrics.Emit) { EmitWaiting(emit, gates) })
	if err := testutil.CollectAndCompare(collector, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
