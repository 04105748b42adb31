package redrive

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// world is a reconciler with an API server and a broker in memory, a ConsumerQueue named orders that is in sync, and a Redrive named
// again.
type world struct {
	t          *testing.T
	api        client.WithWatch
	broker     *brokerstest.Broker
	mover      *mover // takes the place of the broker's Transfer; nil for that of the broker
	reconciler *Reconciler
	events     *controllertest.EventLog
	shares     bool
	told       controllertest.Told
}

// slowBroker has transfers that go on until they are told to end.
type slowBroker struct {
	*brokerstest.Broker
	*mover
}

func (b slowBroker) Transfer(ctx context.Context, cluster string, config transfer.Config) (transfer.Progress, error) {
	return b.mover.Transfer(ctx, cluster, config)
}

var again = client.ObjectKey{Namespace: "shop", Name: "again"}

func newWorld(t *testing.T, cq *v1alpha1.ConsumerQueue, redriveSpec string) *world {
	t.Helper()
	bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{})
	bc.UID = "uid"
	bc.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected, ObservedGeneration: bc.Generation,
	}}
	redrive := redriveOf("again", 1, func(r *v1alpha1.Redrive) {
		if err := yaml.UnmarshalStrict([]byte(redriveSpec), &r.Spec); err != nil {
			t.Fatal(err)
		}
		r.Generation = 1
	})
	objects := []client.Object{bc, redrive}
	w := &world{t: t, broker: brokerstest.New(vhost.RabbitMQ43, "/", "uid"), events: &controllertest.EventLog{}, told: controllertest.NewTold()}
	if cq != nil {
		objects = append(objects, cq)
		topo, err := topology.Desired(cq, topologytest.V43)
		if err != nil {
			t.Fatal(err)
		}
		w.broker.Change(func(s *snapshot.Snapshot) {
			for _, queue := range topo.Queues {
				s.PutQueue(queue.Name, vhost.Queue{Durable: true, Arguments: vhost.Normalize(queue.Arguments)})
			}
		})
	}
	w.api = controllertest.Client(t, []controllertest.AddIndexes{AddIndexes, brokers.AddIndexes}, objects...)
	w.restart()
	return w
}

// restart makes a reconciler that remembers nothing.
func (w *world) restart() {
	w.t.Helper()
	pool := brokers.NewPool(w.api, logr.Discard(), func(rabbit.Config, logr.Logger, func(snapshot.Notice)) (brokers.Broker, error) {
		if w.mover != nil {
			return slowBroker{w.broker, w.mover}, nil
		}
		return w.broker, nil
	})
	if _, err := pool.Ensure(client.ObjectKey{Namespace: "shop", Name: "default"}, rabbit.Config{Owner: "uid"}); err != nil {
		w.t.Fatal(err)
	}
	w.reconciler = &Reconciler{
		client: w.api, recorder: w.events, pool: pool, tasks: newTasks(w.t.Context(), w.told.Tell), now: time.Now, log: logr.Discard(),
		sharesQueue: func(context.Context, *v1alpha1.ConsumerQueue, string, vhost.Version) (bool, bool) {
			return w.shares, true
		},
	}
}

func (w *world) reconcile() *v1alpha1.Redrive {
	w.t.Helper()
	if _, err := w.reconciler.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: again}); err != nil {
		w.t.Fatal(err)
	}
	return w.get()
}

func (w *world) get() *v1alpha1.Redrive {
	w.t.Helper()
	redrive := &v1alpha1.Redrive{}
	if err := w.api.Get(w.t.Context(), again, redrive); err != nil {
		w.t.Fatal(err)
	}
	return redrive
}

// inSync is a ConsumerQueue that is in sync with its spec.
func inSync(t *testing.T, spec string) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := controllertest.Synced(t, "orders", spec, "")
	cq.Status.ObservedGeneration = cq.Generation
	return cq
}

const all = `{consumerQueueRef: {name: orders}}`

// ready is what Ready says, with the condition that tells of progress.
func ready(redrive *v1alpha1.Redrive) string {
	text := ""
	for _, name := range []string{"Ready", "Reconciling", "Stalled", "Suspended"} {
		if c := meta.FindStatusCondition(redrive.Status.Conditions, name); c != nil {
			text += name + "=" + string(c.Status) + " " + c.Reason + " "
		}
	}
	return text
}

func TestWhyARedriveMovesNothing(t *testing.T) {
	t.Parallel()
	began := func(change func(*v1alpha1.RedriveStatus)) func(*v1alpha1.Redrive) {
		return func(r *v1alpha1.Redrive) {
			r.Status.Total, r.Status.Moved, r.Status.Source, r.Status.VHost = new(int64(9)), new(int64(4)), "orders.dlq", "/"
			r.Status.ClusterName, r.Status.ClusterEndpoint = "rabbit@memory", "memory:5672"
			r.Status.StartTime = new(metav1.Now())
			change(&r.Status)
		}
	}
	for name, test := range map[string]struct {
		cq      func(*v1alpha1.ConsumerQueue)
		broker  func(*brokerstest.Broker)
		redrive func(*v1alpha1.Redrive)
		spec    string
		want    string
	}{
		"the ConsumerQueue lost a conflict": {
			cq: func(cq *v1alpha1.ConsumerQueue) {
				cq.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Conflict", Message: "another has it"}}
			},
			want: "Ready=False Conflict Stalled=True Conflict ",
		},
		"the ConsumerQueue has another spec by now": {
			cq:   func(cq *v1alpha1.ConsumerQueue) { cq.Generation++ },
			want: "Ready=Unknown ConsumerQueueNotReady Reconciling=True ConsumerQueueNotReady ",
		},
		"the ConsumerQueue is suspended": {
			cq:   func(cq *v1alpha1.ConsumerQueue) { cq.Spec.Suspend = new(true) },
			want: "Ready=Unknown Suspended Suspended=True Suspended ",
		},
		"the dead-letter queue is missing": {
			cq:   func(cq *v1alpha1.ConsumerQueue) { cq.Status.Topology = nil },
			want: "Ready=Unknown SourceMissing Reconciling=True SourceMissing ",
		},
		"the dead-letter queue was deleted a moment ago": {
			broker: func(b *brokerstest.Broker) { b.Change(func(s *snapshot.Snapshot) { s.DropQueue("orders.dlq") }) },
			want:   "Ready=Unknown SourceMissing Reconciling=True SourceMissing ",
		},
		"the broker refuses to count": {
			broker: func(b *brokerstest.Broker) { b.Fail(vhost.QueueID("orders.dlq"), brokererr.ErrAccessRefused) },
			want:   "Ready=False PermissionDenied Stalled=True PermissionDenied ",
		},
		"the connection is being made": {
			broker: func(b *brokerstest.Broker) { b.SetHealth(func(h *rabbit.Health) { h.SyncedAt = time.Time{} }) },
			want:   "Ready=Unknown ConnectionNotReady Reconciling=True ConnectionNotReady ",
		},
		"the connection leads to another cluster than it began with": {
			redrive: began(func(s *v1alpha1.RedriveStatus) { s.ClusterName = "rabbit@other" }),
			want:    "Ready=False ConnectionChanged Stalled=True ConnectionChanged ",
		},
		"the connection leads to another vhost than it began with": {
			redrive: began(func(s *v1alpha1.RedriveStatus) { s.VHost = "other" }),
			want:    "Ready=False ConnectionChanged Stalled=True ConnectionChanged ",
		},
		"the dead-letter queue is another than it began with": {
			redrive: began(func(s *v1alpha1.RedriveStatus) { s.Source = "old.dlq" }),
			want:    "Ready=False SourceChanged Stalled=True SourceChanged ",
		},
		"there is no delay tier": {
			spec: `{consumerQueueRef: {name: orders}, destination: {type: Retry, delay: 7h}}`,
			want: "Ready=False InvalidDestination Stalled=True InvalidDestination ",
		},
		"the ConsumerQueue to move to does not exist": {
			spec: `{consumerQueueRef: {name: orders}, destination: {type: ConsumerQueue, consumerQueueRef: {name: gone}}}`,
			want: "Ready=False ConsumerQueueNotFound Stalled=True ConsumerQueueNotFound ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cq := inSync(t, `{}`)
			if test.cq != nil {
				test.cq(cq)
			}
			spec := all
			if test.spec != "" {
				spec = test.spec
			}
			w := newWorld(t, cq, spec)
			w.broker.SetMessages("orders.dlq", 9)
			if test.broker != nil {
				test.broker(w.broker)
			}
			if test.redrive != nil {
				redrive := w.get()
				test.redrive(redrive)
				if err := w.api.Status().Update(t.Context(), redrive); err != nil {
					t.Fatal(err)
				}
			}
			redrive := w.reconcile()
			topologytest.Equal(t, "conditions", test.want, ready(redrive))
			topologytest.Equal(t, "observedGeneration", 1, redrive.Status.ObservedGeneration)
			topologytest.Equal(t, "transfers", 0, len(w.reconciler.tasks.begun()))
			wrote := redrive.ResourceVersion
			if redrive.Status.CompletionTime == nil {
				topologytest.Equal(t, "written a second time", wrote, w.reconcile().ResourceVersion)
			}
		})
	}
}

// Whoever goes on after a crash must know how far to go: what is to be moved is written before the first message is.
func TestTheTotalIsWrittenBeforeAnythingIsMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, inSync(t, `{}`), all)
	w.mover = newMover()
	w.restart()
	w.broker.SetMessages("orders.dlq", 9)
	w.reconciler.client = refusing{w.api}
	if _, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: again}); err == nil {
		t.Fatal("the status cannot be written, and nobody says so")
	}
	topologytest.Equal(t, "transfers without a status", 0, len(w.mover.begun))
	w.reconciler.client = w.api
	redrive := w.reconcile()
	topologytest.Equal(t, "total", 9, *redrive.Status.Total)
	topologytest.Equal(t, "total of the transfer", 9, (<-w.mover.begun).Total)
}

// refusing is an API server that takes no status.
type refusing struct{ client.WithWatch }

func (refusing) Status() client.SubResourceWriter { return refusingWriter{} }

type refusingWriter struct{ client.SubResourceWriter }

func (refusingWriter) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errors.New("the API server is tired")
}

// A manager that takes over knows from the status how much was moved, and counts no messages again: those that came since stay.
func TestAnotherManagerGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, inSync(t, `{}`), all)
	w.mover = newMover()
	w.restart()
	w.broker.SetMessages("orders.dlq", 9)
	w.reconcile()
	config := <-w.mover.begun
	config.Report(transfer.Progress{State: transfer.Moving, Moved: 4})
	w.reconciler.now = func() time.Time { return time.Now().Add(10 * time.Second) } // a write is due
	topologytest.Equal(t, "moved", 4, *w.reconcile().Status.Moved)

	w.broker.SetMessages("orders.dlq", 100)
	w.mover = newMover()
	w.restart()
	redrive := w.reconcile()
	config = <-w.mover.begun
	topologytest.Equal(t, "total", 9, config.Total)
	topologytest.Equal(t, "moved before", 4, config.Moved)
	topologytest.Equal(t, "total of the status", 9, *redrive.Status.Total)
	topologytest.Equal(t, "moved of the status", 4, *redrive.Status.Moved)
	w.mover.end <- nil
	for *w.get().Status.Moved == 4 || w.get().Status.CompletionTime == nil {
		topologytest.Equal(t, "woken", again, <-w.told)
		w.reconcile()
	}
	topologytest.Equal(t, "conditions", "Ready=True Completed ", ready(w.get()))
	topologytest.Equal(t, "Events", []string{"Started", "Completed", "Redriven"}, w.events.Reasons)
}

// A manager that stops waits until its transfers have settled what they have published, and says how far they came.
func TestAManagerThatStopsWritesHowFarItCame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, inSync(t, `{}`), all)
	w.mover = newMover()
	w.restart()
	w.broker.SetMessages("orders.dlq", 9)
	stopping, stop := context.WithCancel(t.Context())
	w.reconciler.tasks = newTasks(stopping, w.told.Tell)
	w.reconcile()
	<-w.mover.begun
	stopped := make(chan error)
	go func() { stopped <- w.reconciler.Start(stopping) }()
	stop()
	topologytest.Equal(t, "error", nil, <-stopped)
	redrive := w.get()
	topologytest.Equal(t, "moved", 1, *redrive.Status.Moved)
	topologytest.Equal(t, "conditions", "Ready=Unknown Moving Reconciling=True Moving ", ready(redrive))
	w.reconcile()
	topologytest.Equal(t, "transfers begun by a manager that stops", 0, len(w.mover.begun))
}

func TestWhoHasToWaitForWhom(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ spec, want string }{
		"an older one of the same ConsumerQueue": {all, "Queued"},
		"an older one that moves messages there": {
			`{consumerQueueRef: {name: invoices}, destination: {type: ConsumerQueue, consumerQueueRef: {name: orders}}}`, "Moving",
		},
		"an older one that is suspended": {`{consumerQueueRef: {name: orders}, suspend: true}`, "Moving"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, inSync(t, `{}`), all)
			w.mover = newMover()
			w.restart()
			older := redriveOf("older", 0, func(r *v1alpha1.Redrive) {
				if err := yaml.UnmarshalStrict([]byte(test.spec), &r.Spec); err != nil {
					t.Fatal(err)
				}
			})
			if err := w.api.Create(t.Context(), older); err != nil {
				t.Fatal(err)
			}
			topologytest.Equal(t, "reason", test.want, meta.FindStatusCondition(w.reconcile().Status.Conditions, "Ready").Reason)
		})
	}
}

// A connection with other credentials is another one: the transfer begins again there, with what is left.
func TestATransferFollowsItsConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, inSync(t, `{}`), all)
	w.mover = newMover()
	w.restart()
	w.broker.SetMessages("orders.dlq", 9)
	w.reconcile()
	<-w.mover.begun
	before := w.mover
	w.mover = newMover()
	if _, err := w.reconciler.pool.Ensure(client.ObjectKey{Namespace: "shop", Name: "default"}, rabbit.Config{Owner: "uid", Password: "new"}); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	topologytest.Equal(t, "woken when the old transfer has settled", again, <-w.told)
	w.reconcile()
	topologytest.Equal(t, "moved by the old one", 1, (<-w.mover.begun).Moved)
	topologytest.Equal(t, "begun at the old connection", 0, len(before.begun))
}

func TestARedriveIsDeletedWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, inSync(t, `{}`), `{consumerQueueRef: {name: orders}, ttlSecondsAfterFinished: 60}`)
	redrive := w.get()
	redrive.Status.CompletionTime = new(metav1.NewTime(time.Now().Add(-30 * time.Second)))
	if err := w.api.Status().Update(t.Context(), redrive); err != nil {
		t.Fatal(err)
	}
	result, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: again})
	topologytest.Equal(t, "error", nil, err)
	if result.RequeueAfter < 25*time.Second || result.RequeueAfter > 35*time.Second {
		t.Errorf("looked at again after %v", result.RequeueAfter)
	}
	w.reconciler.now = func() time.Time { return time.Now().Add(time.Minute) }
	if _, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: again}); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Get(t.Context(), again, &v1alpha1.Redrive{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Redrive is still there: %v", err)
	}
}
