package controller

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

func TestSpecOrRequest(t *testing.T) {
	t.Parallel()
	object := func(generation int64, requested string) client.Object {
		cq := &v1alpha1.ConsumerQueue{}
		cq.Generation = generation
		cq.Annotations = map[string]string{"other": "annotation", v1alpha1.RequestedAtAnnotation: requested}
		return cq
	}
	old := object(1, "noon")
	for name, test := range map[string]struct {
		now  client.Object
		want bool
	}{
		"nothing of interest": {object(1, "noon"), false},
		"a new generation":    {object(2, "noon"), true},
		"a new request":       {object(1, "midnight"), true},
	} {
		equal(t, name, test.want, specOrRequest().Update(event.UpdateEvent{ObjectOld: old, ObjectNew: test.now}))
	}
	equal(t, "a new resource", true, specOrRequest().Create(event.CreateEvent{Object: old}))
}

// status.lastHandledReconcileAt holds 1024 characters, and a value that it cannot hold would never be seen as handled.
// The annotation requested-at has a resource looked at now; lastHandledReconcileAt echoes it.
func TestRequestedAt(t *testing.T) {
	t.Parallel()
	cq := &v1alpha1.ConsumerQueue{}
	equal(t, "without a request", "", requestedAt(cq))
	cq.Annotations = map[string]string{v1alpha1.RequestedAtAnnotation: "noon"}
	equal(t, "with a request", "noon", requestedAt(cq))
	cq.Annotations[v1alpha1.RequestedAtAnnotation] = strings.Repeat("x", 2000)
	equal(t, "length of a long request", 1024, len(requestedAt(cq)))
}

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
	equal(t, "the finalizer is lost", true, protectionLost().Update(event.UpdateEvent{ObjectOld: protected, ObjectNew: bc(1)}))
	equal(t, "the finalizer stays", false, protectionLost().Update(event.UpdateEvent{ObjectOld: protected, ObjectNew: deleted}))
	for name, test := range map[string]struct {
		before, after *v1alpha1.BrokerConnection
		want          bool
	}{
		"nothing":             {bc(1, "True", "Connected", "well"), bc(1, "True", "Connected", "well"), false},
		"nothing of nothing":  {bc(1), bc(1), false},
		"another generation":  {bc(1, "True", "Connected", "well"), bc(2, "True", "Connected", "well"), true},
		"another status":      {bc(1, "True", "Why", "well"), bc(1, "False", "Why", "well"), true},
		"another reason":      {bc(1, "False", "Why", "ill"), bc(1, "False", "WhyNot", "ill"), true},
		"another message":     {bc(1, "False", "Why", "ill"), bc(1, "False", "Why", "worse"), true},
		"the first condition": {bc(1), bc(1, "True", "Connected", "well"), true},
		"the finalizer":       {bc(1), protected, true},
		"a deletion":          {protected, deleted, true},
	} {
		equal(t, name, test.want, readinessChanged().Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}))
	}
}

// status.consumerQueues is how many ConsumerQueues use the connection.
func TestQueuesOfConnection(t *testing.T) {
	t.Parallel()
	r := &ConsumerQueueReconciler{client: testClient(t,
		named(t, "shop", "a", `{}`), named(t, "shop", "b", `{connectionRef: {name: default}}`),
		named(t, "shop", "c", `{connectionRef: {name: other}}`), named(t, "elsewhere", "d", `{}`),
	)}
	bc := brokerConnection(v1alpha1.BrokerConnectionSpec{})
	got := []string{}
	for _, request := range r.queuesOfConnection(t.Context(), bc) {
		got = append(got, request.String())
	}
	equal(t, "ConsumerQueues", []string{"shop/a", "shop/b"}, got)
	equal(t, "without an API server", nil, (&ConsumerQueueReconciler{client: brokenClient(t)}).queuesOfConnection(t.Context(), bc))
}

// delayed records what is added to a queue for later.
type delayed struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	added []string
}

func (d *delayed) Add(request reconcile.Request) { d.added = append(d.added, request.String()+" now") }

func (d *delayed) AddAfter(request reconcile.Request, after time.Duration) {
	d.added = append(d.added, request.String()+" in "+after.String())
}

func TestCountHandler(t *testing.T) {
	t.Parallel()
	protected, fresh := brokerConnection(v1alpha1.BrokerConnectionSpec{}), brokerConnection(v1alpha1.BrokerConnectionSpec{})
	protected.Name, protected.Finalizers, fresh.Name = "other", []string{v1alpha1.ConnectionFinalizer}, "fresh"
	queue, handler := &delayed{}, (&BrokerConnectionReconciler{client: testClient(t, protected, fresh)}).countHandler()
	first := named(t, "shop", "first", `{connectionRef: {name: fresh}}`)
	handler.Create(t.Context(), event.CreateEvent{Object: first}, queue)
	cq := named(t, "shop", "orders", `{connectionRef: {name: other}}`)
	handler.Create(t.Context(), event.CreateEvent{Object: cq}, queue)
	handler.Update(t.Context(), event.UpdateEvent{ObjectOld: cq, ObjectNew: cq}, queue)
	handler.Delete(t.Context(), event.DeleteEvent{Object: cq}, queue)
	equal(t, "added", []string{"shop/fresh now", "shop/other in 1s", "shop/other in 1s"}, queue.added)
}

func TestNeighboursOf(t *testing.T) {
	t.Parallel()
	const shared = `{retry: {policy: None}, bindings: [{exchange: {name: events}, routingKeys: [a]}], deadLetter: {exchange: {name: dlx}, queue: {name: dlq}}}`
	r := &ConsumerQueueReconciler{client: testClient(t,
		named(t, "shop", "orders", `{retry: {policy: None}, deadLetter: {exchange: {name: mine}, queue: {name: dlq}}}`),
		named(t, "shop", "invoices", shared),
		named(t, "shop", "unsupported", `{retry: {strategy: Requeue, redeliveryDelay: {min: 1s, max: 2s}}, deadLetter: {exchange: {name: never}, queue: {name: dlq}}}`),
		named(t, "shop", "other", `{connectionRef: {name: other}, deadLetter: {exchange: {name: others}, queue: {name: dlq}}}`),
		named(t, "elsewhere", "invoices", `{deadLetter: {exchange: {name: afar}, queue: {name: dlq}}}`),
		named(t, "unconnected", "invoices", `{deadLetter: {exchange: {name: others}, queue: {name: dlq}}}`),
		connectedTo("shop", "default", "rabbit@a", "/"), connectedTo("elsewhere", "default", "rabbit@a", "/"),
		connectedTo("shop", "other", "rabbit@a", "other"),
	)}
	near, err := r.neighboursOf(t.Context(), consumerQueue(t, `{deadLetter: {queue: {name: dlq}}}`), at("rabbit@a", "/"), v40)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		binding topology.Binding
		want    bool
	}{
		"by another":                            {topology.Binding{Source: "dlx", Destination: "dlq"}, true},
		"by another, with another key":          {topology.Binding{Source: "dlx", Destination: "dlq", RoutingKey: "a"}, false},
		"from another namespace, in this vhost": {topology.Binding{Source: "afar", Destination: "dlq"}, true},
		"in another vhost, or nobody knows":     {topology.Binding{Source: "others", Destination: "dlq"}, false},
		"by one that the broker is too old for": {topology.Binding{Source: "never", Destination: "dlq"}, false},
		"by nobody":                             {topology.Binding{Source: "dlx", Destination: "orders"}, false},
	} {
		equal(t, name, test.want, near.wantedBindings()(test.binding.ID()))
	}
	equal(t, "itself is none of them", false, near.wantedBindings()(vhost.ID{Source: "mine", Destination: "dlq"}))
	names := []string{}
	for _, other := range near {
		names = append(names, other.Name)
	}
	equal(t, "neighbours", []string{"elsewhere/invoices", "shop/invoices", "shop/unsupported", "unconnected/invoices"}, names)
	equal(t, "one that nobody knows the place of", unplaced, near[3].near)
	equal(t, "one in another namespace", "a ConsumerQueue in another namespace", near[0].called())
	equal(t, "one in the same namespace", "ConsumerQueue shop/invoices", near[1].called())
	_, err = (&ConsumerQueueReconciler{client: brokenClient(t)}).neighboursOf(
		t.Context(), consumerQueue(t, `{queue: {name: dlq}}`), place{}, v40)
	equal(t, "without an API server", "list ConsumerQueues that have to do with queue/dlq: the API server is tired", err.Error())
}

func connectedTo(namespace, name, cluster, vhostName string) *v1alpha1.BrokerConnection {
	return &v1alpha1.BrokerConnection{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.BrokerConnectionSpec{VHost: vhostName},
		Status:     v1alpha1.BrokerConnectionStatus{ClusterName: cluster, ClusterEndpoint: "mq:5672"},
	}
}

// at is a vhost of a cluster that is known by name and endpoint.
func at(cluster, name string) place {
	return place{vhost.Cluster{Name: cluster, Endpoint: "mq:5672"}, name}
}

func TestReconcileConsumerQueue(t *testing.T) {
	t.Parallel()
	key := types.NamespacedName{Namespace: "shop", Name: "orders"}
	deleted := consumerQueue(t, `{}`)
	now := metav1.Now()
	deleted.DeletionTimestamp, deleted.Finalizers = &now, []string{"example.com/wait"}
	for name, test := range map[string]struct {
		client client.WithWatch
		ready  string
		err    string
	}{
		"it is gone":              {client: testClient(t)},
		"it is being deleted":     {client: testClient(t, deleted)},
		"the API server is tired": {client: brokenClient(t), err: "get ConsumerQueue: the API server is tired"},
		"its status is written":   {client: testClient(t, consumerQueue(t, `{}`)), ready: "ConnectionNotReady"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connections := NewConnections(test.client, logr.Discard(), rabbit.NewLimits(0))
			r := &ConsumerQueueReconciler{
				client: test.client, connections: connections, recorder: &eventLog{},
				removals: newRemovals(t.Context(), connections.reconcile), releases: newReleases(), freshness: newFreshness(),
				departures: newDeparted(), deleted: newSightings(), unreached: newTrials(), refused: newTrials(), pending: newTrials(),
			}
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
			equal(t, "result", ctrl.Result{}, result)
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
			equal(t, "reason of Ready", test.ready, reason)
		})
	}
}

func TestLookAtBrokerConnection(t *testing.T) {
	t.Parallel()
	suspend := true
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: "True", Reason: "Old", Message: "old", ObservedGeneration: 2}
	for name, test := range map[string]struct {
		spec  v1alpha1.BrokerConnectionSpec
		want  []string
		again bool
		err   error
	}{
		"suspended": {
			spec: v1alpha1.BrokerConnectionSpec{Suspend: &suspend},
			want: []string{`Ready=True Old "old", 3`, `Suspended=True Suspended "spec.suspend is set: the broker is neither read nor written", 3`},
		},
		"its Secret is missing": {
			spec: v1alpha1.BrokerConnectionSpec{SecretRef: &v1alpha1.SecretReference{Name: "broker"}},
			want: []string{
				`Ready=False SecretNotFound "Secret \"broker\" not found in namespace \"shop\": create it", 3`,
				`Reconciling=True SecretNotFound "Secret \"broker\" not found in namespace \"shop\": create it", 3`,
			},
			again: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testClient(t)
			connections := NewConnections(c, logr.Discard(), rabbit.NewLimits(0))
			connections.stop()
			bc := brokerConnection(test.spec)
			_, err := connections.Ensure(client.ObjectKeyFromObject(bc), rabbit.Config{
				AMQPURI: "amqp://127.0.0.1:1", ManagementURI: "http://127.0.0.1:1", VHost: "/", ResyncInterval: time.Hour,
			})
			equal(t, "error", nil, err)
			r := testBrokerConnections(c)
			r.connections = connections
			status := &v1alpha1.BrokerConnectionStatus{Conditions: []metav1.Condition{ready}}
			result, err := r.look(t.Context(), bc, status)
			equal(t, "error", nil, err)
			equal(t, "conditions", test.want, lines(status.Conditions))
			equal(t, "observed generation", int64(3), status.ObservedGeneration)
			equal(t, "looks again", test.again, result.RequeueAfter >= clusterPoll)
			if connections.Get(client.ObjectKeyFromObject(bc)) != nil {
				t.Error("the connection is still open")
			}
		})
	}
}

// A changed Secret takes effect at once where spec names it, and within about 30 seconds where it is that of a RabbitmqCluster,
// which is not watched: the BrokerConnection is looked at again as often.
func TestDescribeBrokerConnection(t *testing.T) {
	t.Parallel()
	health := rabbit.Health{
		Version: "4.3.6", ClusterName: "rabbit@a", SyncedAt: time.Unix(1, 0), Connected: true, Matched: true,
		Cluster:      vhost.Cluster{ID: "sha256:1", Name: "rabbit@a", Endpoint: "mq:5672"},
		Capabilities: rabbit.Capabilities{Definitions: true, DelayedRedelivery: true, Statistics: true},
	}
	failing := health
	failing.Err, failing.FailingSince = errors.New("no answer"), time.Now()
	ofSecret := brokerConnection(v1alpha1.BrokerConnectionSpec{ResyncInterval: "1h"})
	ofSecret.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: "True", ObservedGeneration: 3}}
	ofCluster := ofSecret.DeepCopy()
	ofCluster.Spec.ClusterRef = &v1alpha1.ClusterReference{Name: "rabbit"}
	connected := v1alpha1.BrokerConnectionStatus{
		BrokerVersion: "4.3.6", ClusterName: "rabbit@a", ClusterID: "sha256:1", ClusterEndpoint: "mq:5672",
		Capabilities: &v1alpha1.BrokerCapabilities{Definitions: true, DelayedRedelivery: true, Statistics: new(true)},
	}
	for name, test := range map[string]struct {
		bc             *v1alpha1.BrokerConnection
		health         rabbit.Health
		want           v1alpha1.BrokerConnectionStatus
		atLeast, below time.Duration
	}{
		"never heard of":                    {bc: ofSecret},
		"connected":                         {bc: ofSecret, health: health, want: connected},
		"connected through a cluster":       {bc: ofCluster, health: health, want: connected, atLeast: clusterPoll, below: 2 * clusterPoll},
		"failing for a moment":              {bc: ofSecret, health: failing, want: connected, atLeast: 2 * time.Hour, below: 4 * time.Hour},
		"a cluster that fails for a moment": {bc: ofCluster, health: failing, want: connected, atLeast: clusterPoll, below: 2 * clusterPoll},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := &v1alpha1.BrokerConnectionStatus{}
			result := (&BrokerConnectionReconciler{}).describe(test.bc, test.health, status)
			equal(t, "status", test.want, *status, cmpopts.IgnoreFields(v1alpha1.BrokerConnectionStatus{}, "Conditions"))
			if result.RequeueAfter < test.atLeast || (test.below > 0 && result.RequeueAfter > test.below) || (test.below == 0 && result.RequeueAfter != 0) {
				t.Errorf("looks again after %v", result.RequeueAfter)
			}
		})
	}
}

func TestReconcileBrokerConnection(t *testing.T) {
	t.Parallel()
	bc := brokerConnection(v1alpha1.BrokerConnectionSpec{SecretRef: &v1alpha1.SecretReference{Name: "broker"}})
	c := testClient(t, bc, named(t, "shop", "a", `{}`), named(t, "shop", "b", `{}`), named(t, "elsewhere", "c", `{}`))
	r := testBrokerConnections(c)
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(bc)}
	result, err := r.Reconcile(t.Context(), request)
	equal(t, "error", nil, err)
	if result.RequeueAfter < clusterPoll {
		t.Errorf("looks again after %v", result.RequeueAfter)
	}
	got := &v1alpha1.BrokerConnection{}
	equal(t, "error", nil, c.Get(t.Context(), request.NamespacedName, got))
	equal(t, "ConsumerQueues", int32(2), *got.Status.ConsumerQueues)
	reason := slices.IndexFunc(got.Status.Conditions, func(c metav1.Condition) bool { return c.Reason == v1alpha1.ReasonSecretNotFound })
	equal(t, "has the reason", true, reason >= 0)

	version := got.ResourceVersion
	_, err = r.Reconcile(t.Context(), request)
	equal(t, "error", nil, err)
	equal(t, "error", nil, c.Get(t.Context(), request.NamespacedName, got))
	equal(t, "resource version after a look that found nothing new", version, got.ResourceVersion)

	equal(t, "error", nil, c.Delete(t.Context(), got))
	result, err = r.Reconcile(t.Context(), request)
	equal(t, "error", nil, err)
	equal(t, "result", ctrl.Result{}, result)

	_, err = (&BrokerConnectionReconciler{client: brokenClient(t)}).Reconcile(t.Context(), request)
	equal(t, "error", "get BrokerConnection: the API server is tired", err.Error())
}
