package consumerqueue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/retrybudget"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/deadline"
)

// newDeleteScope returns the scope of a ConsumerQueue. The API server has the ConsumerQueue and the other objects.
func newDeleteScope(t *testing.T, cq *v1alpha1.ConsumerQueue, others ...client.Object) *scope {
	t.Helper()
	c := controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes}, append(others, cq)...)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(cq), cq); err != nil {
		t.Fatal(err)
	}
	connections := brokers.NewPool(c, logr.Discard(), brokers.ConnectWithin(management.NewLimits(0), 0, nil))
	return &scope{
		Reconciler: &Reconciler{
			recreations: newRecreationTasks(t.Context(), func(client.ObjectKey) {}),
			client:      c, live: c, pool: connections, recorder: &controllertest.EventLog{},
			deletions: brokers.NewDeletionTasks(t.Context(), func(client.ObjectKey) {}), index: ownership.NewIndex(), handover: ownership.NewHandover(), refreshes: brokers.NewRefreshGate(func(client.ObjectKey) {}), removals: brokers.NewRefreshGate(func(client.ObjectKey) {}), refusals: brokers.NewRefreshGate(func(client.ObjectKey) {}),
			redeclared: newRedeclared(clock.RealClock{}), leadsSince: time.Now, deleted: retrybudget.NewFirstSeen(clock.RealClock{}), contracts: retrybudget.NewFirstSeen(clock.RealClock{}), restored: retrybudget.NewFirstSeen(clock.RealClock{}),
		},
		report: reportOn(cq),
	}
}

func isGone(t *testing.T, l *scope) bool {
	t.Helper()
	err := l.client.Get(t.Context(), client.ObjectKeyFromObject(l.cq), &v1alpha1.ConsumerQueue{})
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err != nil
}

// If Warren cannot reach the broker or must not change it, the resource is deleted and its topology remains.
func TestTerminateWithoutABroker(t *testing.T) {
	t.Parallel()
	const all = `exchange "orders.dlx"; queue "orders"; queue "orders.dlq"`
	spec := func(more string) string {
		return `{bindings: [{exchange: {name: events, type: topic}}], retry: {policy: None}` + more + `}`
	}
	suspended := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{Suspend: true})
	notReady := func(reason string) *v1alpha1.BrokerConnection {
		bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{})
		bc.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: "False", Reason: reason, Message: `Secret "broker" not found`, ObservedGeneration: bc.Generation,
		}}
		return bc
	}
	slow := notReady(v1alpha1.ReasonSecretNotFound)
	slow.Spec.ResyncInterval = "1m"
	for name, test := range map[string]struct {
		more    string // appended to the spec
		bc      *v1alpha1.BrokerConnection
		status  func(s *v1alpha1.ConsumerQueueStatus)
		failing time.Duration // how long the deletion has failed
		// event is recorded when the resource is deleted, if not empty. waits is the message of Ready while it waits.
		event, waits string
	}{
		"deletionPolicy is Retain": {
			more: ", deletionPolicy: Retain", bc: notReady(v1alpha1.ReasonSecretNotFound),
			event: "Normal retained " + all + ": deletionPolicy is Retain",
		},
		"deletionPolicy is Retain, while the BrokerConnection connects after a deletion has begun": {
			more: ", deletionPolicy: Retain", bc: controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{}),
			status: func(s *v1alpha1.ConsumerQueueStatus) {
				s.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: "False", Reason: v1alpha1.ReasonTerminating}}
			},
			waits: `waiting to delete the topology: BrokerConnection "default" is connecting`,
		},
		"spec.suspend is set": {
			more: ", suspend: true", bc: notReady(v1alpha1.ReasonSecretNotFound),
			event: "Warning retained " + all + ": spec.suspend is true, so Warren changes nothing at the broker",
		},
		"driftPolicy is Report, and the topology was found": {
			more: ", driftPolicy: Report", bc: notReady(v1alpha1.ReasonSecretNotFound), status: adopted,
			event: "Normal retained " + all + ": driftPolicy is Report, and other clients declared this topology",
		},
		"driftPolicy is Report, and the topology was found without a main queue": {
			more: ", driftPolicy: Report", bc: notReady(v1alpha1.ReasonSecretNotFound),
			status: func(s *v1alpha1.ConsumerQueueStatus) {
				adopted(s)
				s.Topology = slices.DeleteFunc(s.Topology, isMain)
			},
			event: `Normal retained exchange "orders.dlx"; queue "orders.dlq": driftPolicy is Report, and other clients declared this topology`,
		},
		"driftPolicy is Report, deletionPolicy is Delete, and the topology was found": {
			more: ", driftPolicy: Report, deletionPolicy: Delete", bc: notReady(v1alpha1.ReasonSecretNotFound), status: adopted,
			waits: `waiting to delete the topology: BrokerConnection "default" is not ready: Secret "broker" not found`,
		},
		"driftPolicy is Report, and Warren declared the topology": {
			more: ", driftPolicy: Report", bc: notReady(v1alpha1.ReasonSecretNotFound),
			waits: `waiting to delete the topology: BrokerConnection "default" is not ready: Secret "broker" not found`,
		},
		"the BrokerConnection is gone": {
			event: "Warning retained " + all + `: BrokerConnection "default" is gone`,
		},
		"the BrokerConnection is suspended": {
			bc: suspended, event: "Warning retained " + all + `: BrokerConnection "default" is suspended`,
		},
		"the BrokerConnection is not ready": {
			bc:    notReady(v1alpha1.ReasonSecretNotFound),
			waits: `waiting to delete the topology: BrokerConnection "default" is not ready: Secret "broker" not found`,
		},
		"the broker cannot be reached": {
			bc:    notReady(v1alpha1.ReasonBrokerUnreachable),
			waits: `waiting to delete the topology: BrokerConnection "default" cannot reach its broker. See the status of the BrokerConnection`,
		},
		"the BrokerConnection is connecting": {
			bc: controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{}), waits: `waiting to delete the topology: BrokerConnection "default" is connecting`,
		},
		"the BrokerConnection is not ready for too long": {
			bc: notReady(v1alpha1.ReasonSecretNotFound), failing: 2 * time.Minute,
			event: "Warning retained " + all + `: not deleted within 1m30s: BrokerConnection "default" is not ready: Secret "broker" not found`,
		},
		"the BrokerConnection is not ready for less than three intervals": {
			bc: slow, failing: 2 * time.Minute,
			waits: `waiting to delete the topology: BrokerConnection "default" is not ready: Secret "broker" not found`,
		},
		"nothing was declared": {
			status: func(s *v1alpha1.ConsumerQueueStatus) { s.Topology = nil },
		},
		"the status was lost": {
			status: func(s *v1alpha1.ConsumerQueueStatus) { *s = v1alpha1.ConsumerQueueStatus{} },
			event:  "Warning retained " + all + `: BrokerConnection "default" is gone`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cq := controllertest.BeingDeleted(controllertest.Synced(t, "orders", spec(test.more), ""))
			cq.Status.ObservedGeneration = cq.Generation
			*cq.DeletionTimestamp = metav1.NewTime(time.Now().Add(-time.Hour)) // while no manager ran
			if test.status != nil {
				test.status(&cq.Status)
			}
			var others []client.Object
			if test.bc != nil {
				others = append(others, test.bc)
			}
			l := newDeleteScope(t, cq, others...)
			failFor(&l.unreached, cq, test.failing)
			result, err := l.reconcileDelete(t.Context())
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "gone", test.waits == "", isGone(t, l))
			ready := conditions.Ready(l.status.Conditions)
			if test.waits != "" {
				topologytest.Equal(t, "ready", "False Terminating "+test.waits, fmt.Sprintf("%s %s %s", ready.Status, ready.Reason, ready.Message))
				if result.RequeueAfter <= 0 || result.RequeueAfter > 2*terminationRetry {
					t.Errorf("is requeued after %v", result.RequeueAfter)
				}
			} else {
				topologytest.Equal(t, "result", ctrl.Result{}, result.Result)
				topologytest.Equal(t, "status", l.cq.Status, *l.status)
			}
			var want []occurrence
			if kind, note, found := strings.Cut(test.event, " "); found {
				want = []occurrence{{kind, eventRetained, "Delete", note}}
			}
			topologytest.Equal(t, "events", want, l.events, comparingOccurrences)
		})
	}
}

// Neither the status nor the spec names the objects that may be at the broker.
func TestTerminateWithoutAStatusAndWithARefusedSpec(t *testing.T) {
	t.Parallel()
	spec := fmt.Sprintf(`{queue: {arguments: {x-a: %q}}}`, strings.Repeat("a", 2000))
	l := newDeleteScope(t, controllertest.BeingDeleted(controllertest.ConsumerQueue(t, spec)))
	_, err := l.reconcileDelete(t.Context())
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "gone", true, isGone(t, l))
	topologytest.Equal(t, "events", []occurrence{{
		"Warning", eventRetained, "Delete", "the status is empty, so Warren does not know which objects it declared for this ConsumerQueue, and retains them",
	}}, l.events, comparingOccurrences)
}

// A deletion that waits for a state that ends by itself is tried longer than one that fails.
func TestRetryOrGiveUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limit    time.Duration
		interval v1alpha1.Duration
		failing  time.Duration
		event    string // empty if the deletion is retried
	}{
		"retried for less than a minute":                          {limit: retrybudget.Termination, interval: "1s", failing: 40 * time.Second},
		"not retried after a minute":                              {limit: retrybudget.Termination, interval: "1s", failing: time.Minute, event: "not deleted within 1m: why"},
		"retried for less than three intervals":                   {limit: retrybudget.Termination, interval: "1m", failing: 2 * time.Minute},
		"a pending deletion is retried for less than ten minutes": {limit: retrybudget.Pending, interval: "1m", failing: 9 * time.Minute},
		"a pending deletion is not retried after ten minutes":     {limit: retrybudget.Pending, interval: "1m", failing: 10 * time.Minute, event: "not deleted within 10m: why"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newDeleteScope(t, controllertest.BeingDeleted(controllertest.Synced(t, "orders", `{}`, "")))
			trials := new(retrybudget.Failures)
			failFor(trials, l.cq, test.failing)
			bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{ResyncInterval: test.interval})
			owned := topology.Owned(l.status.Topology)[:1]
			d := &deletion{l}
			if _, err := d.retryOrGiveUp(t.Context(), bc, retryLimit{trials, test.limit}, "why", owned); err != nil {
				t.Fatal(err)
			}
			topologytest.Equal(t, "gone", test.event != "", isGone(t, l))
			if test.event != "" && (len(l.events) != 1 || !strings.Contains(l.events[0].note, test.event)) {
				t.Errorf("%+v", l.events)
			}
		})
	}
}

// A deletion also ends beside a namespace that deletes queues all the time.
func TestARefusalIsOnlyDelayedIfItMayPass(t *testing.T) {
	t.Parallel()
	now := time.Now()
	unproven := brokererr.Errors{}.Fail(brokererr.ErrUnproven, "queue %q has no leader", "orders")
	for name, test := range map[string]struct {
		trouble      error
		lastDeletion time.Time
		want         bool
	}{
		"beside other deletions":                 {unproven, now.Add(-time.Second), true},
		"alone":                                  {unproven, now.Add(-time.Hour), false},
		"without any deletion before":            {unproven, time.Time{}, false},
		"a queue that can never be proven empty": {errors.Join(unproven, brokererr.ErrUnprovable), now.Add(-time.Second), false},
	} {
		topologytest.Equal(t, name, test.want, mayBeDelayed(test.trouble, test.lastDeletion, now))
	}
}

func adopted(s *v1alpha1.ConsumerQueueStatus) {
	for i := range s.Topology {
		s.Topology[i].Origin = v1alpha1.OriginAdopted
	}
}

// A result from before the deletion is dropped: the queue may be empty by now. A result from the deletion itself is kept.
func TestADeletionDropsOlderResults(t *testing.T) {
	t.Parallel()
	l := newDeleteScope(t, controllertest.BeingDeleted(controllertest.Synced(t, "orders", `{}`, "")), controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{}))
	for pass, want := range []bool{false, true} {
		enqueued := controllertest.NewEnqueued()
		removals := brokers.NewDeletionTasks(t.Context(), enqueued.Enqueue)
		broker := controllertest.NewDeleter()
		_, _ = removals.Ensure(controllertest.Orders, broker, "a", brokers.Group{Queues: []string{"dlq"}}, 0)
		broker.Results <- brokererr.ErrNotEmpty
		<-enqueued
		l.deletions = removals
		_, err := l.reconcileDelete(t.Context())
		topologytest.Equal(t, "error", nil, err)
		known, _ := removals.Ensure(controllertest.Orders, controllertest.NewDeleter(), "a", brokers.Group{Queues: []string{"dlq"}}, time.Hour)
		topologytest.Equal(t, fmt.Sprintf("known after reconciliation %d", pass+1), want, known)
	}
}

// A resource without the finalizer waits for other finalizers, and Warren does nothing for it.
func TestTerminateOnlyOnce(t *testing.T) {
	t.Parallel()
	cq := controllertest.BeingDeleted(controllertest.Synced(t, "orders", `{deletionPolicy: Retain}`, ""))
	cq.Finalizers = append(cq.Finalizers, "example.com/wait")
	l := newDeleteScope(t, cq)
	_, err := l.reconcileDelete(t.Context())
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "finalizers", []string{"example.com/wait"}, l.cq.Finalizers)
	topologytest.Equal(t, "events", 1, len(l.events))
	_, err = l.reconcileDelete(t.Context())
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "events after another reconciliation", 1, len(l.events))
}

// If another reconciliation removed the finalizer first, no second Event is recorded.
func TestRemoveFinalizerRecordsOneEvent(t *testing.T) {
	t.Parallel()
	first := newDeleteScope(t, controllertest.BeingDeleted(controllertest.Synced(t, "orders", `{}`, "")))
	second := &scope{Reconciler: first.Reconciler, report: reportOn(first.cq.DeepCopy())}
	for _, l := range []*scope{first, second} {
		err := l.removeFinalizer(t.Context(), "Normal", "retained everything: why")
		topologytest.Equal(t, "error", nil, err)
	}
	topologytest.Equal(t, "events", []int{1, 0}, []int{len(first.events), len(second.events)})
}

// If the resource was changed since it was read, it is reconciled again before the finalizer is removed.
func TestRemoveFinalizerOfAChangedResource(t *testing.T) {
	t.Parallel()
	l := newDeleteScope(t, controllertest.BeingDeleted(controllertest.Synced(t, "orders", `{}`, "")))
	changed := l.cq.DeepCopy()
	changed.Annotations = map[string]string{"example.com/changed": "yes"}
	topologytest.Equal(t, "error", nil, l.client.Update(t.Context(), changed))
	err := l.removeFinalizer(t.Context(), "Normal", "retained everything: why")
	topologytest.Equal(t, "the cache must have the change first", true, errors.Is(err, statuswriter.ErrStaleCache))
	topologytest.Equal(t, "gone", false, isGone(t, l))
	topologytest.Equal(t, "events", 0, len(l.events))
}

func TestRetained(t *testing.T) {
	t.Parallel()
	queue := func(name string) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: name}
	}
	exchange := func(name string, role v1alpha1.Role) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{Kind: v1alpha1.KindExchange, Name: name, Role: role}
	}
	binding := v1alpha1.TopologyEntry{Kind: v1alpha1.KindBinding, Source: "dlx", Destination: "dlq", Role: v1alpha1.RoleDeadLetter}
	for name, test := range map[string]struct {
		retained []plan.Retained
		want     string
	}{
		"nothing": {nil, ""},
		"source exchanges and bindings are not named": {
			[]plan.Retained{{Entry: exchange("events", v1alpha1.RoleSource), Reason: "why"}, {Entry: binding, Reason: "why"}}, "",
		},
		"one object": {[]plan.Retained{{Entry: queue("dlq"), Reason: "it is full"}}, `retained queue "dlq": it is full`},
		"objects are grouped by reason": {
			[]plan.Retained{
				{Entry: queue("a"), Reason: "one"},
				{Entry: queue("b"), Reason: "other"},
				{Entry: exchange("c", v1alpha1.RoleRetry), Reason: "one"},
				{Entry: exchange("events", v1alpha1.RoleSource), Reason: "third"},
			},
			`retained queue "a"; exchange "c": one. queue "b": other`,
		},
		"only five objects are named": {
			[]plan.Retained{
				{Entry: queue("1"), Reason: "why"},
				{Entry: queue("2"), Reason: "why"},
				{Entry: queue("3"), Reason: "why"},
				{Entry: queue("4"), Reason: "why"},
				{Entry: queue("5"), Reason: "why"},
				{Entry: queue("6"), Reason: "why"},
				{Entry: queue("7"), Reason: "why"},
			},
			`retained queue "1"; queue "2"; queue "3"; queue "4"; queue "5"; and 2 more: why`,
		},
	} {
		topologytest.Equal(t, name, test.want, retainedNote(test.retained))
	}
}

// failFor records failures of a deletion over a time that ends now.
func failFor(failures *retrybudget.Failures, cq *v1alpha1.ConsumerQueue, failing time.Duration) {
	now := time.Now()
	for at := now.Add(-failing); at.Before(now); at = at.Add(time.Second) {
		failures.Add(cq, at)
	}
	failures.Add(cq, now)
}

// A broker that deletes thousands of queues for other ConsumerQueues is slow, and its connection may break now and then.
// Deletions are retried while others succeed.
func TestADeletionIsRetriedWhileOthersSucceed(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]bool{"other deletions succeed": true, "no other deletion succeeds": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, controllertest.NewConsumerQueue(t, twoQueues))
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			cq := w.get()
			if err := w.api.Delete(t.Context(), cq); err != nil {
				t.Fatal(err)
			}
			w.broker.Fail(vhost.QueueID("orders"), brokererr.ErrUnproven)
			if others {
				w.broker.Change(func(s *snapshot.Snapshot) { s.PutQueue("theirs", vhost.Queue{Durable: true}) })
				if err := w.broker.DeleteEmpty(t.Context(), w.broker.Health().Cluster.Key(), []string{"theirs"}, nil); err != nil {
					t.Fatal(err)
				}
			}
			failFor(&w.reconciler.refused, cq, 2*time.Minute)
			failFor(&w.reconciler.unreached, cq, 2*time.Minute)
			outcome := func() string {
				_, err := w.reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: controllertest.Orders})
				now := &v1alpha1.ConsumerQueue{}
				if apierrors.IsNotFound(w.api.Get(t.Context(), controllertest.Orders, now)) {
					return "gone"
				}
				w.reconciler.index.Update(now)
				return fmt.Sprint(conditions.Ready(now.Status.Conditions).Message, err)
			}
			want := "gone"
			if others {
				want = "waiting to delete the topology"
			}
			// The deletion task takes a moment.
			NewWithT(t).Eventually(outcome).WithTimeout(deadline.For(10 * time.Second)).Should(ContainSubstring(want))
			topologytest.Equal(t, "failures to reach the broker", time.Duration(0), w.reconciler.unreached.Add(cq, time.Now()))
		})
	}
}
