package consumerqueue

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// verdict is what the status says of the topology.
type verdict struct {
	Ready   metav1.ConditionStatus
	Reason  string
	Drifted string
	Queue   v1alpha1.ObjectState // of dlq
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

// It may take long to declare what is missing, and the operator may end meanwhile.
func TestTheStatusTellsDriftBeforeItIsCorrected(t *testing.T) {
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

// A resource may wait for minutes for its turn at the broker.
func TestTheStatusTellsDriftWhileItWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.NewConsumerQueue(t, twoQueues))
	w.mustReconcile()
	w.broker.Change(func(s *snapshot.Snapshot) { s.DropQueue("dlq") })
	done, _ := w.reconciler.limiter.TryAcquire(w.broker.Health().Cluster.Endpoint, controllertest.Invoices)
	w.recorder.occurred = nil
	w.reconciler.index.Update(w.cached())
	s := &scope{Reconciler: w.reconciler, report: reportOn(w.cached())}
	_, err := s.reconcileNormal(t.Context())
	topologytest.Equal(t, "waits for its turn", true, errors.Is(err, brokers.ErrBusy))
	topologytest.Equal(t, "status", dlqIsMissing, verdictOf(w.get().Status))
	topologytest.Equal(t, "Events", []string{eventDriftDetected}, reasonsOf(w.recorder.occurred))
	done()
	topologytest.Equal(t, "Events of the correction", []string{eventDriftCorrected}, reasonsOf(w.mustReconcile()))
}

func reasonsOf(occurred []occurrence) (reasons []string) {
	for _, one := range occurred {
		reasons = append(reasons, one.reason)
	}
	return reasons
}
