package deadletterjob

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// world is a Reconciler with an API server and a broker in memory, perhaps a ConsumerQueue, and a Redrive or Purge named again.
type world struct {
	T          *testing.T
	API        client.WithWatch
	Broker     *brokerstest.Broker
	Mover      *brokerstest.Mover // moves messages instead of Broker, if not nil
	Pool       *brokers.Pool
	Reconciler *Reconciler
	Events     *controllertest.EventLog
	Enqueued   controllertest.Enqueued

	kind Kind
	// shared: another ConsumerQueue shares the dead-letter queue.
	shared bool
	// sharingUnknown: Warren cannot determine whether another ConsumerQueue shares the dead-letter queue.
	sharingUnknown bool
}

// again is the name of the object that is reconciled.
var again = client.ObjectKey{Namespace: "shop", Name: "again"}

// created sets the fields that the API server sets, with a creation time of this second.
func created[T client.Object](object T, name string, second int) T {
	object.SetNamespace("shop")
	object.SetName(name)
	object.SetUID("uid")
	object.SetGeneration(1)
	object.SetCreationTimestamp(metav1.NewTime(time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC)))
	return object
}

// newWorld returns a world. The broker has the queues of the ConsumerQueue, which may be nil.
func newWorld(t *testing.T, cq *v1alpha1.ConsumerQueue, kind Kind, object client.Object) *world {
	t.Helper()
	bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{})
	bc.UID = "uid"
	bc.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected, ObservedGeneration: bc.Generation,
	}}
	objects := []client.Object{bc, object}
	w := &world{
		T: t, Broker: brokerstest.New(vhost.RabbitMQ43, "/", "uid"), Events: &controllertest.EventLog{}, Enqueued: controllertest.NewEnqueued(),
		kind: kind,
	}
	if cq != nil {
		objects = append(objects, cq)
		topo, err := topology.Desired(cq, topologytest.V43)
		if err != nil {
			t.Fatal(err)
		}
		w.Broker.Change(func(s *snapshot.Snapshot) {
			for _, queue := range topo.Queues {
				s.PutQueue(queue.Name, vhost.Queue{Durable: true, Arguments: vhost.Normalize(queue.Arguments)})
			}
		})
	}
	w.API = controllertest.Client(t, []controllertest.AddIndexes{AddIndexes, brokers.AddIndexes}, objects...)
	w.Restart()
	return w
}

// HoldMoves makes moves run until the test ends them, and restarts the Reconciler.
func (w *world) HoldMoves() {
	w.T.Helper()
	w.Mover = brokerstest.NewMover(w.Broker)
	w.Restart()
}

// Restart replaces the Reconciler by a new one without memory.
func (w *world) Restart() {
	w.T.Helper()
	w.Pool = brokers.NewPool(w.API, logr.Discard(), func(rabbit.Config, logr.Logger, func(snapshot.Notice)) (*brokers.Broker, error) {
		opened := &brokers.Broker{Probe: w.Broker, Observer: w.Broker, Changer: w.Broker, Mover: w.Broker}
		if w.Mover != nil {
			opened.Mover = w.Mover
		}
		return opened, nil
	})
	if _, err := w.Pool.Ensure(client.ObjectKey{Namespace: "shop", Name: "default"}, time.Time{}, rabbit.Config{Owner: "uid"}); err != nil {
		w.T.Fatal(err)
	}
	shared := func(context.Context, *v1alpha1.ConsumerQueue, string, vhost.Version) (bool, bool) {
		return w.shared, !w.sharingUnknown
	}
	w.Reconciler = &Reconciler{
		Kind: w.kind, Client: w.API, Recorder: w.Events, Finder: NewFinder(w.API, w.Pool, shared),
		Tasks: w.Tasks(w.T.Context()), Limiter: brokers.NewLimiter(workers, w.Enqueued.Enqueue), Now: time.Now, Log: logr.Discard(),
	}
}

// Tasks returns Tasks that end with a context, and enqueue in the world.
func (w *world) Tasks(lifetime context.Context) *Tasks {
	tasks := NewTasks(lifetime, &Register{})
	tasks.OnEnqueue(w.kind, w.Enqueued.Enqueue)
	return tasks
}

func (w *world) Reconcile() {
	w.T.Helper()
	w.ReconcileAt(again)
}

// ReconcileAt reconciles the object with this name once.
func (w *world) ReconcileAt(key client.ObjectKey) {
	w.T.Helper()
	if _, err := w.Reconciler.Reconcile(w.T.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		w.T.Fatal(err)
	}
}

// ReconcileWhenEnqueued waits until the object is enqueued, and reconciles it.
func (w *world) ReconcileWhenEnqueued() {
	w.T.Helper()
	topologytest.Equal(w.T, "enqueued", again, <-w.Enqueued)
	w.Reconcile()
}

// LoseAnswer reconciles the object once. The API server writes a status, and its answer is lost.
func (w *world) LoseAnswer() {
	w.T.Helper()
	w.Reconciler.Client = unanswered{w.API}
	if _, err := w.Reconciler.Reconcile(w.T.Context(), ctrl.Request{NamespacedName: again}); !errors.Is(err, errNoAnswer) {
		w.T.Fatalf("Reconcile returned %v", err)
	}
	w.Reconciler.Client = w.API
}

var errNoAnswer = errors.New("the request timed out")

// unanswered is a client that gets no answers to its updates of statuses.
type unanswered struct{ client.WithWatch }

func (u unanswered) Status() client.SubResourceWriter { return unansweredWriter{u.WithWatch.Status()} }

type unansweredWriter struct{ client.SubResourceWriter }

func (u unansweredWriter) Update(ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	return cmp.Or(u.SubResourceWriter.Update(ctx, object, options...), errNoAnswer)
}

// readyText returns Ready and the other conditions of a job as one line.
func readyText(conditions []metav1.Condition) string {
	text := strings.Builder{}
	for _, name := range []string{"Ready", "Reconciling", "Stalled", "Suspended", "Complete", "Failed"} {
		if c := meta.FindStatusCondition(conditions, name); c != nil {
			text.WriteString(name + "=" + string(c.Status) + " " + c.Reason + " ")
		}
	}
	return text.String()
}
