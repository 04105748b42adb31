package consumerqueue

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/deadline"
)

// delete deletes the ConsumerQueue, reconciles it until it is gone, and returns the recorded Events.
func (w *world) delete() []occurrence {
	w.t.Helper()
	if err := w.api.Delete(w.t.Context(), w.get()); err != nil {
		w.t.Fatal(err)
	}
	return w.reconcileUntilGone()
}

// reconcileUntilGone reconciles a ConsumerQueue until it is deleted. The tasks that delete queues take a moment.
func (w *world) reconcileUntilGone() []occurrence {
	w.t.Helper()
	w.recorder.occurred = nil
	NewWithT(w.t).Eventually(func() bool {
		cq := &v1alpha1.ConsumerQueue{}
		if apierrors.IsNotFound(w.api.Get(w.t.Context(), controllertest.Orders, cq)) {
			return true
		}
		w.reconciler.index.Update(cq)
		_, _ = w.reconciler.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: controllertest.Orders})
		return false
	}).WithTimeout(deadline.For(10 * time.Second)).Should(BeTrue())
	return w.recorder.occurred
}

func (w *world) mustReconcile() []occurrence {
	w.t.Helper()
	occurred, err := w.reconcile()
	if err != nil {
		w.t.Fatal(err)
	}
	return occurred
}

// queueNames returns the candidates that exist.
func (w *world) queueNames(candidates ...string) []string {
	var found []string
	for _, name := range candidates {
		if w.hasQueue(name) {
			found = append(found, name)
		}
	}
	return found
}

// The dead letters of another queue can arrive through an exchange that the ConsumerQueue does not name.
func TestADeletionKeepsQueuesThatOtherDeadLettersReach(t *testing.T) {
	t.Parallel()
	const (
		spec  = `{retry: {delayTiers: [{delay: 30s}]}, deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}`
		stays = `retained exchange "dlx"; queue "orders"; queue "orders.retry.30s"; queue "dlq": ` +
			`still needed: queue "other" dead-letters to this topology`
	)
	deadLettersTo := func(exchange string) func(*snapshot.Snapshot) {
		return func(s *snapshot.Snapshot) {
			s.PutQueue("other", vhost.Queue{Durable: true, Arguments: vhost.Arguments{vhost.ArgDeadLetterExchange: exchange}})
		}
	}
	legacy := func(destination string) func(*snapshot.Snapshot) {
		return func(s *snapshot.Snapshot) {
			s.PutExchange("legacy", vhost.Exchange{Type: vhost.TypeFanout, Durable: true})
			s.PutBinding(vhost.Binding{Source: "legacy", Destination: destination})
			deadLettersTo("legacy")(s)
		}
	}
	all := []string{"dlq", "orders", "orders.retry.30s"}
	for name, test := range map[string]struct {
		policy  string
		change  func(*snapshot.Snapshot)
		remains []string
		event   occurrence
	}{
		"the dead-letter queue, through a fanout exchange of another client": {
			change: legacy("dlq"), remains: []string{"dlq"},
			event: occurrence{
				corev1.EventTypeNormal, eventRetained, "Delete",
				`retained queue "dlq": queue "other" dead-letters to it. exchange "dlx": "dlq" is bound to it`,
			},
		},
		"the main queue, through a delay queue of another client": {
			change: legacy("orders"), remains: all, event: occurrence{corev1.EventTypeWarning, eventRetained, "Delete", stays},
		},
		"a delay tier, through a delay queue of another client": {
			change: legacy("orders.retry.30s"), remains: all, event: occurrence{corev1.EventTypeWarning, eventRetained, "Delete", stays},
		},
		"the main queue, through an alternate exchange": {
			change: func(s *snapshot.Snapshot) {
				legacy("orders")(s)
				s.PutExchange("first", vhost.Exchange{Type: vhost.TypeDirect, Arguments: vhost.Arguments{vhost.ArgAlternateExchange: "legacy"}})
				s.DropQueue("other")
				deadLettersTo("first")(s)
			},
			remains: all, event: occurrence{corev1.EventTypeWarning, eventRetained, "Delete", stays},
		},
		"the main queue, with deletionPolicy Delete": {
			policy: ", deletionPolicy: Delete", change: legacy("orders"), remains: all,
			event: occurrence{corev1.EventTypeWarning, eventRetained, "Delete", stays},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, controllertest.NewConsumerQueue(t, spec+test.policy+`}`))
			w.mustReconcile()
			w.broker.Change(test.change)
			topologytest.Equal(t, "Events", []occurrence{test.event}, w.delete(), comparingOccurrences)
			topologytest.Equal(t, "queues", test.remains, w.queueNames(all...))
		})
	}
}

// Another client begins to dead-letter to the main queue after the ConsumerQueue has asked for the deletion.
func TestADeletionAsksAgainRightBeforeTheQueuesAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, `{retry: {delayTiers: [{delay: 30s}]}}`))
	w.mustReconcile()
	w.broker.Interfere(func(s *snapshot.Snapshot) {
		s.PutQueue("other", vhost.Queue{Durable: true, Arguments: vhost.Arguments{
			vhost.ArgDeadLetterExchange: "", vhost.ArgDeadLetterRoutingKey: "orders",
		}})
	})
	want := []occurrence{{
		corev1.EventTypeWarning, eventRetained, "Delete", `retained exchange "orders.dlx"; queue "orders"; ` +
			`queue "orders.retry.30s"; queue "orders.dlq": still needed: queue "other" dead-letters to this topology`,
	}}
	topologytest.Equal(t, "Events", want, w.delete(), comparingOccurrences)
	all := []string{"orders", "orders.dlq", "orders.retry.30s"}
	topologytest.Equal(t, "queues", all, w.queueNames(all...))
}

// Another ConsumerQueue begins to use the dead-letter queue after the deleted one has decided to delete it.
func TestADeletionLeavesAQueueToALatePeer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, `{retry: {policy: None}}`))
	w.mustReconcile()
	peer := controllertest.Named(t, "shop", "invoices", `{deadLetter: {queue: {name: orders.dlq}}}`)
	w.broker.Change(func(s *snapshot.Snapshot) { s.DropQueue("orders") }) // so that the dead-letter queue is deleted first
	w.broker.Interfere(func(*snapshot.Snapshot) { w.reconciler.index.Update(peer) })
	want := []occurrence{{
		corev1.EventTypeNormal, eventRetained, "Delete", `retained queue "orders.dlq": shared with ConsumerQueue shop/invoices`,
	}}
	topologytest.Equal(t, "Events", want, w.delete(), comparingOccurrences)
	topologytest.Equal(t, "queues", []string{"orders.dlq"}, w.queueNames("orders", "orders.dlq"))
}

// The BrokerConnection leads to another cluster now, whose queues have the same names. One of them is missing there. It remains at the
// old cluster, so the Event names it, too.
func TestADeletionTouchesNoOtherCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, `{deletionPolicy: Delete}`))
	w.mustReconcile()
	another := vhost.Cluster{Name: "rabbit@another", Endpoint: "another:5672"}
	w.broker.SetHealth(func(h *rabbit.Health) { h.Cluster, h.ClusterName = another, another.Name })
	w.broker.Change(func(s *snapshot.Snapshot) {
		s.Cluster = another.Key()
		s.DropQueue("orders.retry.30s")
	})
	events := w.delete()
	if len(events) != 1 || events[0].kind != corev1.EventTypeWarning || !strings.Contains(events[0].note, "the topology is in") ||
		!strings.Contains(events[0].note, `queue "orders.retry.30s"`) {
		t.Errorf("Events: %v", events)
	}
	topologytest.Equal(t, "queues", []string{"orders", "orders.dlq"}, w.queueNames("orders", "orders.dlq"))
}

// With deletionPolicy Delete, a tier of another client's main queue stays with its messages.
func TestADeletionKeepsTheTiersOfAForeignMainQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, `{deletionPolicy: Delete}`))
	w.broker.Change(func(s *snapshot.Snapshot) {
		s.PutQueue("orders", vhost.Queue{Durable: true, Arguments: vhost.Arguments{vhost.ArgQueueType: vhost.TypeClassic}})
		s.PutQueue("orders.retry.30s", vhost.Queue{Durable: true, Arguments: vhost.Arguments{
			vhost.ArgQueueType: vhost.TypeQuorum, vhost.ArgMessageTTL: int64(30000), vhost.ArgDeadLetterExchange: "",
			vhost.ArgDeadLetterRoutingKey: "orders", vhost.ArgDeadLetterStrategy: "at-least-once", vhost.ArgOverflow: vhost.OverflowRejectPublish,
		}})
	})
	w.broker.SetMessages("orders.retry.30s", 1)
	w.mustReconcile()
	want := []occurrence{{
		corev1.EventTypeNormal, eventRetained, "Delete",
		`retained queue "orders.retry.30s": another client declared both this object and main queue "orders"`,
	}}
	topologytest.Equal(t, "Events", want, w.delete(), comparingOccurrences)
	all := []string{"orders", "orders.retry.30s"}
	topologytest.Equal(t, "queues", all, w.queueNames(all...))
}

const twoTiers = `{retry: {exchange: {name: again}, delayTiers: [{delay: 10s, queueName: soon}, {delay: 20s, queueName: later}]}}`

// halfDeleted returns a world whose manager was killed during the deletion of the ConsumerQueue: it had deleted a delay tier,
// and then the main queue got a message.
func halfDeleted(t *testing.T, more string) *world {
	t.Helper()
	w := newWorld(t, controllertest.NewConsumerQueue(t, strings.TrimSuffix(twoTiers, "}")+more+"}"))
	w.mustReconcile()
	if err := w.api.Delete(t.Context(), w.get()); err != nil {
		t.Fatal(err)
	}
	w.broker.Change(func(s *snapshot.Snapshot) { s.DropQueue("soon") })
	w.broker.SetMessages("orders", 1)
	w.restart()
	return w
}

// Consumers continue to publish retries to the delay tiers of a main queue that remains.
func TestAHalfDeletedGroupIsDeclaredAgain(t *testing.T) {
	t.Parallel()
	const (
		exchanges = `retained exchange "again"; exchange "orders.dlx"; queue "orders"; `
		all       = exchanges + `queue "soon"; queue "later"; and 1 more: `
	)
	for name, test := range map[string]struct {
		edit   func(spec *v1alpha1.ConsumerQueueSpec)
		queues []string
		event  occurrence
	}{
		"the main queue is not empty": {
			edit: func(*v1alpha1.ConsumerQueueSpec) {}, queues: []string{"orders", "soon", "later"},
			event: occurrence{corev1.EventTypeWarning, eventRetained, "Delete", all + `not empty: queue "orders" holds 1 messages`},
		},
		"deletionPolicy is Retain now": {
			edit:   func(spec *v1alpha1.ConsumerQueueSpec) { spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain },
			queues: []string{"orders", "soon", "later"},
			event:  occurrence{corev1.EventTypeNormal, eventRetained, "Delete", all + `deletionPolicy is Retain`},
		},
		"the ConsumerQueue is suspended now, so nothing is declared": {
			edit: func(spec *v1alpha1.ConsumerQueueSpec) { spec.Suspend = true }, queues: []string{"orders", "later"},
			event: occurrence{
				corev1.EventTypeWarning, eventRetained, "Delete",
				exchanges + `queue "later"; queue "orders.dlq": spec.suspend is true, so Warren changes nothing at the broker`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := halfDeleted(t, "")
			spec := w.get().Spec
			test.edit(&spec)
			w.edit(spec)
			occurred := w.reconcileUntilGone()
			topologytest.Equal(t, "queues", test.queues, w.queueNames("orders", "soon", "later"))
			observed, _ := w.broker.Observe(vhost.Selection{Queues: []string{"soon"}})
			var bindings []vhost.Binding
			if w.hasQueue("soon") {
				bindings = []vhost.Binding{{Source: "again", Destination: "soon", RoutingKey: "soon"}}
			}
			topologytest.Equal(t, "bindings of the tier", bindings, observed.BindingsTo["soon"], cmpopts.EquateEmpty())
			topologytest.Equal(t, "Events", []occurrence{test.event}, occurred, comparingOccurrences)
		})
	}
}

// slowRollback is a deletion that ends only after it was cancelled and the test has released it. It deletes a delay tier, and its
// rollback fails.
type slowRollback struct {
	cancelled, released chan struct{}
	broker              *brokerstest.Broker
}

func (d slowRollback) DeleteEmpty(ctx context.Context, _ string, _ []string, _ func(context.Context) error) error {
	<-ctx.Done()
	close(d.cancelled)
	<-d.released
	d.broker.Change(func(s *snapshot.Snapshot) { s.DropQueue("soon") })
	return ctx.Err()
}

// The finalizer must not go while the deletion of the delay tiers rolls back: nothing would repeat a rollback that fails.
func TestRetainWaitsForTheEndOfARunningDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, twoTiers))
	w.mustReconcile()
	if err := w.api.Delete(t.Context(), w.get()); err != nil {
		t.Fatal(err)
	}
	attempt := slowRollback{make(chan struct{}), make(chan struct{}), w.broker}
	w.reconciler.deleted.At(w.get())
	group := brokers.Group{Queues: []string{"soon", "later", "orders"}}
	_, _ = w.reconciler.deletions.Ensure(controllertest.Orders, attempt, w.broker.Health().Cluster.Key(), group, 0)
	spec := w.get().Spec
	spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain
	w.edit(spec)
	for range 5 { // the first reconciliations wait for a refresh
		w.reconciler.index.Update(w.get())
		if _, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: controllertest.Orders}); err != nil {
			t.Fatal(err)
		}
	}
	topologytest.Equal(t, "Ready", "checking whether the queues are empty", conditions.Ready(w.get().Status.Conditions).Message)
	<-attempt.cancelled
	close(attempt.released)
	topologytest.Equal(t, "Events", []occurrence{{
		corev1.EventTypeNormal, eventRetained, "Delete",
		`retained exchange "again"; exchange "orders.dlx"; queue "orders"; queue "soon"; queue "later"; and 1 more: deletionPolicy is Retain`,
	}}, w.reconcileUntilGone(), comparingOccurrences)
	topologytest.Equal(t, "queues", []string{"orders", "soon", "later"}, w.queueNames("orders", "soon", "later"))
}

// With deletionPolicy Delete no consumer uses the main queue any more.
func TestAHalfDeletedGroupIsDeletedWithItsMessages(t *testing.T) {
	t.Parallel()
	w := halfDeleted(t, ", deletionPolicy: Delete")
	w.broker.Fail(vhost.QueueID("orders"), brokererr.ErrAccessRefused)
	w.reconcileUntilGone()
	topologytest.Equal(t, "queues", []string{"orders"}, w.queueNames("orders", "soon", "later"))
}

// The deletion retries until the missing delay tiers are declared again.
func TestADeletionRetriesToDeclareMissingTiers(t *testing.T) {
	t.Parallel()
	w := halfDeleted(t, "")
	w.broker.Fail(vhost.QueueID("soon"), brokererr.ErrUnreachable)
	NewWithT(t).Eventually(func() string {
		_, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: controllertest.Orders})
		w.reconciler.index.Update(w.cached())
		return fmt.Sprint(conditions.Ready(w.get().Status.Conditions).Message, err)
	}).WithTimeout(deadline.For(10 * time.Second)).Should(ContainSubstring(
		`waiting to delete the topology: missing delay tiers cannot be declared again (declare queue "soon"`))
	w.broker.Fail(vhost.QueueID("soon"), nil)
	w.reconcileUntilGone()
	topologytest.Equal(t, "queues", []string{"orders", "soon", "later"}, w.queueNames("orders", "soon", "later"))
}

// A manager may be paused after it read that the resource is being deleted, and lose the lead. When it continues, the next
// manager may have deleted the topology and declared it for a new resource.
func TestAFormerLeaderDeletesNoMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, `{deletionPolicy: Delete, retry: {policy: None}}`))
	w.mustReconcile()
	if err := w.api.Delete(t.Context(), w.get()); err != nil {
		t.Fatal(err)
	}
	stopped, known := w.reconciler, w.get()
	stopped.client = before(w.api, known)
	stopped.index.Update(known)

	w.restart() // the next manager
	w.reconcileUntilGone()
	next := controllertest.NewConsumerQueue(t, `{retry: {policy: None}}`)
	next.UID = "uid-of-another"
	if err := w.api.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	w.mustReconcile()

	for range 3 { // the first reconciliations wait for a refresh
		_, err := stopped.Reconcile(t.Context(), ctrl.Request{NamespacedName: controllertest.Orders})
		topologytest.Equal(t, "error", nil, err)
	}
	topologytest.Equal(t, "queues", []string{"orders", "orders.dlq"}, w.queueNames("orders", "orders.dlq"))
}

// before returns the client of a manager whose cache still has an old ConsumerQueue.
func before(api client.WithWatch, cq *v1alpha1.ConsumerQueue) client.Client {
	return interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			if known, asked := into.(*v1alpha1.ConsumerQueue); asked {
				cq.DeepCopyInto(known)
				return nil
			}
			return c.Get(ctx, key, into, options...)
		},
	})
}

// A snapshot from before the wait for a slot is too old for a removal.
func TestARemovalNeedsARefreshAfterTheWaitForASlot(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(w *world){
		"an exchange that left the spec": func(w *world) {
			w.edit(controllertest.ConsumerQueue(t, `{retry: {delayTiers: [{delay: 30s}]}}`).Spec)
		},
		"the topology of a deleted ConsumerQueue": func(w *world) {
			if err := w.api.Delete(t.Context(), w.get()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, controllertest.NewConsumerQueue(t, `{retry: {exchange: {name: again}, delayTiers: [{delay: 30s}]}}`))
			w.mustReconcile()
			begin(w)
			step := func() string { // runs until it has to wait
				w.reconciler.index.Update(w.cached())
				s := &scope{Reconciler: w.reconciler, report: reportOn(w.cached())}
				run := s.reconcileNormal
				if !s.cq.DeletionTimestamp.IsZero() {
					run = s.reconcileDelete
				}
				got, err := run(t.Context())
				topologytest.Equal(t, "error", nil, err)
				return got.waits.reason
			}
			topologytest.Equal(t, "waits for a refresh", forRefresh.reason, step())
			done, _ := w.reconciler.limiter.TryAcquire(w.broker.Health().Cluster.Endpoint, controllertest.Invoices)
			topologytest.Equal(t, "waits for a slot", forSlot.reason, step())
			done()
			topologytest.Equal(t, "waits for another refresh", forRefresh.reason, step())
		})
	}
}

// A deletion without a status uses the spec, and deletes no queue that has messages.
func TestADeletionWithoutAStatus(t *testing.T) {
	t.Parallel()
	all := []string{"dlq", "orders", "orders.retry.30s"}
	retained := func(kind, note string) []occurrence {
		return []occurrence{{kind, eventRetained, "Delete", "retained " + note}}
	}
	for name, test := range map[string]struct {
		policy  string
		change  func(w *world)
		remains []string
		events  []occurrence
	}{
		"all queues are empty and match the spec": {},
		"the main queue has a message": {
			change: func(w *world) { w.broker.SetMessages("orders", 1) }, remains: all,
			events: retained(corev1.EventTypeWarning, `exchange "dlx"; queue "orders"; queue "orders.retry.30s"; queue "dlq": `+
				`not empty: queue "orders" holds 1 messages`),
		},
		"the main queue has a message, and deletionPolicy is Delete": {
			policy: ", deletionPolicy: Delete", change: func(w *world) { w.broker.SetMessages("orders", 1) }, remains: all,
			events: retained(corev1.EventTypeWarning, `exchange "dlx"; queue "orders"; queue "orders.retry.30s"; queue "dlq": `+
				`not empty: queue "orders" holds 1 messages`),
		},
		"the main queue differs from the spec": {
			change: func(w *world) {
				w.broker.Change(func(s *snapshot.Snapshot) {
					s.DropQueue("orders")
					s.PutQueue("orders", vhost.Queue{Durable: true, Arguments: vhost.Arguments{vhost.ArgQueueType: "classic"}})
				})
			},
			remains: all,
			events: retained(corev1.EventTypeWarning, `exchange "dlx"; queue "orders.retry.30s"; queue "dlq"; queue "orders": still needed: `+
				`Warren did not declare main queue "orders", or another ConsumerQueue shares it. Warren retains the queue and the objects that it needs`),
		},
		"driftPolicy is Report": {
			policy: ", driftPolicy: Report", remains: all,
			events: retained(corev1.EventTypeWarning, `exchange "dlx"; queue "orders"; queue "orders.retry.30s"; queue "dlq": still needed: `+
				`Warren did not declare main queue "orders", or another ConsumerQueue shares it. Warren retains the queue and the objects that it needs`),
		},
		"deletionPolicy is Retain": {
			policy: ", deletionPolicy: Retain", remains: all,
			events: retained(corev1.EventTypeNormal, `exchange "dlx"; queue "orders"; queue "orders.retry.30s"; queue "dlq": deletionPolicy is Retain`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, controllertest.NewConsumerQueue(t, strings.TrimSuffix(threeQueues, "}")+test.policy+"}"))
			if strings.Contains(test.policy, "Report") {
				w.broker.Change(func(s *snapshot.Snapshot) {
					desired, err := topology.Desired(w.get(), vhost.RabbitMQ43)
					topologytest.Equal(t, "error", nil, err)
					declare(s, desired)
				})
			}
			w.mustReconcile()
			cq := w.get()
			cq.Status = v1alpha1.ConsumerQueueStatus{}
			if err := w.api.Status().Update(t.Context(), cq); err != nil {
				t.Fatal(err)
			}
			if test.change != nil {
				test.change(w)
			}
			w.restart()
			topologytest.Equal(t, "Events", test.events, w.delete(), comparingOccurrences)
			topologytest.Equal(t, "queues", test.remains, w.queueNames(all...))
		})
	}
}

// A deletion did not find all its sentinels. Its open fence refuses nothing, so the ConsumerQueue is Ready.
func TestAConsumerQueueReportsTheFenceOfALeftSentinel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, `{retry: {policy: None}}`))
	name := fence.Name{Owner: w.broker.Owner(), Begun: time.Unix(1, 0)}.String("orders")
	w.broker.LeaveFence(vhost.Policy{
		Name: name, Pattern: vhost.ReadPattern(fence.Pattern([]string{"orders"})), ApplyTo: "queues", Definition: fence.Fence{}.Open(),
	})
	w.mustReconcile()
	status := w.get().Status
	topologytest.Equal(t, "Ready", v1alpha1.ReasonInSync, conditions.Ready(status.Conditions).Reason)
	topologytest.Equal(t, "advisories", []v1alpha1.Advisory{{
		Code: v1alpha1.AdvisorySentinelLeft, Name: "orders",
		Message: `queue "orders" may still hold a sentinel, a message of type warren.sentinel that Warren published to delete queues. ` +
			`Consumers acknowledge and ignore it. Warren removes it once few messages are in front of it, and then removes policy "` +
			name + `", which refuses no publishes`,
	}}, status.Advisories)
}
