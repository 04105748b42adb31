package consumerqueue

import (
	"context"
	"errors"
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
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// nearby is a neighbour at the same place.
func nearby(cq *v1alpha1.ConsumerQueue) peer { return peerFrom(cq, topologytest.V43) }

const (
	withGrave    = `{deadLetter: {queue: {name: grave}}}`
	withBigGrave = `{deadLetter: {queue: {name: grave, maxLength: 5}}}`
	// unknown cannot become a topology.
	unknownSpec = `{retry: {delayTiers: [{delay: later}]}}`
)

func entryOf(t *testing.T, cq *v1alpha1.ConsumerQueue, name string) v1alpha1.TopologyEntry {
	t.Helper()
	for _, entry := range cq.Status.Topology {
		if entry.Name == name {
			return entry
		}
	}
	t.Fatalf("there is no %s", name)
	return v1alpha1.TopologyEntry{}
}

// Whoever is deleted leaves an object to a neighbour that has it, or can have it as it is; whoever has no use for it any
// more leaves it to one that has a use for it.
func TestWhatANeighbourHas(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		other       *v1alpha1.ConsumerQueue
		has, orKeep bool
	}{
		"one that has it":                            {controllertest.Synced(t, "other", withGrave, ""), true, true},
		"one that wants it, just so":                 {controllertest.Named(t, "shop", "other", withGrave), true, true},
		"one that wants it otherwise":                {controllertest.Named(t, "shop", "other", withBigGrave), false, false},
		"one that has it and wants it otherwise now": {controllertest.Synced(t, "other", withGrave, withBigGrave), true, true},
		"one that has it, for whatever":              {controllertest.Synced(t, "other", withGrave, unknownSpec), true, true},
		"one that has no use for it any more":        {controllertest.Synced(t, "other", withGrave, `{}`), true, false},
		"one that has it and is being deleted":       {controllertest.BeingDeleted(controllertest.Synced(t, "other", withGrave, "")), true, false},
		"one that wanted it and is being deleted":    {controllertest.BeingDeleted(controllertest.Named(t, "shop", "other", withGrave)), false, false},
		"one that has nothing to do with it":         {controllertest.Named(t, "shop", "other", `{}`), false, false},
	} {
		entry := entryOf(t, controllertest.Synced(t, "own", withGrave, ""), "grave")
		near := peers{nearby(test.other)}
		sharer := ""
		if test.has {
			sharer = "ConsumerQueue shop/other"
		}
		topologytest.Equal(t, name+": sharer", sharer, near.sharedWith(entry))
		topologytest.Equal(t, name+": keeps it", test.orKeep, near.anyNeeds(entry))
	}
}

// Of two that have lost their use for an object at the same time neither leaves it to the other: it would stay for ever.
func TestNobodysObjectIsForgottenByNobody(t *testing.T) {
	t.Parallel()
	one, other := controllertest.Synced(t, "one", withGrave, `{}`), controllertest.Synced(t, "other", withGrave, `{}`)
	topo, err := topology.Desired(one, topologytest.V43)
	if err != nil {
		t.Fatal(err)
	}
	observed := topologytest.Observe(t, topo)
	observed.Queues["grave"] = vhost.Queue{Durable: true}
	for name, last := range map[string]*v1alpha1.ConsumerQueue{"both stay": other, "the other is being deleted": controllertest.BeingDeleted(other.DeepCopy())} {
		s := &vhostScope{desired: topo, owned: topology.Owned(one.Status.Topology), peers: peers{nearby(last)}}
		comparison := plan.Diff(topo, observed, s.context())
		topologytest.Equal(t, name+": departures", 1, len(comparison.Orphans))
	}
}

// Where a resource would win only because a neighbour is not known to hold what both want, the API server is asked.
func TestContestAsksForWhatTheCacheMayNotKnow(t *testing.T) {
	t.Parallel()
	const message = `ConsumerQueue shop/other has the dead-letter queue "grave" with other settings`
	own := candidateFrom(controllertest.Named(t, "shop", "orders", withBigGrave), topologytest.V43)
	newcomer := controllertest.Named(t, "shop", "other", withGrave)
	here := at("rabbit@a", "/")
	broken := controllertest.ClientBuilder(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("the API server is tired")
		},
	}).Build()
	at := func(near nearness, cq *v1alpha1.ConsumerQueue) peer {
		n := nearby(cq)
		n.near = near
		return n
	}
	held := controllertest.Synced(t, "other", withGrave, "")
	elsewhere := held.DeepCopy()
	elsewhere.Status.ClusterEndpoint = "green:5672"
	for name, test := range map[string]struct {
		cached peer
		live   client.Reader
		holder string
		err    string
	}{
		"nobody wants it otherwise":                 {nearby(controllertest.Named(t, "shop", "other", `{}`)), broken, "", ""},
		"it is known to be held":                    {nearby(held), broken, "shop/other", ""},
		"it is held, perhaps at another cluster":    {at(perhaps, held), broken, "", ""},
		"it is held, as the API server knows":       {nearby(newcomer), controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}, held), "shop/other", ""},
		"it is held here, as the API server knows":  {at(unplaced, newcomer), controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}, held), "shop/other", ""},
		"it is held elsewhere, as the server knows": {at(unplaced, newcomer), controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}, elsewhere), "", ""},
		"it is not held":                            {nearby(newcomer), controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}, newcomer.DeepCopy()), "", ""},
		"the other does not want it any more":       {nearby(newcomer), controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}, controllertest.Named(t, "shop", "other", `{}`)), "", ""},
		"the other is gone":                         {nearby(newcomer), controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}), "", ""},
		"the API server does not answer":            {nearby(newcomer), broken, "", "get ConsumerQueue shop/other: the API server is tired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Reconciler{client: controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}), live: test.live}
			conflict, err := r.findConflict(t.Context(), own, peers{test.cached}, here, topologytest.V43)
			holder, problem := "", ""
			if conflict != nil {
				holder = conflict.Holder
				topologytest.Equal(t, "message", message, conflict.Message[:len(message)])
			}
			if err != nil {
				problem = err.Error()
			}
			topologytest.Equal(t, "holder", test.holder, holder)
			topologytest.Equal(t, "error", test.err, problem)
		})
	}
}

// One that is being deleted has no right but to what it holds, however old it is.
func TestContestWithOneThatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	noon := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	young := controllertest.Named(t, "shop", "young", withGrave)
	young.CreationTimestamp = metav1.NewTime(noon.Add(time.Hour))
	for name, test := range map[string]struct {
		old  *v1alpha1.ConsumerQueue
		wins bool
	}{
		"an older newcomer":                         {controllertest.Named(t, "shop", "old", withBigGrave), true},
		"an older newcomer that is being deleted":   {controllertest.BeingDeleted(controllertest.Named(t, "shop", "old", withBigGrave)), false},
		"an older one that has it, and is going to": {controllertest.BeingDeleted(controllertest.Synced(t, "old", withBigGrave, "")), true},
	} {
		test.old.CreationTimestamp = noon
		conflict := ownership.FindConflict(candidateFrom(young, topologytest.V43), peers{nearby(test.old)}.candidates(same))
		topologytest.Equal(t, name, test.wins, conflict != nil)
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	ready := func(cq *v1alpha1.ConsumerQueue, reason string) *v1alpha1.ConsumerQueue {
		cq.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: "False", Reason: reason}}
		return cq
	}
	orphan := controllertest.Synced(t, "orders", withGrave, "")
	orphan.Status.Topology[len(orphan.Status.Topology)-1].State = v1alpha1.StateOrphaned
	for name, test := range map[string]struct {
		cq   *v1alpha1.ConsumerQueue
		want bool
	}{
		"in sync":                     {controllertest.Synced(t, "orders", withGrave, ""), false},
		"it lost a conflict":          {ready(controllertest.Synced(t, "orders", withGrave, ""), v1alpha1.ReasonConflict), true},
		"it waits for something else": {ready(controllertest.Synced(t, "orders", withGrave, ""), v1alpha1.ReasonExchangeMissing), false},
		"something is left over":      {orphan, true},
	} {
		topologytest.Equal(t, name, test.want, isWaitingOnPeers(test.cq))
	}
}

// enqueued records what is added to a queue.
type enqueued struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	added []string
}

func (e *enqueued) Add(request reconcile.Request) { e.added = append(e.added, request.String()) }

// once is what was added, as a queue has it: once.
func (e *enqueued) once() []string {
	slices.Sort(e.added)
	return slices.Compact(e.added)
}

// Whoever waits for what another has is looked at again when that changes.
func TestThoseThatWaitAreWoken(t *testing.T) {
	t.Parallel()
	waiting := controllertest.Named(t, "shop", "waiting", withGrave)
	waiting.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: "False", Reason: v1alpha1.ReasonConflict}}
	elsewhere := waiting.DeepCopy()
	elsewhere.Name, elsewhere.Spec = "elsewhere", v1alpha1.ConsumerQueueSpec{}
	r := &Reconciler{client: controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}, waiting, elsewhere, controllertest.Synced(t, "content", withGrave, ""))}
	holder := controllertest.Synced(t, "holder", withGrave, "")
	edited, seen, let := holder.DeepCopy(), holder.DeepCopy(), holder.DeepCopy()
	edited.Generation++
	seen.Status.LastHandledReconcileAt = "noon"
	let.Status.Topology = nil
	let.Spec = v1alpha1.ConsumerQueueSpec{}
	woken := []string{"shop/waiting"}
	for name, test := range map[string]struct {
		happen func(queue *enqueued)
		want   []string
	}{
		"its spec changes": {func(q *enqueued) {
			r.affectedPeers().Update(t.Context(), event.UpdateEvent{ObjectOld: holder, ObjectNew: edited}, q)
		}, woken},
		"something else of its status does": {func(q *enqueued) {
			r.affectedPeers().Update(t.Context(), event.UpdateEvent{ObjectOld: holder, ObjectNew: seen}, q)
		}, nil},
		"it has something less": {func(q *enqueued) {
			r.affectedPeers().Update(t.Context(), event.UpdateEvent{ObjectOld: holder, ObjectNew: let}, q)
		}, woken},
		"it is gone": {func(q *enqueued) {
			r.affectedPeers().Delete(t.Context(), event.DeleteEvent{Object: holder}, q)
		}, woken},
	} {
		queue := &enqueued{}
		test.happen(queue)
		topologytest.Equal(t, name, test.want, queue.once())
	}
}
