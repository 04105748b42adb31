package deadletterjob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/deadline"
)

// redriveWorld is a world with the ConsumerQueue orders in sync and a Redrive named again.
type redriveWorld struct{ *world }

func newRedriveWorld(t *testing.T, cq *v1alpha1.ConsumerQueue, redriveSpec string) *redriveWorld {
	t.Helper()
	redrive := redriveOf("again", 1, func(r *v1alpha1.Redrive) {
		if err := yaml.UnmarshalStrict([]byte(redriveSpec), &r.Spec); err != nil {
			t.Fatal(err)
		}
	})
	return &redriveWorld{newWorld(t, cq, Redrive, redrive)}
}

// begin makes the Redrive move nine messages until the test ends the move.
func (w *redriveWorld) begin() mover.Config {
	w.T.Helper()
	w.HoldMoves()
	w.Broker.SetMessages("orders.dlq", 9)
	w.reconcile()
	return <-w.Mover.Begun
}

func redriveOf(name string, second int, change func(*v1alpha1.Redrive)) *v1alpha1.Redrive {
	redrive := created(&v1alpha1.Redrive{}, name, second)
	if change != nil {
		change(redrive)
	}
	return redrive
}

func (w *redriveWorld) reconcile() *v1alpha1.Redrive {
	w.T.Helper()
	w.Reconcile()
	return w.get()
}

func (w *redriveWorld) get() *v1alpha1.Redrive {
	w.T.Helper()
	redrive := &v1alpha1.Redrive{}
	if err := w.API.Get(w.T.Context(), again, redrive); err != nil {
		w.T.Fatal(err)
	}
	return redrive
}

const all = `{consumerQueueRef: {name: orders}}`

// readyOf returns the conditions of a Redrive as one line.
func readyOf(redrive *v1alpha1.Redrive) string { return readyText(redrive.Status.Conditions) }

func TestWhyARedriveMovesNothing(t *testing.T) {
	t.Parallel()
	began := func(change func(*v1alpha1.RedriveStatus)) func(*v1alpha1.Redrive) {
		return func(r *v1alpha1.Redrive) {
			r.Status.Total, r.Status.Moved, r.Status.Source, r.Status.Location.VHost = new(int64(9)), new(int64(4)), "orders.dlq", "/"
			r.Status.Location.ClusterName, r.Status.Location.ClusterEndpoint = "rabbit@memory", "memory:5672"
			r.Status.StartTime = new(metav1.Now())
			change(&r.Status)
		}
	}
	for name, test := range map[string]struct {
		cq      func(*v1alpha1.ConsumerQueue)
		world   func(*redriveWorld)
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
		"the ConsumerQueue is being deleted": {
			cq:   func(cq *v1alpha1.ConsumerQueue) { controllertest.BeingDeleted(cq) },
			want: "Ready=False ConsumerQueueNotFound Stalled=True ConsumerQueueNotFound ",
		},
		"the spec of the ConsumerQueue has changed": {
			cq:   func(cq *v1alpha1.ConsumerQueue) { cq.Generation++ },
			want: "Ready=Unknown ConsumerQueueNotReady Reconciling=True ConsumerQueueNotReady ",
		},
		"the ConsumerQueue is suspended": {
			cq:   func(cq *v1alpha1.ConsumerQueue) { cq.Spec.Suspend = true },
			want: "Ready=Unknown Suspended Suspended=True Suspended ",
		},
		"the ConsumerQueue was compared with another cluster": {
			cq:   func(cq *v1alpha1.ConsumerQueue) { cq.Status.Location.ClusterName = "rabbit@other" },
			want: "Ready=Unknown ConsumerQueueNotReady Reconciling=True ConsumerQueueNotReady ",
		},
		"the dead-letter queue is missing": {
			cq:   func(cq *v1alpha1.ConsumerQueue) { cq.Status.Topology = nil },
			want: "Ready=Unknown SourceMissing Reconciling=True SourceMissing ",
		},
		"the dead-letter queue was deleted a moment ago": {
			broker: func(b *brokerstest.Broker) { b.Change(func(s *snapshot.Snapshot) { s.DropQueue("orders.dlq") }) },
			want:   "Ready=Unknown SourceMissing Reconciling=True SourceMissing ",
		},
		"Warren does not know whether other ConsumerQueues share the dead-letter queue": {
			world: func(w *redriveWorld) { w.sharingUnknown = true },
			want:  "Ready=Unknown ConsumerQueueNotReady Reconciling=True ConsumerQueueNotReady ",
		},
		"the dead-letter queue is a stream": {
			broker: func(b *brokerstest.Broker) {
				b.Change(func(s *snapshot.Snapshot) {
					s.DropQueue("orders.dlq")
					s.PutQueue("orders.dlq", vhost.Queue{Arguments: map[string]any{vhost.ArgQueueType: vhost.TypeStream}})
				})
			},
			want: "Ready=False SourceIsStream Stalled=True SourceIsStream ",
		},
		"the dead-letter queue has a delivery limit and a single active consumer": {
			broker: func(b *brokerstest.Broker) {
				b.Change(func(s *snapshot.Snapshot) {
					s.DropQueue("orders.dlq")
					s.PutQueue("orders.dlq", vhost.Queue{Arguments: map[string]any{
						vhost.ArgQueueType: vhost.TypeQuorum, vhost.ArgDeliveryLimit: int64(5), vhost.ArgSingleActiveConsumer: true,
					}})
				})
			},
			want: "Ready=False DeliveryLimited Stalled=True DeliveryLimited ",
		},
		"the broker refuses to count": {
			broker: func(b *brokerstest.Broker) { b.Fail(vhost.QueueID("orders.dlq"), brokererr.ErrAccessRefused) },
			want:   "Ready=False PermissionDenied Stalled=True PermissionDenied ",
		},
		"the dead-letter queue is too busy to count its messages": {
			broker: func(b *brokerstest.Broker) {
				b.SetDeadLetters("orders.dlq", amqp.Delivery{})
				b.SetUncounted("orders.dlq")
			},
			want: "Ready=Unknown BrokerUnreachable Reconciling=True BrokerUnreachable ",
		},
		"the dead-letter queue has a delivery limit and is too busy to count its messages": {
			broker: func(b *brokerstest.Broker) {
				b.Change(func(s *snapshot.Snapshot) {
					s.DropQueue("orders.dlq")
					s.PutQueue("orders.dlq", vhost.Queue{Arguments: map[string]any{
						vhost.ArgQueueType: vhost.TypeQuorum, vhost.ArgDeliveryLimit: int64(5),
					}})
				})
				b.SetUncounted("orders.dlq")
				b.SetQueueCounts("orders.dlq", rabbit.QueueCounts{IsUncounted: true})
			},
			want: "Ready=Unknown BrokerUnreachable Reconciling=True BrokerUnreachable ",
		},
		"the connection opens": {
			broker: func(b *brokerstest.Broker) { b.SetHealth(func(h *rabbit.Health) { h.SyncedAt = time.Time{} }) },
			want:   "Ready=Unknown ConnectionNotReady Reconciling=True ConnectionNotReady ",
		},
		"the connection is that of a deleted BrokerConnection of the same name": {
			world: func(w *redriveWorld) {
				key := client.ObjectKey{Namespace: "shop", Name: "default"}
				w.Pool.Get(key).Probe = brokerstest.New(vhost.RabbitMQ43, "/", "former")
			},
			want: "Ready=Unknown ConnectionNotReady Reconciling=True ConnectionNotReady ",
		},
		"the connection leads to another cluster than at the beginning": {
			redrive: began(func(s *v1alpha1.RedriveStatus) { s.Location.ClusterName = "rabbit@other" }),
			want:    "Ready=False ConnectionChanged Stalled=True ConnectionChanged Failed=True ConnectionChanged ",
		},
		"the connection leads to another vhost than at the beginning": {
			redrive: began(func(s *v1alpha1.RedriveStatus) { s.Location.VHost = "other" }),
			want:    "Ready=False ConnectionChanged Stalled=True ConnectionChanged Failed=True ConnectionChanged ",
		},
		"the dead-letter queue is another than at the beginning": {
			redrive: began(func(s *v1alpha1.RedriveStatus) { s.Source = "old.dlq" }),
			want:    "Ready=False SourceChanged Stalled=True SourceChanged Failed=True SourceChanged ",
		},
		"no delay tier has the delay": {
			spec: `{consumerQueueRef: {name: orders}, destination: {type: Retry, delay: 7h}}`,
			want: "Ready=False InvalidDestination Stalled=True InvalidDestination ",
		},
		"the ConsumerQueue to move to does not exist": {
			spec: `{consumerQueueRef: {name: orders}, destination: {type: ConsumerQueue, consumerQueueRef: {name: gone}}}`,
			want: "Ready=False ConsumerQueueNotFound Stalled=True ConsumerQueueNotFound ",
		},
		"the ConsumerQueue to move to is being deleted": {
			world: func(w *redriveWorld) {
				quarantine(func(cq *v1alpha1.ConsumerQueue) { cq.Finalizers = []string{v1alpha1.TopologyFinalizer} })(w)
				if err := w.API.Delete(w.T.Context(), controllertest.Named(w.T, "shop", "quarantine", `{}`)); err != nil {
					w.T.Fatal(err)
				}
			},
			spec: `{consumerQueueRef: {name: orders}, destination: {type: ConsumerQueue, consumerQueueRef: {name: quarantine}}}`,
			want: "Ready=False ConsumerQueueNotFound Stalled=True ConsumerQueueNotFound ",
		},
		"the ConsumerQueue to move to has another BrokerConnection": {
			world: quarantine(func(cq *v1alpha1.ConsumerQueue) {
				cq.Spec.ConnectionRef = &v1alpha1.LocalObjectReference{Name: "other"}
			}),
			spec: `{consumerQueueRef: {name: orders}, destination: {type: ConsumerQueue, consumerQueueRef: {name: quarantine}}}`,
			want: "Ready=False InvalidDestination Stalled=True InvalidDestination ",
		},
		"the ConsumerQueue to move to was compared with another cluster": {
			world: quarantine(func(cq *v1alpha1.ConsumerQueue) { cq.Status.Location.ClusterName = "rabbit@other" }),
			spec:  `{consumerQueueRef: {name: orders}, destination: {type: ConsumerQueue, consumerQueueRef: {name: quarantine}}}`,
			want:  "Ready=Unknown ConsumerQueueNotReady Reconciling=True ConsumerQueueNotReady ",
		},
		"the main queue drops messages when it is full": {
			broker: dropping("orders"),
			want:   "Ready=False DestinationDropsMessages Stalled=True DestinationDropsMessages ",
		},
		"the delay tier drops messages when it is full": {
			broker: dropping("orders.retry.30s"),
			spec:   `{consumerQueueRef: {name: orders}, destination: {type: Retry}}`,
			want:   "Ready=False DestinationDropsMessages Stalled=True DestinationDropsMessages ",
		},
		"the main queue behind the delay tier drops messages when it is full": {
			broker: dropping("orders"),
			spec:   `{consumerQueueRef: {name: orders}, destination: {type: Retry}}`,
			want:   "Ready=False DestinationDropsMessages Stalled=True DestinationDropsMessages ",
		},
		"the destination is Original, and the main queue drops messages when it is full": {
			broker: dropping("orders"),
			spec:   `{consumerQueueRef: {name: orders}, destination: {type: Original}}`,
			want:   "Ready=False DestinationDropsMessages Stalled=True DestinationDropsMessages ",
		},
		"a policy lets the main queue drop messages": {
			broker: func(b *brokerstest.Broker) {
				b.Change(func(s *snapshot.Snapshot) {
					s.Policies = append(s.Policies, vhost.Policy{
						Name: "limits", Pattern: vhost.ReadPattern("^orders$"), ApplyTo: "queues",
						Definition: vhost.Arguments{vhost.KeyMaxLength: int64(1000), vhost.KeyOverflow: "drop-head"},
					})
				})
			},
			want: "Ready=False DestinationDropsMessages Stalled=True DestinationDropsMessages ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cq := controllertest.InSync(t, `{}`)
			if test.cq != nil {
				test.cq(cq)
			}
			spec := all
			if test.spec != "" {
				spec = test.spec
			}
			w := newRedriveWorld(t, cq, spec)
			w.Broker.SetMessages("orders.dlq", 9)
			if test.world != nil {
				test.world(w)
			}
			if test.broker != nil {
				test.broker(w.Broker)
			}
			if test.redrive != nil {
				redrive := w.get()
				test.redrive(redrive)
				if err := w.API.Status().Update(t.Context(), redrive); err != nil {
					t.Fatal(err)
				}
			}
			redrive := w.reconcile()
			topologytest.Equal(t, "conditions", test.want, readyOf(redrive))
			topologytest.Equal(t, "observedGeneration", 1, redrive.Status.ObservedGeneration)
			topologytest.Equal(t, "moves", 0, len(w.Reconciler.Tasks.begun(Redrive)))
			wrote := redrive.ResourceVersion
			if redrive.Status.CompletionTime == nil {
				topologytest.Equal(t, "version after a second reconciliation", wrote, w.reconcile().ResourceVersion)
			}
		})
	}
}

// quarantine creates a ConsumerQueue with that name. It is in sync with its spec before the change.
func quarantine(change func(*v1alpha1.ConsumerQueue)) func(*redriveWorld) {
	return func(w *redriveWorld) {
		w.T.Helper()
		cq := controllertest.Synced(w.T, "quarantine", `{}`, "")
		cq.Status.ObservedGeneration, cq.Status.Location = cq.Generation, controllertest.InSync(w.T, `{}`).Status.Location
		change(cq)
		if err := w.API.Create(w.T.Context(), cq); err != nil {
			w.T.Fatal(err)
		}
	}
}

// dropping gives a queue a length limit, at which it drops its oldest messages.
func dropping(queue string) func(*brokerstest.Broker) {
	return func(b *brokerstest.Broker) {
		b.Change(func(s *snapshot.Snapshot) {
			s.DropQueue(queue)
			s.PutQueue(queue, vhost.Queue{Durable: true, Arguments: vhost.Arguments{vhost.ArgQueueType: "quorum", vhost.ArgMaxLength: int64(1000)}})
		})
	}
}

// A policy can make the main queue drop messages while messages are moved to it. The move pauses before the next reconciliation.
func TestAMovePausesWhenItsDestinationBeginsToDropMessages(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	config := w.begin()
	paused := func() bool { return config.Settings().Paused }
	topologytest.Equal(t, "paused at first", false, paused())
	dropping("orders")(w.Broker)
	NewWithT(t).Eventually(paused).WithTimeout(deadline.For(30 * time.Second)).Should(BeTrue())
	conditions := func() string { return readyOf(w.reconcile()) }
	NewWithT(t).Eventually(conditions).WithTimeout(deadline.For(30 * time.Second)).Should(
		Equal("Ready=False DestinationDropsMessages Stalled=True DestinationDropsMessages "))
}

// The total is written before the first message is moved, so that after a crash the next manager knows where to end.
func TestTheTotalIsWrittenBeforeAnythingIsMoved(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	w.HoldMoves()
	w.Broker.SetMessages("orders.dlq", 9)
	w.Reconciler.Client = refusing{w.API}
	if _, err := w.Reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: again}); err == nil {
		t.Fatal("Reconcile hides that the status cannot be written")
	}
	topologytest.Equal(t, "moves without a status", 0, len(w.Mover.Begun))
	w.Reconciler.Client = w.API
	redrive := w.reconcile()
	topologytest.Equal(t, "total", 9, *redrive.Status.Total)
	topologytest.Equal(t, "total of the transfer", 9, (<-w.Mover.Begun).Total)
}

// refusing is a client whose status updates all fail.
type refusing struct{ client.WithWatch }

func (refusing) Status() client.SubResourceWriter { return refusingWriter{} }

type refusingWriter struct{ client.SubResourceWriter }

func (refusingWriter) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errors.New("the API server is down")
}

// Messages of a delay tier come to the main queue later, so the main queue is watched for its length, too.
func TestARedriveToATierWatchesTheMainQueue(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), `{consumerQueueRef: {name: orders}, destination: {type: Retry}}`)
	config := w.begin()
	topologytest.Equal(t, "destination", "orders.retry.30s", config.Destination)
	topologytest.Equal(t, "queue behind it", "orders", config.Behind)
}

// The next manager reads from the status how many messages were moved. It does not count again: newer messages remain.
func TestTheNextManagerContinues(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	config := w.begin()
	config.Report(mover.Progress{State: mover.Moving, Moved: 4})
	w.Reconciler.Now = func() time.Time { return time.Now().Add(10 * time.Second) } // a write is due
	topologytest.Equal(t, "moved", 4, *w.reconcile().Status.Moved)

	w.Broker.SetMessages("orders.dlq", 100)
	w.HoldMoves()
	redrive := w.reconcile()
	config = <-w.Mover.Begun
	topologytest.Equal(t, "total", 9, config.Total)
	topologytest.Equal(t, "moved before, at most", 9, config.Moved)
	topologytest.Equal(t, "uncertain of them", 5, config.Unsure)
	topologytest.Equal(t, "total of the status", 9, *redrive.Status.Total)
	topologytest.Equal(t, "range of the status", []int64{4, 14}, []int64{*redrive.Status.Moved, *redrive.Status.AtMost})
	w.Mover.Ended = mover.Progress{State: mover.Moving, Moved: 14, Unsure: 5}
	w.Mover.End <- nil
	for *w.get().Status.Moved == 4 || w.get().Status.CompletionTime == nil {
		topologytest.Equal(t, "enqueued", again, <-w.Enqueued)
		w.reconcile()
	}
	topologytest.Equal(t, "conditions", "Ready=True Completed Complete=True Completed ", readyOf(w.get()))
	topologytest.Equal(t, "range", []int64{9, 14}, []int64{*w.get().Status.Moved, *w.get().Status.AtMost})
	topologytest.Equal(t, "Events", []string{"Started", "Completed", "Redriven"}, w.Events.Reasons)
}

// The status claims a number of messages before the move may move them.
func TestARedriveMovesNoMoreThanItsStatusClaims(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), `{consumerQueueRef: {name: orders}, rate: 100, maxMessages: 200}`)
	w.HoldMoves()
	w.Broker.SetMessages("orders.dlq", 9000)
	w.reconcile()
	config := <-w.Mover.Begun
	for _, step := range []struct{ moved, inFlight, claimed int }{
		{0, 0, 125}, {50, 10, 125}, {60, 10, 185}, {120, 20, 200}, {180, 20, 200},
	} {
		config.Report(mover.Progress{State: mover.Moving, Moved: step.moved, InFlight: step.inFlight})
		status := w.reconcile().Status
		topologytest.Equal(t, "claimed in the status", step.claimed, int(*status.AtMost))
		topologytest.Equal(t, "moved at most", step.claimed, config.Settings().MaxMoved)
	}
}

func TestARedriveWaitsForItsStatusToBeWritten(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), `{consumerQueueRef: {name: orders}, rate: 100}`)
	w.HoldMoves()
	w.Broker.SetMessages("orders.dlq", 9000)
	w.reconcile()
	config := <-w.Mover.Begun
	config.Report(mover.Progress{State: mover.Moving, Moved: 125})
	w.Reconciler.Client = refusing{w.API}
	if _, err := w.Reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: again}); err == nil {
		t.Error("Reconcile hides that the status cannot be written")
	}
	topologytest.Equal(t, "moved at most", 125, config.Settings().MaxMoved)
	w.Reconciler.Client = w.API
	w.reconcile()
	topologytest.Equal(t, "moved at most when the status is written", 250, config.Settings().MaxMoved)
}

// A killed manager leaves a range, and the next manager never exceeds spec.maxMessages.
func TestTheLimitHoldsAfterCrashes(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), `{consumerQueueRef: {name: orders}, rate: 1000, maxMessages: 3000}`)
	w.Broker.SetMessages("orders.dlq", 20_000)
	for _, claimed := range []int{1250, 2187, 2890, 3000} {
		w.HoldMoves() // the next manager
		status := w.reconcile().Status
		topologytest.Equal(t, "range", []int64{0, int64(claimed)}, []int64{*status.Moved, *status.AtMost})
		topologytest.Equal(t, "limit", 3000, (<-w.Mover.Begun).Limit)
	}
}

// The user may lose a permission for a while. Messages that may be in the queue again are moved a second time. Otherwise as
// many other messages would remain.
func TestAMoveContinuesWhenAPermissionIsBack(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	w.HoldMoves()
	w.Broker.SetMessages("orders.dlq", 9)
	failures := []mover.Failure{{ID: "a", Reason: mover.FailureRefused, Message: "full"}}
	w.Mover.Ended = mover.Progress{Moved: 5, Unsure: 2, Failures: failures}
	w.reconcile()
	topologytest.Equal(t, "total at first", 9, (<-w.Mover.Begun).Total)
	w.Mover.End <- fmt.Errorf("%w: no write", brokererr.ErrAccessRefused)
	for readyOf(w.get()) != "Ready=False PermissionDenied Stalled=True PermissionDenied " {
		topologytest.Equal(t, "enqueued", again, <-w.Enqueued)
		w.reconcile()
	}
	w.reconcile()
	config := <-w.Mover.Begun
	topologytest.Equal(t, "total", 9, config.Total)
	topologytest.Equal(t, "moved before, and uncertain", []int{5, 2}, []int{config.Moved, config.Unsure})
	topologytest.Equal(t, "failures of the earlier run", failures, config.Failures)
}

// newStoppableWorld has a Redrive of nine messages, whose move ends when the manager stops.
func newStoppableWorld(t *testing.T) (w *redriveWorld, stopping context.Context, stop context.CancelFunc) {
	t.Helper()
	w = newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	w.HoldMoves()
	w.Broker.SetMessages("orders.dlq", 9)
	stopping, stop = context.WithCancel(t.Context())
	w.Reconciler.Tasks = w.Tasks(stopping)
	return w, stopping, stop
}

// A manager that stops waits until its moves have settled what they published, and writes their progress.
func TestAManagerThatStopsWritesTheProgress(t *testing.T) {
	t.Parallel()
	w, stopping, stop := newStoppableWorld(t)
	var lines []string
	w.logTo(&lines)
	w.reconcile()
	<-w.Mover.Begun
	stopped := make(chan error)
	go func() { stopped <- w.Reconciler.Start(stopping) }()
	stop()
	topologytest.Equal(t, "error", nil, <-stopped)
	redrive := w.get()
	topologytest.Equal(t, "moved", 1, *redrive.Status.Moved)
	topologytest.Equal(t, "conditions", "Ready=Unknown Moving Reconciling=True Moving ", readyOf(redrive))
	if last := lines[len(lines)-1]; !strings.Contains(last, `"msg"="Stopped"`) || !strings.Contains(last, `"counts"="1 of 9 messages moved"`) {
		t.Errorf("the last line is %s", last)
	}
	w.reconcile()
	topologytest.Equal(t, "moves that a stopping manager begins", 0, len(w.Mover.Begun))
}

// A Redrive may be replaced, or end, before a manager that stops has reconciled that. The progress of the move is not of such a Redrive.
func TestAManagerThatStopsWritesTheProgressOfItsOwnRedriveOnly(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *redriveWorld){
		"another Redrive of the same name": (*redriveWorld).replace,
		"the Redrive has ended": func(w *redriveWorld) {
			redrive := w.get()
			redrive.Status.CompletionTime = new(metav1.Now())
			if err := w.API.Status().Update(w.T.Context(), redrive); err != nil {
				w.T.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, stopping, stop := newStoppableWorld(t)
			w.reconcile()
			<-w.Mover.Begun
			change(w)
			before := w.get().Status
			stop()
			topologytest.Equal(t, "error", nil, w.Reconciler.Start(stopping))
			topologytest.Equal(t, "status", before, w.get().Status)
		})
	}
}

func TestARedriveWaitsForAnOlderOne(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ spec, want string }{
		"an older Redrive of the same ConsumerQueue": {all, "Queued"},
		"an older Redrive that moves messages to the ConsumerQueue": {
			`{consumerQueueRef: {name: invoices}, destination: {type: ConsumerQueue, consumerQueueRef: {name: orders}}}`, "Moving",
		},
		"an older suspended Redrive": {`{consumerQueueRef: {name: orders}, suspend: true}`, "Moving"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
			w.HoldMoves()
			older := redriveOf("older", 0, func(r *v1alpha1.Redrive) {
				if err := yaml.UnmarshalStrict([]byte(test.spec), &r.Spec); err != nil {
					t.Fatal(err)
				}
			})
			if err := w.API.Create(t.Context(), older); err != nil {
				t.Fatal(err)
			}
			topologytest.Equal(t, "reason", test.want, meta.FindStatusCondition(w.reconcile().Status.Conditions, "Ready").Reason)
		})
	}
}

// While a Redrive was suspended, another job took messages of the queue. The messages that are left may have died later, so the
// Redrive ends.
func TestASuspendedRedriveEndsIfAnotherTookMessages(t *testing.T) {
	t.Parallel()
	const (
		continues = "Ready=Unknown Moving Reconciling=True Moving "
		ends      = "Ready=False Incomplete Stalled=True Incomplete Failed=True Incomplete "
	)
	for name, test := range map[string]struct {
		began  time.Duration // how long after the suspended Redrive
		spec   string
		source v1alpha1.QueueName
		// namespace is empty for that of the suspended Redrive.
		namespace string
		// shared: ConsumerQueues of other namespaces share the queue.
		shared bool
		// gone: the other job has ended and was deleted.
		gone bool
		// recreated: the other job was created again after it was gone.
		recreated bool
		// cancelled: the other job was cancelled before it began.
		cancelled bool
		// killed: the manager was killed before it wrote the first progress of the other job.
		killed bool
		// ended is how long after the suspended Redrive the other job ended; zero if when it began.
		ended time.Duration
		want  string
	}{
		"a later Redrive":                        {began: time.Minute, spec: all, want: ends},
		"a later dry run":                        {began: time.Minute, spec: `{consumerQueueRef: {name: orders}, dryRun: true}`, want: continues},
		"an earlier Redrive":                     {began: -time.Minute, spec: all, want: continues},
		"a later Redrive of another queue":       {began: time.Minute, spec: `{consumerQueueRef: {name: invoices}}`, source: "invoices.dlq", want: continues},
		"a later Redrive that shares the queue":  {began: time.Minute, spec: `{consumerQueueRef: {name: invoices}}`, shared: true, want: ends},
		"a later Redrive of another namespace":   {began: time.Minute, spec: all, namespace: "billing", want: continues},
		"a later Redrive of a sharing namespace": {began: time.Minute, spec: all, namespace: "billing", shared: true, want: ends},
		"a later Redrive that is gone":           {began: time.Minute, spec: all, gone: true, want: ends},
		"an earlier Redrive that is gone":        {began: -time.Minute, spec: all, gone: true, want: continues},
		"a later Redrive that was recreated":     {began: time.Minute, spec: all, gone: true, recreated: true, want: ends},
		"an earlier Redrive that was recreated":  {began: -time.Minute, spec: all, gone: true, recreated: true, want: continues},
		"a cancelled Redrive":                    {cancelled: true, ended: time.Minute, spec: all, want: continues},
		"a cancelled Redrive that is gone":       {cancelled: true, ended: time.Minute, spec: all, gone: true, want: continues},
		"an earlier Redrive that ended later":    {began: -time.Minute, ended: time.Minute, spec: all, want: continues},
		"an earlier Redrive that ended later and is gone": {
			began: -time.Minute, ended: time.Minute, spec: all, gone: true, want: continues,
		},
		"a later Redrive without progress":                  {began: time.Minute, killed: true, spec: all, want: ends},
		"a later Redrive without progress that is gone":     {began: time.Minute, killed: true, spec: all, gone: true, want: ends},
		"an earlier Redrive without progress that is gone":  {began: -time.Minute, killed: true, spec: all, gone: true, want: continues},
		"a later Redrive of another queue without progress": {began: time.Minute, killed: true, spec: `{consumerQueueRef: {name: invoices}}`, source: "invoices.dlq", want: continues},
		"a gone Redrive of a sharing namespace":             {began: time.Minute, spec: all, namespace: "billing", shared: true, gone: true, want: ends},
		"a gone Redrive of a namespace on its own":          {began: time.Minute, spec: all, namespace: "billing", gone: true, want: continues},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
			w.HoldMoves()
			w.Broker.SetMessages("orders.dlq", 9)
			began := w.reconcile()
			<-w.Mover.Begun
			other := redriveOf("other", 0, func(r *v1alpha1.Redrive) {
				if err := yaml.UnmarshalStrict([]byte(test.spec), &r.Spec); err != nil {
					t.Fatal(err)
				}
				r.Status.Source, r.Status.Location = cmp.Or(test.source, began.Status.Source), began.Status.Location
				r.Status.StartTime = new(metav1.NewTime(began.Status.StartTime.Add(test.began)))
				r.Status.CompletionTime, r.Status.Examined = r.Status.StartTime, new(int64(9))
				if test.ended != 0 {
					r.Status.CompletionTime = new(metav1.NewTime(began.Status.StartTime.Add(test.ended)))
				}
				if test.killed {
					r.Status.Examined, r.Status.AtMost = new(int64(0)), new(int64(9))
				}
				if test.cancelled {
					r.Status.StartTime, r.Status.Examined, r.Status.Source = nil, nil, ""
				}
			})
			other.Namespace = cmp.Or(test.namespace, other.Namespace)
			if test.gone {
				w.finished(other)
			}
			if test.recreated { // as AlreadyFinished
				other.Status.JobStatus = v1alpha1.JobStatus{CompletionTime: other.Status.CompletionTime}
			}
			if !test.gone || test.recreated {
				topologytest.Equal(t, "error", nil, w.API.Create(t.Context(), other))
			}
			w.HoldMoves() // the next manager
			w.shared = test.shared
			topologytest.Equal(t, "conditions", test.want, readyOf(w.reconcile()))
		})
	}
}

// The cache may not yet show that the other Redrive has taken messages.
func TestAnInterruptedRedriveWaitsForTheNewestStatusOfAnother(t *testing.T) {
	t.Parallel()
	for name, newest := range map[string]func(w *redriveWorld, other *v1alpha1.Redrive){
		"in the other Redrive": func(w *redriveWorld, other *v1alpha1.Redrive) {
			other.ResourceVersion = "1000000"
			w.Reconciler.Tasks.statuses[Redrive].Record(other)
		},
		"in a ConsumerQueue that shares the queue": func(w *redriveWorld, _ *v1alpha1.Redrive) {
			w.shared = true
			cq := w.consumerQueue()
			cq.ResourceVersion = "1000000"
			w.Reconciler.Tasks.records.Record(cq)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
			w.begin()
			other := redriveOf("other", 2, func(r *v1alpha1.Redrive) { r.Spec.ConsumerQueueRef.Name = "orders" })
			if err := w.API.Create(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			w.HoldMoves() // the next manager
			newest(w, other)
			w.reconcile()
			topologytest.Equal(t, "moves", 0, len(w.Reconciler.Tasks.begun(Redrive)))
		})
	}
}

// finished lists a Redrive in the status of a ConsumerQueue of its namespace.
func (w *redriveWorld) finished(redrive *v1alpha1.Redrive) {
	w.T.Helper()
	cq := w.consumerQueue()
	if redrive.Namespace != cq.Namespace {
		cq.Namespace, cq.ResourceVersion = redrive.Namespace, ""
		if err := w.API.Create(w.T.Context(), cq); err != nil {
			w.T.Fatal(err)
		}
	}
	cq.Status.FinishedJobs = withFinished(nil, finishedJob(ofRedrive(redrive)))
	if err := w.API.Status().Update(w.T.Context(), cq); err != nil {
		w.T.Fatal(err)
	}
}

func TestARedriveIsRequeuedSoonWhileTheConnectionOpens(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	w.Broker.SetHealth(func(h *rabbit.Health) { h.SyncedAt = time.Time{} })
	result, err := w.Reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: again})
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "requeued after", time.Second, result.RequeueAfter)
}

// New credentials open another connection. The move begins again there with the remaining messages.
func TestAMoveFollowsItsConnection(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	w.HoldMoves()
	w.Broker.SetMessages("orders.dlq", 9)
	w.reconcile()
	<-w.Mover.Begun
	before := w.Mover
	w.Mover = brokerstest.NewMover(w.Broker)
	if _, err := w.Pool.Ensure(client.ObjectKey{Namespace: "shop", Name: "default"}, time.Time{}, rabbit.Config{Owner: "uid", Password: "new"}); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	topologytest.Equal(t, "enqueued when the old move has settled", again, <-w.Enqueued)
	w.reconcile()
	topologytest.Equal(t, "moved by the old transfer", 1, (<-w.Mover.Begun).Moved)
	topologytest.Equal(t, "begun at the old connection", 0, len(before.Begun))
}

// A Redrive that waited for its ConsumerQueue would run at an unexpected time.
func TestARedriveForAConsumerQueueThatDoesNotExistFailsAfterAMinute(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ spec, message string }{
		"the ConsumerQueue of the dead letters": {
			`{consumerQueueRef: {name: gone}}`,
			`ConsumerQueue "gone" not found, and Warren has waited 1m for a ConsumerQueue of this name. Create it, then create another Redrive`,
		},
		"the ConsumerQueue of the destination": {
			`{consumerQueueRef: {name: orders}, destination: {type: ConsumerQueue, consumerQueueRef: {name: gone}}}`,
			`ConsumerQueue "gone" not found, and Warren has waited 1m for a ConsumerQueue of this name. Create it, then create another Redrive`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRedriveWorld(t, controllertest.InSync(t, `{}`), test.spec)
			const waits = "Ready=False ConsumerQueueNotFound Stalled=True ConsumerQueueNotFound "
			topologytest.Equal(t, "conditions at first", waits, readyOf(w.reconcile()))
			topologytest.Equal(t, "has ended at first", false, w.get().Status.CompletionTime != nil)
			w.Restart()
			w.Reconciler.Now = func() time.Time { return time.Now().Add(50 * time.Second) }
			result, err := w.Reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: again})
			topologytest.Equal(t, "error", nil, err)
			if result.RequeueAfter > 10*time.Second || result.RequeueAfter < 5*time.Second {
				t.Errorf("after 50 s, reconciled again after %v", result.RequeueAfter)
			}
			w.Reconciler.Now = func() time.Time { return time.Now().Add(time.Minute) }
			redrive := w.reconcile()
			topologytest.Equal(t, "conditions", waits+"Failed=True ConsumerQueueNotFound ", readyOf(redrive))
			topologytest.Equal(t, "message", test.message, redrive.Status.Conditions[0].Message)
			topologytest.Equal(t, "has ended", true, redrive.Status.CompletionTime != nil)
		})
	}
}

// Ready was False for another reason before, so its status does not change when the ConsumerQueue is deleted.
func TestTheMinuteBeginsWhenTheConsumerQueueIsMissing(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), `{consumerQueueRef: {name: gone}}`)
	redrive := w.get()
	redrive.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInvalidDestination,
		LastTransitionTime: metav1.NewTime(time.Now().Add(-10 * time.Minute)),
	}}
	if err := w.API.Status().Update(t.Context(), redrive); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		ends  bool
	}{{0, false}, {50 * time.Second, false}, {time.Minute, true}} {
		w.Reconciler.Now = func() time.Time { return time.Now().Add(step.after) }
		topologytest.Equal(t, "has ended after "+step.after.String(), step.ends, w.reconcile().Status.CompletionTime != nil)
	}
}

// A user sets ttlSecondsAfterFinished of a finished Redrive. kstatus waits for observedGeneration.
func TestAFinishedRedriveObservesItsGeneration(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	redrive := w.get()
	redrive.Generation = 2
	if err := w.API.Update(t.Context(), redrive); err != nil {
		t.Fatal(err)
	}
	redrive.Status.CompletionTime, redrive.Status.ObservedGeneration = new(metav1.Now()), 1
	redrive.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Completed", ObservedGeneration: 1}}
	if err := w.API.Status().Update(t.Context(), redrive); err != nil {
		t.Fatal(err)
	}
	redrive = w.reconcile()
	topologytest.Equal(t, "observedGeneration", 2, redrive.Status.ObservedGeneration)
	topologytest.Equal(t, "conditions", []string{`Ready=True Completed "", 2`}, controllertest.Lines(redrive.Status.Conditions))
	topologytest.Equal(t, "Events", 0, len(w.Events.Reasons))
}

func TestARedriveIsDeletedAfterItsTTL(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), `{consumerQueueRef: {name: orders}, ttlSecondsAfterFinished: 60}`)
	redrive := w.get()
	redrive.Status.CompletionTime = new(metav1.NewTime(time.Now().Add(-30 * time.Second)))
	if err := w.API.Status().Update(t.Context(), redrive); err != nil {
		t.Fatal(err)
	}
	result, err := w.Reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: again})
	topologytest.Equal(t, "error", nil, err)
	if result.RequeueAfter < 25*time.Second || result.RequeueAfter > 35*time.Second {
		t.Errorf("requeued after %v", result.RequeueAfter)
	}
	w.Reconciler.Now = func() time.Time { return time.Now().Add(time.Minute) }
	if _, err := w.Reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: again}); err != nil {
		t.Fatal(err)
	}
	if err := w.API.Get(t.Context(), again, &v1alpha1.Redrive{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Redrive is still there: %v", err)
	}
}
