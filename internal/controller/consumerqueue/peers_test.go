package consumerqueue

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	withGrave    = `{deadLetter: {queue: {name: grave}}}`
	withBigGrave = `{deadLetter: {queue: {name: grave, maxLength: 5}}}`
)

// here is the location of controllertest.Synced.
var here = ownership.Location{Cluster: vhost.Cluster{Name: "rabbit@a", Endpoint: "mq:5672"}, VHost: "/"}

// viewOf returns a view of other ConsumerQueues at the same location.
func viewOf(cq *v1alpha1.ConsumerQueue, others ...*v1alpha1.ConsumerQueue) ownership.View {
	return indexOf(others...).View(cq, here, topologytest.V43, func(*v1alpha1.ConsumerQueue) ownership.Location { return here })
}

func indexOf(known ...*v1alpha1.ConsumerQueue) *ownership.Index {
	index := ownership.NewIndex()
	for _, cq := range known {
		index.Update(cq)
	}
	return index
}

// Two ConsumerQueues that stop using an object together both prune it. If each left it to the other, it would remain forever.
func TestAnObjectThatNoPeerNamesIsPruned(t *testing.T) {
	t.Parallel()
	one, other := controllertest.Synced(t, "one", withGrave, `{}`), controllertest.Synced(t, "other", withGrave, `{}`)
	topo, err := topology.Desired(one, topologytest.V43)
	if err != nil {
		t.Fatal(err)
	}
	observed := topologytest.Observe(t, topo)
	observed.Queues["grave"] = vhost.Queue{Durable: true}
	for name, last := range map[string]*v1alpha1.ConsumerQueue{"both remain": other, "the other is being deleted": controllertest.BeingDeleted(other.DeepCopy())} {
		s := &vhostScope{scope: &scope{report: reportOn(one)}, desired: topo, owned: topology.Owned(one.Status.Topology), peers: viewOf(one, last)}
		comparison := plan.Diff(topo, observed, s.diffInput())
		topologytest.Equal(t, name+": departures", 1, len(comparison.Orphans))
	}
}

// enqueued records the requests that are added to a queue.
type enqueued struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	added []string
}

func (e *enqueued) Add(request reconcile.Request) { e.added = append(e.added, request.String()) }

// once returns each added request once, sorted.
func (e *enqueued) once() []string {
	slices.Sort(e.added)
	return slices.Compact(e.added)
}

// A ConsumerQueue that waits for an object of a peer is enqueued when the peer changes.
func TestAChangeOfAPeerEnqueuesWaitingConsumerQueues(t *testing.T) {
	t.Parallel()
	waiting := controllertest.Named(t, "shop", "waiting", withGrave)
	waiting.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: "False", Reason: v1alpha1.ReasonConflict}}
	elsewhere := waiting.DeepCopy()
	elsewhere.Name, elsewhere.Spec = "elsewhere", v1alpha1.ConsumerQueueSpec{}
	holder := controllertest.Synced(t, "holder", withGrave, "")
	leaving := controllertest.BeingDeleted(controllertest.Synced(t, "leaving", withGrave, ""))
	content, happy := controllertest.Synced(t, "content", withGrave, ""), controllertest.Synced(t, "happy", withGrave, "")
	r := &Reconciler{index: indexOf(waiting, elsewhere, leaving, content, happy, holder)}
	edited, seen, let, begun := holder.DeepCopy(), holder.DeepCopy(), holder.DeepCopy(), controllertest.BeingDeleted(holder.DeepCopy())
	begun.Generation++
	edited.Generation++
	seen.Status.LastHandledReconcileAt = "noon"
	let.Status.Topology = nil
	let.Spec = v1alpha1.ConsumerQueueSpec{}
	all, active := []string{"shop/leaving", "shop/waiting"}, []string{"shop/waiting"}
	for name, test := range map[string]struct {
		happen func(queue *enqueued)
		want   []string
	}{
		"the holder's spec changes": {func(q *enqueued) {
			r.indexPeers().Update(t.Context(), event.UpdateEvent{ObjectOld: holder, ObjectNew: edited}, q)
		}, all},
		"another field of the holder's status changes": {func(q *enqueued) {
			r.indexPeers().Update(t.Context(), event.UpdateEvent{ObjectOld: holder, ObjectNew: seen}, q)
		}, nil},
		"the holder stops using the object": {func(q *enqueued) {
			r.indexPeers().Update(t.Context(), event.UpdateEvent{ObjectOld: holder, ObjectNew: let}, q)
		}, all},
		"the deletion of the holder is requested": {func(q *enqueued) {
			r.indexPeers().Update(t.Context(), event.UpdateEvent{ObjectOld: holder, ObjectNew: begun}, q)
		}, active},
		"the holder is gone": {func(q *enqueued) {
			r.indexPeers().Delete(t.Context(), event.DeleteEvent{Object: holder}, q)
		}, active},
	} {
		queue := &enqueued{}
		test.happen(queue)
		topologytest.Equal(t, name, test.want, queue.once())
	}
}

// Thousands of ConsumerQueues may name one queue. The API server is asked only if the cached version may be too old.
func TestRivalsAreReadFromTheCache(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		leads   time.Duration
		written bool // this manager wrote a moment ago, and the cache lacks the write
		want    int
	}{
		"the cache has every write":                        {leads: time.Hour},
		"the cache lacks a write of this manager":          {leads: time.Hour, written: true, want: 1},
		"the cache may lack a write of the former manager": {leads: 30 * time.Second, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cached := controllertest.NewConsumerQueue(t, `{}`)
			c := controllertest.Client(t, nil, cached)
			r := &Reconciler{client: c, leadsSince: func() time.Time { return time.Now().Add(-test.leads) }}
			if test.written {
				written := cached.DeepCopy()
				written.ResourceVersion = "1000000"
				r.statuses.Record(written)
			}
			asked := 0
			live := interceptor.NewClient(c, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
					asked++
					return c.Get(ctx, key, into, options...)
				},
			})
			read := &v1alpha1.ConsumerQueue{}
			topologytest.Equal(t, "error", nil, peerReader{live, r}.Get(t.Context(), controllertest.Orders, read))
			topologytest.Equal(t, "read", "orders", read.Name)
			topologytest.Equal(t, "requests", test.want, asked)
		})
	}
}
