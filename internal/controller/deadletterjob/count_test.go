package deadletterjob

import (
	"context"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// silentMover announces messages and delivers none. A browse ends as if its context had ended.
type silentMover struct {
	*brokerstest.Broker

	left chan time.Duration
}

func (m *silentMover) Browse(ctx context.Context, _ string, _ mover.BrowseConfig) (mover.Browsed, error) {
	end, _ := ctx.Deadline()
	m.left <- time.Until(end)
	<-ctx.Done()
	return mover.Browsed{Ready: 1}, nil
}

// A broker that counts zero messages, then announces one and never delivers it holds a worker for a limited time only. The job does
// not end with a total of zero.
func TestABrokerThatDeliversNothingHoldsAWorkerForALimitedTime(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	silent := &silentMover{w.Broker, make(chan time.Duration, 1)}
	broker := &brokers.Broker{Probe: w.Broker, Observer: w.Broker, Changer: w.Broker, Mover: silent}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := w.Reconciler.scopeOf(w.get())
	stopped := make(chan *Blocker)
	go func() {
		stopped <- s.count(ctx, Move{Broker: broker, Cluster: broker.Health().Cluster.Key(), Queue: QueueKey{Name: "orders.dlq"}})
	}()
	if left := <-silent.left; left <= 0 || left > countLimit {
		t.Errorf("the browse may take %v", left)
	}
	cancel()
	topologytest.Equal(t, "reason", v1alpha1.ReasonBrokerUnreachable, (<-stopped).Ready.Reason)
}

// While two jobs count at slow brokers, a third one waits without a worker.
func TestAJobWaitsForAWorkerToCount(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	var release []func()
	for _, namespace := range []string{"a", "b"} {
		if done, ok := w.Reconciler.Limiter.TryAcquire("slow:5672", client.ObjectKey{Namespace: namespace, Name: "slow"}); ok {
			release = append(release, done)
		}
	}
	w.Broker.SetMessages("orders.dlq", 9)
	done, _ := w.Reconciler.Limiter.TryAcquire("other:5672", client.ObjectKey{Namespace: "d", Name: "other"})
	ready := conditions.Ready(w.reconcile().Status.Conditions)
	topologytest.Equal(t, "reason", "Queued", ready.Reason)
	if !strings.Contains(ready.Message, "has no slot to count") {
		t.Error(ready.Message)
	}
	for _, done := range append(release, done) {
		done()
	}
	w.ReconcileWhenEnqueued()
	topologytest.Equal(t, "total", int64(9), *w.get().Status.Total)
}
