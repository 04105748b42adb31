package consumerqueue

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// verdict is what the status reports about the topology.
type verdict struct {
	Ready   metav1.ConditionStatus
	Reason  string
	Drifted string
	Queue   v1alpha1.ObjectState // state of queue dlq
}

func verdictOf(status v1alpha1.ConsumerQueueStatus) verdict {
	ready := conditions.Ready(status.Conditions)
	v := verdict{Ready: ready.Status, Reason: ready.Reason}
	for _, condition := range status.Conditions {
		if condition.Type == v1alpha1.ConditionDrifted {
			v.Drifted = condition.Message
		}
	}
	for _, entry := range status.Topology {
		if entry.Kind == v1alpha1.KindQueue && entry.Name == "dlq" {
			v.Queue = entry.State
		}
	}
	return v
}

var dlqIsMissing = verdict{
	Ready: metav1.ConditionUnknown, Reason: v1alpha1.ReasonCorrecting, Queue: v1alpha1.StateMissing,
	Drifted: `queue "dlq" is missing; queue "dlq" is not bound to exchange "dlx" with routing key ""`,
}

// The status reports drift before Warren corrects it: declaring may take long, and Warren may stop meanwhile.
func TestTheStatusReportsDriftBeforeItIsCorrected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, twoQueues))
	w.mustReconcile()
	w.broker.Change(func(s *snapshot.Snapshot) { s.DropQueue("dlq") })
	var meanwhile verdict
	w.broker.Interfere(func(*snapshot.Snapshot) { meanwhile = verdictOf(w.get().Status) })
	occurred := w.mustReconcile()
	topologytest.Equal(t, "status while dlq is declared", dlqIsMissing, meanwhile)
	topologytest.Equal(t, "status after that", v1alpha1.ReasonInSync, conditions.Ready(w.get().Status.Conditions).Reason)
	topologytest.Equal(t, "Events", []string{eventDriftDetected, eventDriftCorrected}, reasonsOf(occurred))
}

// A resource may wait for minutes for a slot at the broker.
func TestTheStatusReportsDriftWhileTheResourceWaitsForASlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, twoQueues))
	w.mustReconcile()
	w.broker.Change(func(s *snapshot.Snapshot) { s.DropQueue("dlq") })
	done, _ := w.reconciler.limiter.TryAcquire(w.broker.Health().Cluster.Endpoint, controllertest.Invoices)
	w.recorder.occurred = nil
	w.reconciler.index.Update(w.cached())
	s := &scope{Reconciler: w.reconciler, report: reportOn(w.cached())}
	got, err := s.reconcileNormal(t.Context())
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "waits for a slot", true, got.waits == forSlot)
	topologytest.Equal(t, "status", dlqIsMissing, verdictOf(w.get().Status))
	topologytest.Equal(t, "Events", []string{eventDriftDetected}, reasonsOf(w.recorder.occurred))
	done()
	topologytest.Equal(t, "Events of the correction", []string{eventDriftCorrected}, reasonsOf(w.mustReconcile()))
}

// A broker that fails may have lost queues before. The status does not say InSync until the BrokerConnection is not Ready.
func TestTheStatusReportsDriftWhileTheConnectionFails(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]v1alpha1.DriftPolicy{"Correct": v1alpha1.DriftPolicyCorrect, "Report": v1alpha1.DriftPolicyReport} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, controllertest.NewConsumerQueue(t, twoQueues))
			w.mustReconcile()
			cq := w.get()
			cq.Spec.DriftPolicy = policy
			if err := w.api.Update(t.Context(), cq); err != nil {
				t.Fatal(err)
			}
			w.broker.SetHealth(func(h *rabbit.Health) { h.Err = brokererr.ErrUnreachable })
			topologytest.Equal(t, "Events without drift", nil, reasonsOf(w.mustReconcile()))
			topologytest.Equal(t, "Ready without drift", metav1.ConditionTrue, verdictOf(w.get().Status).Ready)
			topologytest.Equal(t, "Events", []string{eventDriftDetected}, reasonsOf(w.deleteDLQ()))
			got := verdictOf(w.get().Status)
			topologytest.Equal(t, "is Ready", false, got.Ready == metav1.ConditionTrue)
			topologytest.Equal(t, "state of dlq", v1alpha1.StateMissing, got.Queue)
			topologytest.Equal(t, "is declared", false, w.hasQueue("dlq"))
		})
	}
}

func reasonsOf(occurred []occurrence) (reasons []string) {
	for _, one := range occurred {
		reasons = append(reasons, one.reason)
	}
	return reasons
}

// deleteDLQ deletes dlq as another client would, and reconciles.
func (w *world) deleteDLQ() []occurrence {
	w.t.Helper()
	w.broker.Change(func(s *snapshot.Snapshot) { s.DropQueue("dlq") })
	return w.mustReconcile()
}

// Warren declares an object that other clients keep deleting once per five minutes.
func TestARepeatedlyDeletedObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, twoQueues))
	w.mustReconcile()
	pass := func(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }
	for range 3 {
		w.deleteDLQ()
		topologytest.Equal(t, "is declared again immediately", true, w.hasQueue("dlq"))
		pass(time.Minute)
	}

	const message = `other clients deleted queue "dlq" 3 times within 10m, so Warren declares each of them only once per 5m. ` +
		`Find the cause, such as a policy that sets expires, or another program`
	occurred := w.deleteDLQ()
	topologytest.Equal(t, "is declared a fourth time", false, w.hasQueue("dlq"))
	ready := conditions.Ready(w.get().Status.Conditions)
	topologytest.Equal(t, "Ready", []string{"False", "RepeatedlyDeleted", message}, []string{string(ready.Status), ready.Reason, ready.Message})
	topologytest.Equal(t, "Events", []string{eventDriftDetected, eventRepeatedlyDeleted}, reasonsOf(occurred))
	written := w.get().ResourceVersion
	topologytest.Equal(t, "Events of the next interval", nil, reasonsOf(w.mustReconcile()))
	topologytest.Equal(t, "version after the next interval", written, w.get().ResourceVersion)

	w.broker.Change(func(s *snapshot.Snapshot) { s.DropExchange("dlx") })
	w.mustReconcile()
	observed, _ := w.broker.Observe(vhost.Selection{Exchanges: []string{"dlx"}})
	topologytest.Equal(t, "another object is declared immediately", true, observed.Has(vhost.ExchangeID("dlx")))

	pass(4 * time.Minute) // five minutes after the last declaration
	topologytest.Equal(t, "Events after five minutes", []string{eventDriftCorrected}, reasonsOf(w.mustReconcile()))
	topologytest.Equal(t, "is declared after five minutes", true, w.hasQueue("dlq"))
	w.deleteDLQ()
	topologytest.Equal(t, "is declared immediately after the fourth time", false, w.hasQueue("dlq"))
	pass(5 * time.Minute)
	w.mustReconcile()

	pass(10 * time.Minute)
	w.deleteDLQ()
	topologytest.Equal(t, "is declared immediately after ten quiet minutes", true, w.hasQueue("dlq"))
}

// postponed returns the time until the object may be declared, so that the resource is requeued then, however long its interval
// is.
func TestPostponed(t *testing.T) {
	t.Parallel()
	now := testclock.NewFakePassiveClock(time.Now())
	r := newRedeclared(now)
	queue, exchange := vhost.QueueID("dlq"), vhost.ExchangeID("dlx")
	both := []vhost.ID{queue, exchange}
	for range 2 {
		r.record(controllertest.Orders, both)
	}
	now.SetTime(now.Now().Add(9 * time.Minute))
	r.record(controllertest.Orders, []vhost.ID{queue})
	now.SetTime(now.Now().Add(time.Minute))
	objects, wait := r.postponed(controllertest.Orders, both)
	topologytest.Equal(t, "postponed", vhost.IDs{queue: true}, objects)
	topologytest.Equal(t, "wait", 4*time.Minute, wait)
	objects, _ = r.postponed(controllertest.Invoices, both)
	topologytest.Equal(t, "postponed for another resource", nil, objects)
	r.record(controllertest.Orders, []vhost.ID{exchange}) // ten minutes after the second declaration
	objects, _ = r.postponed(controllertest.Orders, []vhost.ID{exchange})
	topologytest.Equal(t, "postponed after ten quiet minutes", nil, objects)
	r.forget(controllertest.Orders)
	objects, _ = r.postponed(controllertest.Orders, both)
	topologytest.Equal(t, "postponed when the resource is gone", nil, objects)
}

// The deletion of a queue deletes its bindings too, and their events may arrive after Warren has declared both again. Only the
// queue counts then.
func TestTheDeletionOfAQueueDoesNotCountForItsBindings(t *testing.T) {
	t.Parallel()
	now := testclock.NewFakePassiveClock(time.Now())
	r := newRedeclared(now)
	queue := vhost.QueueID("dlq")
	binding := vhost.ID{Kind: vhost.KindBinding, Source: "dlx", Destination: "dlq", RoutingKey: "#"}
	for range 2 {
		r.record(controllertest.Orders, []vhost.ID{binding, queue})
		now.SetTime(now.Now().Add(10 * time.Second))
		r.record(controllertest.Orders, []vhost.ID{binding}) // after the late event
		now.SetTime(now.Now().Add(time.Minute))
	}
	objects, _ := r.postponed(controllertest.Orders, []vhost.ID{queue, binding})
	topologytest.Equal(t, "postponed after two deletions of the queue", nil, objects)
	for range 3 {
		r.record(controllertest.Orders, []vhost.ID{binding})
	}
	objects, _ = r.postponed(controllertest.Orders, []vhost.ID{queue, binding})
	topologytest.Equal(t, "postponed after three deletions of the binding alone", vhost.IDs{binding: true}, objects)
}
