package brokerconnection

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// delayed records the requests that are added to a queue, with their delays.
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
	protected, fresh := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{}), controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{})
	protected.Name, protected.Finalizers, fresh.Name = "other", []string{v1alpha1.ConnectionFinalizer}, "fresh"
	queue, handler := &delayed{}, (&Reconciler{client: controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}, protected, fresh)}).countHandler()
	first := controllertest.Named(t, "shop", "first", `{connectionRef: {name: fresh}}`)
	handler.Create(t.Context(), event.CreateEvent{Object: first}, queue)
	cq := controllertest.Named(t, "shop", "orders", `{connectionRef: {name: other}}`)
	handler.Create(t.Context(), event.CreateEvent{Object: cq}, queue)
	handler.Update(t.Context(), event.UpdateEvent{ObjectOld: cq, ObjectNew: cq}, queue)
	handler.Delete(t.Context(), event.DeleteEvent{Object: cq}, queue)
	topologytest.Equal(t, "added", []string{"shop/fresh now", "shop/other in 1s", "shop/other in 1s"}, queue.added)
}

func TestReconcileNormal(t *testing.T) {
	t.Parallel()
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: "True", Reason: "Old", Message: "old", ObservedGeneration: 2}
	broker := v1alpha1.BrokerConnectionSpec{SecretRef: &v1alpha1.LocalObjectReference{Name: "broker"}}
	for name, test := range map[string]struct {
		spec   v1alpha1.BrokerConnectionSpec
		secret map[string]string
		want   []string
		again  bool
	}{
		"suspended": {
			spec: v1alpha1.BrokerConnectionSpec{Suspend: true},
			want: []string{`Ready=True Old "old", 3`, `Suspended=True Suspended "spec.suspend is true: Warren neither reads nor changes objects at the broker", 3`},
		},
		"the Secret is missing": {
			spec: broker,
			want: []string{
				`Ready=False SecretNotFound "Secret \"broker\" not found in namespace \"shop\": create it", 3`,
				`Reconciling=True SecretNotFound "Secret \"broker\" not found in namespace \"shop\": create it", 3`,
			},
			again: true,
		},
		"the Secret lacks a key": {
			spec: broker, secret: map[string]string{"username": "bob", "host": "mq"},
			want: []string{
				`Ready=False SecretInvalid "Secret \"broker\" lacks the key password: add it", 3`,
				`Stalled=True SecretInvalid "Secret \"broker\" lacks the key password: add it", 3`,
			},
			again: true,
		},
		"the spec is invalid": {
			spec:   v1alpha1.BrokerConnectionSpec{SecretRef: broker.SecretRef, AMQPURI: "amqp://[::1"},
			secret: map[string]string{"username": "bob", "password": controllertest.Password},
			want: []string{
				`Ready=False InvalidSpec "spec.amqpURI cannot be used: want amqp://host:port or amqps://host:port", 3`,
				`Stalled=True InvalidSpec "spec.amqpURI cannot be used: want amqp://host:port or amqps://host:port", 3`,
			},
			again: true,
		},
		"the RabbitmqCluster is missing": {
			spec: v1alpha1.BrokerConnectionSpec{ClusterRef: &v1alpha1.LocalObjectReference{Name: "rabbit"}},
			want: []string{
				`Ready=False ClusterNotReady "RabbitmqCluster \"rabbit\" not found in namespace \"shop\": create it, ` +
					`or name another in spec.clusterRef", 3`,
				`Reconciling=True ClusterNotReady "RabbitmqCluster \"rabbit\" not found in namespace \"shop\": create it, ` +
					`or name another in spec.clusterRef", 3`,
			},
			again: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes})
			if test.secret != nil {
				secret := &corev1.Secret{Data: bytesOf(test.secret)}
				secret.Namespace, secret.Name = "shop", "broker"
				topologytest.Equal(t, "error", nil, c.Create(t.Context(), secret))
			}
			connections := brokers.NewPool(c, logr.Discard(), brokers.ConnectWithin(management.NewLimits(0), 0, nil))
			stopped, stop := context.WithCancel(t.Context())
			stop()
			topologytest.Equal(t, "error", nil, connections.Start(stopped)) // no controller receives its notices
			bc := controllertest.BrokerConnection(test.spec)
			_, err := connections.Ensure(client.ObjectKeyFromObject(bc), time.Time{}, rabbit.Config{
				AMQPURI: "amqp://127.0.0.1:1", ManagementURI: "http://127.0.0.1:1", VHost: "/", ResyncInterval: time.Hour,
			})
			topologytest.Equal(t, "error", nil, err)
			r := newTestReconciler(c, clock.RealClock{})
			r.pool = connections
			status := &v1alpha1.BrokerConnectionStatus{Conditions: []metav1.Condition{ready}}
			result, err := r.reconcileNormal(t.Context(), bc, status)
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "conditions", test.want, controllertest.Lines(status.Conditions))
			topologytest.Equal(t, "observed generation", int64(3), status.ObservedGeneration)
			topologytest.Equal(t, "is requeued", test.again, result.RequeueAfter >= clusterPoll)
			if connections.Get(client.ObjectKeyFromObject(bc)) != nil {
				t.Error("the connection is still open")
			}
		})
	}
}

// The youngest BrokerConnections of a namespace with too many of them have no connection, and say what to do.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	c := controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes})
	secret := &corev1.Secret{Data: bytesOf(map[string]string{"username": "bob", "password": controllertest.Password, "host": "mq"})}
	secret.Namespace, secret.Name = "shop", "broker"
	topologytest.Equal(t, "error", nil, c.Create(t.Context(), secret))
	r := newTestReconciler(c, clock.RealClock{})
	r.pool = brokers.NewPool(c, logr.Discard(), func(rabbit.Config, logr.Logger, func(snapshot.Notice)) (*brokers.Broker, error) {
		return &brokers.Broker{Probe: brokerstest.New(topologytest.V43, "/", "uid")}, nil
	})
	for i := range brokers.MaxConnections {
		_, err := r.pool.Ensure(client.ObjectKey{Namespace: "shop", Name: strconv.Itoa(i)}, time.Unix(1, 0), rabbit.Config{})
		topologytest.Equal(t, "error", nil, err)
	}
	bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{SecretRef: &v1alpha1.LocalObjectReference{Name: "broker"}})
	bc.CreationTimestamp = metav1.Unix(2, 0)
	status := &v1alpha1.BrokerConnectionStatus{}
	result, err := r.reconcileNormal(t.Context(), bc, status)
	topologytest.Equal(t, "error", nil, err)
	const message = `"64 older BrokerConnections of namespace \"shop\" are connected, which is the maximum: ` +
		`delete or suspend one, or use another namespace", 3`
	topologytest.Equal(t, "conditions", []string{"Ready=False TooManyConnections " + message, "Stalled=True TooManyConnections " + message},
		controllertest.Lines(status.Conditions))
	topologytest.Equal(t, "is requeued", true, result.RequeueAfter >= clusterPoll)

	r.pool.Close(client.ObjectKey{Namespace: "shop", Name: "0"})
	_, err = r.reconcileNormal(t.Context(), bc, status)
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "is open when an older one is gone", true, r.pool.Get(client.ObjectKeyFromObject(bc)) != nil)
}

// A change of the Secret in spec.secretRef is watched. The Secret of a RabbitmqCluster is not watched, so its BrokerConnection
// is requeued about every 30 seconds.
func TestSetStatus(t *testing.T) {
	t.Parallel()
	health := rabbit.Health{
		Version: "4.3.6", ClusterName: "rabbit@a", SyncedAt: time.Unix(1, 0), Connected: true, Matched: true,
		Cluster:      vhost.Cluster{ID: "sha256:1", Name: "rabbit@a", Endpoint: "mq:5672"},
		Capabilities: management.Capabilities{Definitions: true, DelayedRedelivery: true, Statistics: true},
	}
	failing := health
	failing.Err, failing.FailingSince = errors.New("no answer"), time.Now()
	ofSecret := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{ResyncInterval: "1h"})
	ofSecret.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: "True", ObservedGeneration: 3}}
	ofCluster := ofSecret.DeepCopy()
	ofCluster.Spec.ClusterRef = &v1alpha1.LocalObjectReference{Name: "rabbit"}
	connected := v1alpha1.BrokerConnectionStatus{
		BrokerVersion: "4.3.6",
		Location:      v1alpha1.Location{ClusterName: "rabbit@a", ClusterID: "sha256:1", ClusterEndpoint: "mq:5672"},
		Capabilities:  &v1alpha1.BrokerCapabilities{Definitions: true, DelayedRedelivery: true, Statistics: new(true)},
	}
	unmatched, unproved := health, connected
	unmatched.Cluster = vhost.Cluster{}
	unproved.Location = v1alpha1.Location{}
	addressed, letIn := health, connected
	addressed.Place, letIn.Location.VHost = rabbit.Place{Address: "mq:5672"}, ofSecret.Spec.VHost
	silent, explained := health, connected
	silent.EventsReason, explained.Capabilities = strings.Repeat("x", 2000), connected.Capabilities.DeepCopy()
	explained.Capabilities.EventsReason = strings.Repeat("x", 1024-len("…")) + "…"
	for name, test := range map[string]struct {
		bc             *v1alpha1.BrokerConnection
		health         rabbit.Health
		want           v1alpha1.BrokerConnectionStatus
		atLeast, below time.Duration
	}{
		"no answer yet":                            {bc: ofSecret},
		"AMQP was not matched":                     {bc: ofSecret, health: unmatched, want: unproved},
		"the broker accepted AMQP at this address": {bc: ofSecret, health: addressed, want: letIn},
		"connected":                                {bc: ofSecret, health: health, want: connected},
		"no events, for a long reason":             {bc: ofSecret, health: silent, want: explained},
		"connected with clusterRef":                {bc: ofCluster, health: health, want: connected, atLeast: clusterPoll, below: 2 * clusterPoll},
		"failing for a moment":                     {bc: ofSecret, health: failing, want: connected, atLeast: 2 * time.Hour, below: 4 * time.Hour},
		"failing for a moment, with clusterRef":    {bc: ofCluster, health: failing, want: connected, atLeast: clusterPoll, below: 2 * clusterPoll},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := &v1alpha1.BrokerConnectionStatus{}
			result := setStatus(test.bc, test.health, status)
			topologytest.Equal(t, "status", test.want, *status, cmpopts.IgnoreFields(v1alpha1.BrokerConnectionStatus{}, "Conditions"))
			if result.RequeueAfter < test.atLeast || (test.below > 0 && result.RequeueAfter > test.below) || (test.below == 0 && result.RequeueAfter != 0) {
				t.Errorf("is requeued after %v", result.RequeueAfter)
			}
		})
	}
}

func TestReconcileBrokerConnection(t *testing.T) {
	t.Parallel()
	bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{SecretRef: &v1alpha1.LocalObjectReference{Name: "broker"}})
	c := controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}, bc, controllertest.Named(t, "shop", "a", `{}`), controllertest.Named(t, "shop", "b", `{}`), controllertest.Named(t, "elsewhere", "c", `{}`))
	r := newTestReconciler(c, clock.RealClock{})
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(bc)}
	result, err := r.Reconcile(t.Context(), request)
	topologytest.Equal(t, "error", nil, err)
	if result.RequeueAfter < clusterPoll {
		t.Errorf("is requeued after %v", result.RequeueAfter)
	}
	got := &v1alpha1.BrokerConnection{}
	topologytest.Equal(t, "error", nil, c.Get(t.Context(), request.NamespacedName, got))
	topologytest.Equal(t, "ConsumerQueues", int32(2), *got.Status.ConsumerQueues)
	reason := slices.IndexFunc(got.Status.Conditions, func(c metav1.Condition) bool { return c.Reason == v1alpha1.ReasonSecretNotFound })
	topologytest.Equal(t, "has the reason", true, reason >= 0)

	version := got.ResourceVersion
	_, err = r.Reconcile(t.Context(), request)
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "error", nil, c.Get(t.Context(), request.NamespacedName, got))
	topologytest.Equal(t, "resource version after a reconciliation without changes", version, got.ResourceVersion)

	topologytest.Equal(t, "error", nil, c.Delete(t.Context(), got))
	result, err = r.Reconcile(t.Context(), request)
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "result", ctrl.Result{}, result)

	_, err = (&Reconciler{client: controllertest.BrokenClient(t)}).Reconcile(t.Context(), request)
	topologytest.Equal(t, "error", "get BrokerConnection: the API server is down", err.Error())
}

func TestProtectionLost(t *testing.T) {
	t.Parallel()
	fresh, protected, deleted := &v1alpha1.BrokerConnection{}, &v1alpha1.BrokerConnection{}, &v1alpha1.BrokerConnection{}
	protected.Finalizers, deleted.Finalizers = []string{v1alpha1.ConnectionFinalizer}, []string{v1alpha1.ConnectionFinalizer}
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	topologytest.Equal(t, "the finalizer is lost", true, protectionLost().Update(event.UpdateEvent{ObjectOld: protected, ObjectNew: fresh}))
	topologytest.Equal(t, "the finalizer remains", false, protectionLost().Update(event.UpdateEvent{ObjectOld: protected, ObjectNew: deleted}))
}

// If the cache still has the first status, writing the first status again is refused as stale. Otherwise a changed-back status
// would not be written.
func TestFinishWithAnOldCache(t *testing.T) {
	t.Parallel()
	cached := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{})
	c := controllertest.Client(t, nil, cached)
	key := client.ObjectKeyFromObject(cached)
	r, done := &Reconciler{client: c}, ctrl.Result{RequeueAfter: time.Hour}
	topologytest.Equal(t, "error", nil, c.Get(t.Context(), key, cached))
	finish := func(version string) (stale bool) {
		status := *cached.Status.DeepCopy()
		status.BrokerVersion = version
		result, err := r.finish(t.Context(), cached.DeepCopy(), status, done)
		if statuswriter.IsStale(err) {
			return true
		}
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "result", done, result)
		return false
	}
	topologytest.Equal(t, "an unchanged status is stale", false, finish(""))
	topologytest.Equal(t, "a new status is stale", false, finish("4.3.6"))
	topologytest.Equal(t, "the first status again, while the cache lacks the second, is stale", true, finish(""))
	topologytest.Equal(t, "a third status, while the cache lacks the second, is stale", true, finish("4.0.5"))
	topologytest.Equal(t, "error", nil, c.Get(t.Context(), key, cached))
	topologytest.Equal(t, "version", "4.3.6", cached.Status.BrokerVersion)
	topologytest.Equal(t, "the first status again is stale", false, finish(""))
	topologytest.Equal(t, "error", nil, c.Get(t.Context(), key, cached))
	topologytest.Equal(t, "version", "", cached.Status.BrokerVersion)
}

// A conflict of a status write requeues the BrokerConnection. Any other refusal is an error, unless the BrokerConnection is
// gone.
func TestRefusedStatusWrites(t *testing.T) {
	t.Parallel()
	down := errors.New("the API server is down")
	for name, test := range map[string]struct {
		refusal, want error
		requeued      bool
	}{
		"a conflict":                   {refusal: controllertest.Conflict("default"), requeued: true},
		"the BrokerConnection is gone": {refusal: controllertest.NotFound("default")},
		"the API server fails":         {refusal: down, want: down},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{SecretRef: &v1alpha1.LocalObjectReference{Name: "broker"}})
			c := controllertest.ClientBuilder(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}, bc).
				WithInterceptorFuncs(controllertest.StatusUpdate(func() error { return test.refusal })).Build()
			r := newTestReconciler(c, clock.RealClock{})
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(bc)})
			topologytest.Equal(t, "error", true, errors.Is(err, test.want))
			topologytest.Equal(t, "is requeued soon", test.requeued, result.RequeueAfter > 0 && result.RequeueAfter < time.Second)
			topologytest.Equal(t, "is requeued later", false, result.RequeueAfter >= time.Second)
		})
	}
}

// A status write removes conditions that no longer apply, and keeps lastTransitionTime of the others.
func TestStatusIsReplaced(t *testing.T) {
	t.Parallel()
	since := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{Suspend: true})
	for _, condition := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		bc.Status.Conditions = append(bc.Status.Conditions, metav1.Condition{
			Type: condition, Status: "True", Reason: "Old", Message: "old", LastTransitionTime: since,
		})
	}
	c := controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}, bc)
	_, err := newTestReconciler(c, clock.RealClock{}).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(bc)})
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "error", nil, c.Get(t.Context(), client.ObjectKeyFromObject(bc), bc))
	topologytest.Equal(t, "conditions", []string{
		`Ready=True Old "old", 3`, `Suspended=True Suspended "spec.suspend is true: Warren neither reads nor changes objects at the broker", 3`,
	}, controllertest.Lines(bc.Status.Conditions))
	topologytest.Equal(t, "Ready since", true, bc.Status.Conditions[0].LastTransitionTime.Equal(&since))
}
