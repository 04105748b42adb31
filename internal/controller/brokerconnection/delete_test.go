package brokerconnection

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/retrybudget"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// A BrokerConnection in use remains for 10 s after its deletion. While ConsumerQueues that use it are deleted, it remains until
// none has finished for twelve minutes.
func TestGraceRemaining(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		since               time.Duration
		needed, terminating bool
		want                time.Duration
	}{
		"no ConsumerQueue uses it":                     {since: 0, want: 0},
		"in use, deleted a second ago":                 {since: time.Second, needed: true, want: 9 * time.Second},
		"in use, and no ConsumerQueue is deleted":      {since: 10 * time.Second, needed: true, want: 0},
		"ConsumerQueues are deleted":                   {since: time.Minute, needed: true, terminating: true, want: 11 * time.Minute},
		"ConsumerQueues are deleted and none finishes": {since: 12 * time.Minute, needed: true, terminating: true, want: 0},
	} {
		topologytest.Equal(t, name, test.want, graceRemaining(test.since, test.needed, test.terminating))
	}
}

func newTestReconciler(c client.WithWatch, now clock.PassiveClock) *Reconciler {
	return &Reconciler{
		client: c, live: c, recorder: &controllertest.EventLog{}, pool: brokers.NewPool(c, logr.Discard(), brokers.ConnectWithin(management.NewLimits(0), 0, nil)),
		unneeded: retrybudget.NewFirstSeen(now), suspendedClean: retrybudget.NewFirstSeen(now),
	}
}

func TestWarrenIsTheFieldManagerOfTheFinalizer(t *testing.T) {
	t.Parallel()
	indexes := []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}
	bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{})
	c := controllertest.ClientBuilder(t, indexes, bc).WithReturnManagedFields().Build()
	topologytest.Equal(t, "error", nil, c.Get(t.Context(), client.ObjectKeyFromObject(bc), bc))
	r := newTestReconciler(c, clocktesting.NewFakePassiveClock(time.Now()))
	topologytest.Equal(t, "error", nil, r.syncFinalizer(t.Context(), bc, true))
	topologytest.Equal(t, "finalizers", []string{v1alpha1.ConnectionFinalizer}, bc.Finalizers)
	topologytest.Equal(t, "field manager", "warren", bc.ManagedFields[len(bc.ManagedFields)-1].Manager)
}

// Another controller has added its finalizer since the cache was filled.
func TestFinalizersOfOtherControllersRemain(t *testing.T) {
	t.Parallel()
	cached := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{})
	c := controllertest.Client(t, nil, cached)
	topologytest.Equal(t, "error", nil, c.Get(t.Context(), client.ObjectKeyFromObject(cached), cached))
	now := cached.DeepCopy()
	now.Finalizers = []string{"example.com/other"}
	topologytest.Equal(t, "error", nil, c.Update(t.Context(), now))
	r := newTestReconciler(c, clocktesting.NewFakePassiveClock(time.Now()))
	topologytest.Equal(t, "conflict", true, apierrors.IsConflict(r.syncFinalizer(t.Context(), cached, true)))
	topologytest.Equal(t, "error", nil, c.Get(t.Context(), client.ObjectKeyFromObject(now), now))
	topologytest.Equal(t, "finalizers", []string{"example.com/other"}, now.Finalizers)
}

// The grace period counts from when a manager first sees the deletion, not from the DeletionTimestamp: perhaps no manager ran.
// A missing Secret may be created again meanwhile. An open connection shows the fences that remain, once it is refreshed.
func TestTerminateABrokerConnectionWithoutItsSecret(t *testing.T) {
	t.Parallel()
	const may = `Policies named warren-fence-* and warren-recreate-* may exist in vhost "/". They can make their queues refuse all messages. ` +
		`Warren removes them once a BrokerConnection leads to this vhost again. To remove them by hand, ` +
		`run rabbitmqctl list_policies -p '/', then for each of them rabbitmqctl clear_policy -p '/' NAME`
	stands := fencesStand("/", []string{"warren-fence-1"})
	fenced := func(b *brokerstest.Broker) { b.LeaveFence(vhost.Policy{Name: "warren-fence-1"}) }
	unfenced := func(*brokerstest.Broker) {}
	refreshed := func(ago time.Duration) func(*brokerstest.Broker) {
		return func(b *brokerstest.Broker) { b.SetHealth(func(h *rabbit.Health) { h.SyncedAt = time.Now().Add(-ago) }) }
	}
	for name, test := range map[string]struct {
		suspend  bool
		never    bool // was connected
		queue    func(t *testing.T) *v1alpha1.ConsumerQueue
		seen     time.Duration // how long ago the deletion was seen
		progress time.Duration // how long ago a ConsumerQueue finished
		free     time.Duration // how long no ConsumerQueue has used it
		// open changes the open connection; nil if the connection is not open.
		open      func(*brokerstest.Broker)
		owner     string // of the open connection; empty for the UID of this BrokerConnection
		remains   bool
		refreshes int // requested
		events    []string
	}{
		"the manager has just started": {queue: terminatingQueue, remains: true},
		"no ConsumerQueue finished for ten minutes": {
			queue: terminatingQueue, seen: time.Hour, progress: 10 * time.Minute, free: time.Minute, remains: true,
		},
		"no ConsumerQueue finished for twelve minutes": {
			queue: terminatingQueue, seen: time.Hour, progress: 12 * time.Minute, free: time.Minute, events: []string{may},
		},
		"in use for nine seconds, and no ConsumerQueue is deleted": {queue: usingQueue, seen: 9 * time.Second, free: time.Minute, remains: true},
		"not in use, and seen a second ago":                        {seen: time.Second, remains: true},
		"not in use for a second":                                  {seen: time.Hour, free: time.Second, remains: true},
		"not in use, and the broker cannot be reached":             {seen: time.Minute, free: 30 * time.Second, events: []string{may}},
		"not in use, and never connected":                          {never: true},
		"suspended":                                                {queue: terminatingQueue, suspend: true, events: []string{may}},
		"no fence remains":                                         {seen: time.Hour, free: time.Minute, open: unfenced},
		"a fence remains":                                          {seen: time.Hour, free: time.Minute, open: fenced, refreshes: 1, remains: true},
		"a fence has remained for ten minutes":                     {seen: time.Hour, free: 10 * time.Minute, open: fenced, events: []string{stands}},
		"not in use for a while, and last refreshed before that": {
			seen: time.Hour, free: 20 * time.Second, open: refreshed(time.Minute), refreshes: 1, remains: true,
		},
		"not in use for a minute, and last refreshed before that": {
			seen: time.Hour, free: time.Minute, open: refreshed(time.Hour), refreshes: 1, events: []string{may},
		},
		"the open connection is of a former BrokerConnection": {
			seen: time.Hour, free: time.Minute, open: unfenced, owner: "former", events: []string{may},
		},
		"suspended, and the open connection is of a former BrokerConnection": {
			suspend: true, open: unfenced, owner: "former", events: []string{may},
		},
		"suspended, and no fence remains": {suspend: true, open: unfenced},
		"suspended, and a fence remains":  {suspend: true, open: fenced, events: []string{stands, may}},
		"suspended before the first refresh": {
			suspend: true, events: []string{may},
			open: func(b *brokerstest.Broker) { b.SetHealth(func(h *rabbit.Health) { h.SyncedAt = time.Time{} }) },
		},
		"suspended while the broker cannot be reached": {
			suspend: true, events: []string{may},
			open: func(b *brokerstest.Broker) { b.SetHealth(func(h *rabbit.Health) { h.Err = errors.New("no answer") }) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bc := controllertest.ConnectedTo("shop", "default", "rabbit@a", "/")
			if test.never {
				bc.Status.Location.ClusterName = ""
			}
			bc.Spec.SecretRef, bc.Spec.Suspend = &v1alpha1.LocalObjectReference{Name: "gone"}, test.suspend
			bc.Finalizers = []string{v1alpha1.ConnectionFinalizer}
			bc.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-time.Hour)}
			objects := []client.Object{bc}
			if test.queue != nil {
				objects = append(objects, test.queue(t))
			}
			now := clocktesting.NewFakePassiveClock(time.Now())
			r := newTestReconciler(controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}, objects...), now)
			key := client.ObjectKeyFromObject(bc)
			r.deletions.Change(key, func(deletionTimes) deletionTimes {
				return deletionTimes{seen: now.Now().Add(-test.seen), progress: now.Now().Add(-test.progress)}
			})
			now.SetTime(time.Now().Add(-test.free))
			r.unneeded.At(bc)
			now.SetTime(time.Now())
			broker := brokerstest.New(topologytest.V43, "/", cmp.Or(test.owner, string(bc.UID)))
			if test.open != nil {
				test.open(broker)
				r.pool = brokers.NewPool(r.client, logr.Discard(), func(rabbit.Config, logr.Logger, func(snapshot.Notice)) (*brokers.Broker, error) {
					return &brokers.Broker{Probe: broker, Observer: broker, Changer: broker}, nil
				})
				_, err := r.pool.Ensure(key, time.Time{}, rabbit.Config{})
				topologytest.Equal(t, "error of the connection", nil, err)
			}
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
			topologytest.Equal(t, "error", nil, err)
			err = r.client.Get(t.Context(), key, bc)
			topologytest.Equal(t, "remains", test.remains, err == nil)
			topologytest.Equal(t, "is requeued", test.remains, result.RequeueAfter > 0)
			topologytest.Equal(t, "requested refreshes", test.refreshes, broker.Refreshes())
			topologytest.Equal(t, "events", test.events, r.recorder.(*controllertest.EventLog).Notes)
		})
	}
}

func terminatingQueue(t *testing.T) *v1alpha1.ConsumerQueue {
	return controllertest.BeingDeleted(controllertest.Synced(t, "orders", `{}`, ""))
}

func usingQueue(t *testing.T) *v1alpha1.ConsumerQueue {
	cq := controllertest.Synced(t, "orders", `{}`, "")
	cq.Finalizers = []string{v1alpha1.TopologyFinalizer}
	return cq
}

func TestFencesStand(t *testing.T) {
	t.Parallel()
	topologytest.Equal(t, "two fences", `Vhost "sh'op" has fences (2). `+brokers.FenceWarning+`: `+
		`rabbitmqctl clear_policy -p 'sh'\''op' 'warren-fence-1-ABCDEF:uid:orders'; rabbitmqctl clear_policy -p 'sh'\''op' 'warren-fence-2'`,
		fencesStand("sh'op", []string{"warren-fence-1-ABCDEF:uid:orders", "warren-fence-2"}))
}
