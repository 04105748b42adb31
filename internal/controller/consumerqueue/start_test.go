package consumerqueue

import (
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// At the start of a manager, each ConsumerQueue is reconciled once: when its connection is usable, or after connectTime.
func TestEachConsumerQueueIsReconciledOnceAtTheStart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		synced    time.Time // when the vhost was read, before the initial list arrives
		connected bool      // the connection reports that it is usable
		other     bool      // the ConsumerQueue names a missing connection
		want      time.Duration
	}{
		"the connection opens":          {want: connectTime},
		"the connection becomes usable": {connected: true},
		"the vhost was read before":     {synced: time.Now()},
		"the connection is missing":     {synced: time.Now(), other: true, want: connectTime},
	} {
		cq := controllertest.ConsumerQueue(t, `{}`)
		if test.other {
			cq = controllertest.ConsumerQueue(t, `{connectionRef: {name: other}}`)
		}
		w := newWorld(t, cq)
		w.broker.SetHealth(func(h *rabbit.Health) { h.SyncedAt = test.synced })
		synctest.Test(t, func(t *testing.T) {
			queue := priorityqueue.New[reconcile.Request]("")
			defer queue.ShutDown()
			began := time.Now()
			w.reconciler.indexPeers().Create(t.Context(), event.CreateEvent{Object: cq, IsInInitialList: true}, queue)
			if test.connected {
				enqueueNoticed().Generic(t.Context(), queuedResource(cq.Name, trigger.Resync), queue)
			}
			request, priority, _ := queue.GetWithPriority()
			topologytest.Equal(t, name+": request", controllertest.Orders, request.NamespacedName)
			topologytest.Equal(t, name+": priority", trigger.Resync, priority)
			topologytest.Equal(t, name+": after", test.want, time.Since(began))
			queue.Done(request)
			synctest.Wait()
			topologytest.Equal(t, name+": left in the queue", 0, queue.Len())
		})
	}
}

// The initial list of a manager is enqueued only by indexPeers. A later object is enqueued immediately.
func TestALaterObjectIsEnqueuedImmediately(t *testing.T) {
	t.Parallel()
	for name, passes := range map[string]predicate.Predicate{
		"ConsumerQueue":    predicate.And(trigger.SpecOrRequest(), notAtStart()),
		"BrokerConnection": predicate.And(readinessChanged(), notAtStart()),
	} {
		var object client.Object = controllertest.ConsumerQueue(t, `{}`)
		if name == "BrokerConnection" {
			object = controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{})
		}
		topologytest.Equal(t, name+" at the start", false, passes.Create(event.CreateEvent{Object: object, IsInInitialList: true}))
		topologytest.Equal(t, name+" later", true, passes.Create(event.CreateEvent{Object: object}))
		topologytest.Equal(t, name+" that is gone", true, passes.Delete(event.DeleteEvent{Object: object}))
	}
}
