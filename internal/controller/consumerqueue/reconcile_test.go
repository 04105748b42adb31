package consumerqueue

import (
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/deadletterjob"
	"github.com/warren-mq/warren/internal/controller/retrybudget"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// world is a reconciler with an API server and a broker in memory, and one ConsumerQueue named orders.
type world struct {
	t          testing.TB
	api        client.WithWatch
	broker     *brokerstest.Broker
	reconciler *Reconciler
	recorder   *occurrenceLog
	// clock is the clock of contracts and of repeatedly deleted objects.
	clock *testclock.FakePassiveClock
	// recreator is the broker side of recreations.
	recreator *memoryRecreator
}

// occurrenceLog records Events.
type occurrenceLog struct {
	events.EventRecorder

	occurred []occurrence
}

func (l *occurrenceLog) Eventf(_, _ runtime.Object, kind, reason, action, _ string, args ...any) {
	l.occurred = append(l.occurred, occurrence{kind, reason, action, args[0].(string)})
}

func newWorld(t testing.TB, objects ...client.Object) *world {
	t.Helper()
	bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{})
	bc.UID, bc.Finalizers = "uid", []string{v1alpha1.ConnectionFinalizer}
	bc.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected, ObservedGeneration: bc.Generation,
	}}
	w := &world{
		t: t, api: controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, deadletterjob.AddIndexes}, append(objects, bc)...),
		broker: brokerstest.New(vhost.RabbitMQ43, bc.Spec.VHost, string(bc.UID)), recorder: &occurrenceLog{},
		clock: testclock.NewFakePassiveClock(time.Now()),
	}
	w.recreator = &memoryRecreator{broker: w.broker}
	w.restart()
	return w
}

// restart replaces the reconciler by a new one without memory.
func (w *world) restart() {
	w.t.Helper()
	pool := brokers.NewPool(w.api, logr.Discard(), func(rabbit.Config, logr.Logger, func(snapshot.Notice)) (*brokers.Broker, error) {
		return &brokers.Broker{
			Probe: w.broker, Observer: w.broker, Changer: w.broker, Mover: w.broker,
			Recreator:       func(string) brokers.Recreator { return w.recreator },
			LostRecreations: func(string) brokers.LostRecreations { return w.recreator },
		}, nil
	})
	key := client.ObjectKey{Namespace: controllertest.Orders.Namespace, Name: "default"}
	if _, err := pool.Ensure(key, time.Time{}, rabbit.Config{Owner: w.broker.Owner()}); err != nil {
		w.t.Fatal(err)
	}
	enqueue := func(client.ObjectKey) {}
	w.reconciler = &Reconciler{
		client: w.api, live: w.api, leadsSince: sync.OnceValue(time.Now), recorder: w.recorder, pool: pool, deletions: brokers.NewDeletionTasks(w.t.Context(), enqueue),
		index: ownership.NewIndex(), claimLock: ownership.NewClaimLock(), handover: ownership.NewHandover(),
		refreshes: brokers.NewRefreshGate(enqueue), removals: brokers.NewRefreshGate(enqueue), refusals: brokers.NewRefreshGate(enqueue),
		redeclared: newRedeclared(w.clock), limiter: brokers.NewLimiter(1, enqueue),
		deleted: retrybudget.NewFirstSeen(clock.RealClock{}), contracts: retrybudget.NewFirstSeen(w.clock), restored: retrybudget.NewFirstSeen(w.clock),
		recreations: newRecreationTasks(w.t.Context(), enqueue),
	}
}

func (w *world) get() *v1alpha1.ConsumerQueue {
	w.t.Helper()
	cq := &v1alpha1.ConsumerQueue{}
	if err := w.api.Get(w.t.Context(), controllertest.Orders, cq); err != nil {
		w.t.Fatal(err)
	}
	return cq
}

// cached returns the ConsumerQueue as the manager's cache has it.
func (w *world) cached() *v1alpha1.ConsumerQueue {
	w.t.Helper()
	cq := w.get()
	ownership.RestoreIntents(cq)
	return cq
}

// edit replaces the spec of the ConsumerQueue.
func (w *world) edit(spec v1alpha1.ConsumerQueueSpec) {
	w.t.Helper()
	cq := w.get()
	cq.Spec, cq.Generation = spec, cq.Generation+1
	if err := w.api.Update(w.t.Context(), cq); err != nil {
		w.t.Fatal(err)
	}
}

// reconcile reconciles the ConsumerQueue until it is not requeued soon, and returns the recorded Events.
func (w *world) reconcile() ([]occurrence, error) {
	w.t.Helper()
	w.recorder.occurred = nil
	for range 10 {
		w.reconciler.index.Update(w.cached())
		result, err := w.reconciler.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: controllertest.Orders})
		if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > 2*brokers.RefreshRecheck {
			return w.recorder.occurred, err
		}
	}
	w.t.Fatal("the ConsumerQueue is requeued after ten reconciliations")
	return nil, nil
}

// declare declares a topology as another client would. It replaces no object.
func declare(s *snapshot.Snapshot, topo topology.Topology) {
	for _, exchange := range topo.Exchanges {
		s.PutExchange(exchange.Name, vhost.Exchange{Type: string(exchange.Type), Durable: true})
	}
	for _, queue := range topo.Queues {
		s.PutQueue(queue.Name, vhost.Queue{Durable: true, Arguments: vhost.Normalize(queue.Arguments)})
	}
	for _, binding := range topo.Bindings {
		s.PutBinding(vhost.Binding{
			Source: binding.Source, Destination: binding.Destination, RoutingKey: binding.RoutingKey, Arguments: vhost.Normalize(binding.Arguments),
		})
	}
}
