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

// What is there when a manager starts is reconciled once: when its connection can be asked, or after a while without.
func TestEachIsReconciledOnceAtTheStart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		synced    time.Time // when the vhost was read before the list comes
		connected bool      // the connection tells that it can be asked
		other     bool      // the ConsumerQueue has a connection that is not there
		want      time.Duration
	}{
		"the connection is being made":   {want: connectTime},
		"the connection can be asked":    {connected: true},
		"the vhost has been read before": {synced: time.Now()},
		"there is no connection":         {synced: time.Now(), other: true, want: connectTime},
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
				wakeUp().Generic(t.Context(), wakeupOf(cq.Name, trigger.Resync), queue)
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

// The list that a manager begins with is enqueued nowhere else; what is made later is, at once.
func TestWhatIsMadeLaterDoesNotWait(t *testing.T) {
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
