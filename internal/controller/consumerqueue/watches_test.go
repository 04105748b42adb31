package consumerqueue

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// An edit by a user is reconciled before periodic reconciliations, and before changes at the broker or of a peer.
func TestAnEditComesFirst(t *testing.T) {
	t.Parallel()
	var known []client.Object
	for i := range 100 {
		known = append(known, controllertest.Named(t, "shop", fmt.Sprintf("resynced-%03d", i), `{}`))
	}
	waiting := controllertest.Named(t, "shop", "neighbour", withGrave)
	waiting.Status.Topology = []v1alpha1.TopologyEntry{{Kind: v1alpha1.KindQueue, Name: "grave", State: v1alpha1.StateOrphaned}}
	holder := controllertest.Named(t, "shop", "holder", withGrave)
	r := &Reconciler{
		client: controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes}, known...), index: ownership.NewIndex(),
	}
	r.index.Update(waiting)
	r.index.Update(holder)
	queue := priorityqueue.New[reconcile.Request]("")
	t.Cleanup(queue.ShutDown)

	bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{})
	r.resyncConnection().Update(t.Context(), event.UpdateEvent{ObjectOld: bc, ObjectNew: bc}, queue)
	enqueueNoticed().Generic(t.Context(), queuedResource("resynced-000", trigger.Resync), queue)
	enqueueNoticed().Generic(t.Context(), queuedResource("noticed", trigger.Noticed), queue)
	r.indexPeers().Delete(t.Context(), event.DeleteEvent{Object: holder}, queue)
	before := controllertest.Named(t, "shop", "edited", `{}`)
	after := before.DeepCopy()
	before.ResourceVersion, after.ResourceVersion, after.Generation = "1", "2", 4
	(&handler.EnqueueRequestForObject{}).Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, queue)

	var order []string
	for range 4 {
		request, priority, _ := queue.GetWithPriority()
		order = append(order, fmt.Sprint(request.Name, " ", priority))
	}
	topologytest.Equal(t, "order", []string{"edited 0", "noticed -50", "neighbour -50", "resynced-000 -100"}, order)
}

func queuedResource(name string, priority int) event.TypedGenericEvent[brokers.QueuedResource] {
	return event.TypedGenericEvent[brokers.QueuedResource]{
		Object: brokers.QueuedResource{Resource: client.ObjectKey{Namespace: "shop", Name: name}, Priority: priority},
	}
}

// A reconciliation that is due after an interval has a lower priority than one after a change.
func TestAnIntervalHasALowPriority(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controllertest.ConsumerQueue(t, `{driftPolicy: Report}`))
	for range 2 {
		w.reconciler.index.Update(w.cached())
		result, err := w.reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: controllertest.Orders})
		topologytest.Equal(t, "error", nil, err)
		if result.RequeueAfter > 2*brokers.RefreshRecheck {
			topologytest.Equal(t, "priority", trigger.Resync, *result.Priority)
			return
		}
		topologytest.Equal(t, "priority while waiting for a refresh", nil, result.Priority)
	}
	t.Error("the ConsumerQueue is not requeued after its interval")
}
