package consumerqueue

import (
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/deadletterjob"
	"github.com/warren-mq/warren/internal/controller/retrybudget"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestReadinessChanged(t *testing.T) {
	t.Parallel()
	bc := func(generation int64, ready ...string) *v1alpha1.BrokerConnection {
		object := &v1alpha1.BrokerConnection{}
		object.Generation = generation
		if len(ready) > 0 {
			object.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionReady, Status: metav1.ConditionStatus(ready[0]), Reason: ready[1], Message: ready[2],
			}}
		}
		return object
	}
	protected, deleted := bc(1), bc(1)
	protected.Finalizers, deleted.Finalizers = []string{v1alpha1.ConnectionFinalizer}, []string{v1alpha1.ConnectionFinalizer}
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for name, test := range map[string]struct {
		before, after *v1alpha1.BrokerConnection
		want          bool
	}{
		"no change":                    {bc(1, "True", "Connected", "connected"), bc(1, "True", "Connected", "connected"), false},
		"no change without conditions": {bc(1), bc(1), false},
		"the generation changed":       {bc(1, "True", "Connected", "connected"), bc(2, "True", "Connected", "connected"), true},
		"the status of Ready changed":  {bc(1, "True", "Why", "connected"), bc(1, "False", "Why", "connected"), true},
		"the reason of Ready changed":  {bc(1, "False", "Why", "refused"), bc(1, "False", "WhyNot", "refused"), true},
		"the message of Ready changed": {bc(1, "False", "Why", "refused"), bc(1, "False", "Why", "unreachable"), true},
		"the broker's text changed":    {bc(1, "False", "PermissionDenied", "refused: 1"), bc(1, "False", "PermissionDenied", "refused: 2"), false},
		"Ready was added":              {bc(1), bc(1, "True", "Connected", "connected"), true},
		"the finalizer was added":      {bc(1), protected, true},
		"the deletion was requested":   {protected, deleted, true},
	} {
		topologytest.Equal(t, name, test.want, readinessChanged().Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}))
	}
}

// status.consumerQueues of a BrokerConnection counts the ConsumerQueues that use it.
func TestQueuesOfConnection(t *testing.T) {
	t.Parallel()
	r := &Reconciler{client: controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, deadletterjob.AddIndexes},
		controllertest.Named(t, "shop", "a", `{}`), controllertest.Named(t, "shop", "b", `{connectionRef: {name: default}}`),
		controllertest.Named(t, "shop", "c", `{connectionRef: {name: other}}`), controllertest.Named(t, "elsewhere", "d", `{}`),
	)}
	bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{})
	got := []string{}
	for _, request := range r.queuesOfConnection(t.Context(), bc, all) {
		got = append(got, request.String())
	}
	topologytest.Equal(t, "ConsumerQueues", []string{"shop/a", "shop/b"}, got)
	topologytest.Equal(t, "without an API server", nil, (&Reconciler{client: controllertest.BrokenClient(t)}).queuesOfConnection(t.Context(), bc, all))
}

func TestReconcileConsumerQueue(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "shop", Name: "orders"}
	deleted := controllertest.ConsumerQueue(t, `{}`)
	now := metav1.Now()
	deleted.DeletionTimestamp, deleted.Finalizers = &now, []string{"example.com/wait"}
	for name, test := range map[string]struct {
		client client.WithWatch
		ready  string
		err    string
	}{
		"the ConsumerQueue is gone":          {client: controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, deadletterjob.AddIndexes})},
		"the ConsumerQueue is being deleted": {client: controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, deadletterjob.AddIndexes}, deleted)},
		"the API server is down":             {client: controllertest.BrokenClient(t), err: "get ConsumerQueue: the API server is down"},
		"the status is written":              {client: controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, deadletterjob.AddIndexes}, controllertest.ConsumerQueue(t, `{}`)), ready: "ConnectionNotReady"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connections := brokers.NewPool(test.client, logr.Discard(), brokers.ConnectWithin(management.NewLimits(0), 0, nil))
			r := &Reconciler{
				client: test.client, pool: connections, recorder: &controllertest.EventLog{},
				recreations: newRecreationTasks(t.Context(), connections.Enqueue),
				deletions:   brokers.NewDeletionTasks(t.Context(), connections.Enqueue), index: ownership.NewIndex(), handover: ownership.NewHandover(), refreshes: brokers.NewRefreshGate(connections.Enqueue), removals: brokers.NewRefreshGate(connections.Enqueue), refusals: brokers.NewRefreshGate(connections.Enqueue), limiter: brokers.NewLimiter(1, connections.Enqueue),
				redeclared: newRedeclared(clock.RealClock{}), leadsSince: time.Now, deleted: retrybudget.NewFirstSeen(clock.RealClock{}), contracts: retrybudget.NewFirstSeen(clock.RealClock{}), restored: retrybudget.NewFirstSeen(clock.RealClock{}),
			}
			known := &v1alpha1.ConsumerQueue{}
			if test.client.Get(t.Context(), key, known) == nil {
				r.index.Update(known)
			}
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
			topologytest.Equal(t, "result", ctrl.Result{}, result)
			if (err == nil) != (test.err == "") || (err != nil && err.Error() != test.err) {
				t.Fatalf("error is %v", err)
			}
			cq := &v1alpha1.ConsumerQueue{}
			if err := test.client.Get(t.Context(), key, cq); client.IgnoreNotFound(err) != nil && test.err == "" {
				t.Fatal(err)
			}
			reason := ""
			for _, condition := range cq.Status.Conditions {
				if condition.Type == v1alpha1.ConditionReady {
					reason = condition.Reason
				}
			}
			topologytest.Equal(t, "reason of Ready", test.ready, reason)
		})
	}
}

// If the cache still has the first status, writing the first status again is refused as stale. Otherwise a changed-back status
// would not be written.
func TestFinishWithAnOldCache(t *testing.T) {
	t.Parallel()
	cached := controllertest.ConsumerQueue(t, `{}`)
	c := controllertest.Client(t, nil, cached)
	key := client.ObjectKeyFromObject(cached)
	r := &Reconciler{client: c, live: c, recorder: &controllertest.EventLog{}}
	topologytest.Equal(t, "error", nil, c.Get(t.Context(), key, cached))
	finish := func(advisories ...v1alpha1.Advisory) error {
		l := &scope{Reconciler: r, report: reportOn(cached.DeepCopy())}
		l.status.Advisories = advisories
		return l.finish(t.Context())
	}
	topologytest.Equal(t, "an unchanged status", nil, finish())
	topologytest.Equal(t, "a new advisory", nil, finish(v1alpha1.Advisory{Code: v1alpha1.AdvisoryFenced, Name: "orders", Message: "refuses"}))
	topologytest.Equal(t, "the advisory ended, and the cache still lacks it", true, errors.Is(finish(), statuswriter.ErrStaleCache))
	topologytest.Equal(t, "error", nil, c.Get(t.Context(), key, cached))
	topologytest.Equal(t, "the advisory ended, and the cache has it", nil, finish())
	topologytest.Equal(t, "error", nil, c.Get(t.Context(), key, cached))
	topologytest.Equal(t, "advisories", 0, len(cached.Status.Advisories))
}
