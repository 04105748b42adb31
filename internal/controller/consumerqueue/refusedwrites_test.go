package consumerqueue

import (
	"errors"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// shopBinding is the binding of the main queue in newBoundWorld.
var shopBinding = vhost.Binding{Source: "shop", Destination: "orders", RoutingKey: "a"}

// newBoundWorld returns a world with a ConsumerQueue in sync, whose main queue is bound to an exchange of another client.
func newBoundWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, controllertest.ConsumerQueue(t, `{bindings: [{exchange: {name: shop}, routingKeys: [a]}]}`))
	w.broker.Change(func(s *snapshot.Snapshot) { s.PutExchange("shop", vhost.Exchange{Type: "topic", Durable: true}) })
	_, err := w.reconcile()
	topologytest.Equal(t, "error", nil, err)
	return w
}

// A refused write is retried once after a refresh, which shows changes of other clients. Only the second refusal is reported.
// The worker does not wait for the refresh. A lost connection is reported immediately.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		interfere func(*snapshot.Snapshot)
		fails     error
		want      []occurrence
		reason    string
		err       error
		refreshes int
	}{
		"the queue was deleted": {
			interfere: func(s *snapshot.Snapshot) { s.DropQueue("orders") }, reason: "InSync", refreshes: 1,
			want: []occurrence{
				{"Warning", "DriftDetected", "Compare", `queue "orders" is not bound to exchange "shop" with routing key "a"`},
				{"Normal", "DriftCorrected", "Correct", "declared 1 queue and 1 binding; the broker matches the spec again"},
			},
		},
		"the exchange was deleted": {
			interfere: func(s *snapshot.Snapshot) { s.DropExchange("shop") }, reason: "ExchangeMissing", refreshes: 1,
			want: []occurrence{
				{"Warning", "DriftDetected", "Compare", `queue "orders" is not bound to exchange "shop" with routing key "a"`},
			},
		},
		"the broker reports not found, and no object was deleted": {fails: brokererr.ErrNotFound, reason: "Correcting", err: brokererr.ErrNotFound, refreshes: 1},
		"the broker refuses access": {fails: brokererr.ErrAccessRefused, reason: "PermissionDenied", refreshes: 1, want: []occurrence{
			{"Warning", "DriftDetected", "Compare", `queue "orders" is not bound to exchange "shop" with routing key "a"`},
		}},
		"the write times out, and the broker answers a refresh": {
			fails: brokererr.ErrTimeout, reason: "Correcting", err: brokererr.ErrTimeout, refreshes: 1,
		},
		"the connection was lost": {fails: brokererr.ErrUnreachable, reason: "Correcting", err: brokererr.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newBoundWorld(t)
			before := w.broker.Refreshes()
			w.broker.Change(func(s *snapshot.Snapshot) { s.DropBinding(shopBinding) })
			w.broker.Fail(shopBinding.ID(), test.fails)
			w.broker.Interfere(test.interfere)
			occurred, err := w.reconcile()
			topologytest.Equal(t, "error", true, errors.Is(err, test.err))
			topologytest.Equal(t, "reason", test.reason, conditions.Ready(w.get().Status.Conditions).Reason)
			topologytest.Equal(t, "refreshes", test.refreshes, w.broker.Refreshes()-before)
			if test.err == nil {
				topologytest.Equal(t, "events", test.want, occurred, comparingOccurrences)
			}
		})
	}
}

// RabbitMQ deletes the bindings of a queue before the queue. If an event shows after the refusal of a binding that its queue is gone, Warren
// declares both. It does not wait for the refresh that the refusal requested, which may come much later.
func TestAnEventAfterARefusedWrite(t *testing.T) {
	t.Parallel()
	w := newBoundWorld(t)
	w.broker.Change(func(s *snapshot.Snapshot) { s.DropBinding(shopBinding) })
	w.broker.Fail(shopBinding.ID(), brokererr.ErrNotFound)
	before := w.broker.Refreshes()
	w.reconciler.index.Update(w.cached())
	refused, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: controllertest.Orders})
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "refreshes", 1, w.broker.Refreshes()-before)
	topologytest.Equal(t, "waits", true, refused.RequeueAfter > 0 && refused.RequeueAfter <= 2*brokers.RefreshRecheck)

	old := time.Now().Add(-time.Hour)
	w.broker.SetHealth(func(health *rabbit.Health) { health.SyncedAt, health.CurrentAt = old, old }) // no refresh since
	w.broker.Change(func(s *snapshot.Snapshot) { s.DropQueue("orders") })
	w.broker.Fail(shopBinding.ID(), nil)
	_, err = w.reconcile()
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "reason", "InSync", conditions.Ready(w.get().Status.Conditions).Reason)
}

// The first attempt declares the queue, and the second one is only about its binding. The second refusal of the binding is reported.
func TestARefusedWriteBesideASuccessfulOne(t *testing.T) {
	t.Parallel()
	w := newBoundWorld(t)
	before := w.broker.Refreshes()
	w.broker.Change(func(s *snapshot.Snapshot) { s.DropQueue("orders") })
	w.broker.Fail(shopBinding.ID(), brokererr.ErrAccessRefused)
	_, err := w.reconcile()
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "reason", "PermissionDenied", conditions.Ready(w.get().Status.Conditions).Reason)
	topologytest.Equal(t, "refreshes", 1, w.broker.Refreshes()-before)
}

// A source binding brings messages. Without the dead-letter queue, the rejected ones would be lost.
func TestNoSourceBindingBesideAFailedDeclaration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.ConsumerQueue(t, `{bindings: [{exchange: {name: shop}, routingKeys: [a]}]}`))
	w.broker.Change(func(s *snapshot.Snapshot) { s.PutExchange("shop", vhost.Exchange{Type: "topic", Durable: true}) })
	bound := func() []vhost.Binding {
		observed, _ := w.broker.Observe(vhost.Selection{Queues: []string{"orders"}})
		return observed.BindingsTo["orders"]
	}
	w.broker.Fail(vhost.QueueID("orders.dlq"), brokererr.ErrAccessRefused)
	w.mustReconcile()
	topologytest.Equal(t, "queues", []string{"orders"}, w.queueNames("orders", "orders.dlq"))
	topologytest.Equal(t, "bindings", nil, bound())
	w.broker.Fail(vhost.QueueID("orders.dlq"), nil)
	w.mustReconcile()
	topologytest.Equal(t, "bindings once the dead-letter queue is declared", []vhost.Binding{shopBinding}, bound())
}
