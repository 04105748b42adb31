package brokerconnection

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/fairqueue"
	"github.com/warren-mq/warren/internal/controller/retrybudget"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/text"
)

// Reconciler keeps one connection for each BrokerConnection, and reports its state in the status.
type Reconciler struct {
	client   client.Client
	live     client.Reader
	recorder events.EventRecorder
	pool     *brokers.Pool
	// deletions counts for how long deleted BrokerConnections have been waiting.
	deletions deletionClock
	// unneeded records when a deleted BrokerConnection was first seen without a ConsumerQueue that needs it.
	unneeded *retrybudget.FirstSeen
	// suspendedClean records BrokerConnections that had no fence when they were suspended.
	suspendedClean *retrybudget.FirstSeen
	statuses       statuswriter.Writer
}

// +kubebuilder:rbac:groups=messaging.warren.dev,resources=brokerconnections,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=messaging.warren.dev,resources=brokerconnections/status,verbs=update
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups=rabbitmq.com,resources=rabbitmqclusters,verbs=get

// workers is how many BrokerConnections are reconciled at a time. Half of them may be of one namespace, because closing a
// connection takes seconds if the broker does not answer.
const workers = 4

// clusterPoll is how often a RabbitmqCluster is read for the name of its Secret. Warren does not watch RabbitmqClusters.
const clusterPoll = 30 * time.Second

// countDelay combines changes of the number of ConsumerQueues, which often arrive together.
const countDelay = time.Second

// Setup adds the controller of BrokerConnections to a manager. It returns the source of their metrics.
func Setup(mgr ctrl.Manager, connections *brokers.Pool) (metrics.Source, error) {
	r := &Reconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: mgr.GetEventRecorder("warren"), pool: connections,
		unneeded: retrybudget.NewFirstSeen(clock.RealClock{}), suspendedClean: retrybudget.NewFirstSeen(clock.RealClock{}),
	}
	return r.EmitMetrics, ctrl.NewControllerManagedBy(mgr).
		Named("brokerconnection").
		For(&v1alpha1.BrokerConnection{},
			builder.WithPredicates(predicate.Or(trigger.SpecOrRequest(), trigger.StatusLost(), protectionLost()))).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.connectionsOfSecret)).
		Watches(&v1alpha1.ConsumerQueue{}, r.countHandler()).
		WatchesRawSource(source.Channel(r.pool.BrokerConnectionEvents,
			&handler.TypedEnqueueRequestForObject[*v1alpha1.BrokerConnection]{})).
		WithOptions(fairqueue.Options(workers)).
		Complete(r)
}

// countHandler enqueues a BrokerConnection when ConsumerQueues are created or deleted: immediately for the first ConsumerQueue, which waits
// for the finalizer, and otherwise after a short delay.
func (r *Reconciler) countHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			request := reconcile.Request{NamespacedName: brokers.ConnectionKey(e.Object.(*v1alpha1.ConsumerQueue))}
			bc := &v1alpha1.BrokerConnection{}
			if err := r.client.Get(ctx, request.NamespacedName, bc); err == nil && !bc.IsProtected() {
				q.Add(request)
				return
			}
			q.AddAfter(request, countDelay)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			q.AddAfter(reconcile.Request{NamespacedName: brokers.ConnectionKey(e.Object.(*v1alpha1.ConsumerQueue))}, countDelay)
		},
	}
}

func (r *Reconciler) connectionsOfSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	list := &v1alpha1.BrokerConnectionList{}
	err := r.client.List(ctx, list, client.InNamespace(secret.GetNamespace()), client.MatchingFields{IndexSecret: secret.GetName()})
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot list BrokerConnections", "secret", client.ObjectKeyFromObject(secret))
		return nil
	}
	requests := make([]reconcile.Request, len(list.Items))
	for i := range list.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
	}
	return requests
}

// Reconcile opens the connection that the spec and its Secrets describe, and reports its state in the status.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcile(ctx, request)
	if statuswriter.IsStale(err) {
		return ctrl.Result{RequeueAfter: trigger.Jittered(trigger.CacheSyncDelay)}, nil
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	bc := &v1alpha1.BrokerConnection{}
	err := r.client.Get(ctx, request.NamespacedName, bc)
	if apierrors.IsNotFound(err) {
		r.pool.Close(request.NamespacedName)
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("get BrokerConnection: %w", err)
	}
	if !bc.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, bc)
	}
	users, err := brokers.QueuesOf(ctx, r.client, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	unprotected := r.syncFinalizer(ctx, bc, len(users) > 0) // returned later, because the status must report the connection anyway
	if apierrors.IsConflict(unprotected) {
		countReconciliation(bc.Status, unprotected)
		return ctrl.Result{}, unprotected
	}
	status := *bc.Status.DeepCopy()
	result, err := r.reconcileNormal(ctx, bc, &status)
	if err != nil {
		countReconciliation(status, err)
		return ctrl.Result{}, errors.Join(unprotected, err)
	}
	count := int32(min(len(users), math.MaxInt32))
	status.ConsumerQueues = &count
	result, err = r.finish(ctx, bc, status, result)
	err = errors.Join(unprotected, err)
	countReconciliation(status, err)
	if err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}

// finish writes the status if it has changed. If the reconciliation began with an old status, finish returns an error for which
// statuswriter.IsStale is true.
func (r *Reconciler) finish(
	ctx context.Context, bc *v1alpha1.BrokerConnection, status v1alpha1.BrokerConnectionStatus, result ctrl.Result,
) (ctrl.Result, error) {
	if equality.Semantic.DeepEqual(bc.Status, status) {
		if r.statuses.IsOlder(bc) {
			return ctrl.Result{}, statuswriter.ErrStaleCache
		}
		return result, nil
	}
	written := bc.DeepCopy()
	status.DeepCopyInto(&written.Status)
	if err := r.statuses.Update(ctx, r.client, written); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return result, nil
}

// reconcileNormal opens or closes the connection as the spec says, and writes its state into the status.
func (r *Reconciler) reconcileNormal(
	ctx context.Context, bc *v1alpha1.BrokerConnection, status *v1alpha1.BrokerConnectionStatus,
) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(bc)
	writer := conditions.For(&status.Conditions, bc.Generation)
	status.ObservedGeneration = bc.Generation
	if bc.Spec.Suspend {
		r.closeSuspended(bc)
		writer.SetSuspended("spec.suspend is true: Warren neither reads nor changes objects at the broker")
		return ctrl.Result{}, nil
	}
	r.suspendedClean.Forget(key)
	writer.ClearSuspended()
	connection, err := r.connect(ctx, bc)
	if problem, ok := errors.AsType[*invalidConfig](err); ok {
		ready := conditions.ReadyOf(bc)
		isReady := ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == bc.Generation
		if isReady && problem.reason == v1alpha1.ReasonSecretNotFound {
			if left := r.pool.GraceLeft(key, connectionGrace); left > 0 {
				return ctrl.Result{RequeueAfter: left}, nil
			}
		}
		r.pool.Close(key)
		writer.SetReady(conditions.False(problem.reason, problem.message), problem.progress())
		return ctrl.Result{RequeueAfter: trigger.Jittered(clusterPoll)}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if asked := trigger.RequestedAt(bc); asked != status.LastHandledReconcileAt {
		connection.RequestRefresh() // the connection sends a notice if anything changed
		status.LastHandledReconcileAt = asked
	}
	return setStatus(bc, connection.Health(), status), nil
}

// capabilitiesOf returns the capabilities for the status. It keeps Events and EventsReason until the connection has determined them.
func capabilitiesOf(health rabbit.Health, known *v1alpha1.BrokerCapabilities) *v1alpha1.BrokerCapabilities {
	capabilities := &v1alpha1.BrokerCapabilities{
		Definitions: health.Capabilities.Definitions, Events: !health.EventsSince.IsZero(),
		EventsReason: text.Truncate(health.EventsReason, 1024),
		Policies:     health.Capabilities.Policies, DelayedRedelivery: health.Capabilities.DelayedRedelivery,
		Statistics: &health.Capabilities.Statistics,
	}
	if known != nil && !capabilities.Events && capabilities.EventsReason == "" {
		capabilities.Events, capabilities.EventsReason = known.Events, known.EventsReason
	}
	return capabilities
}

func (r *Reconciler) connect(ctx context.Context, bc *v1alpha1.BrokerConnection) (*brokers.Broker, error) {
	config, err := configOf(ctx, r.live, bc)
	if err != nil {
		return nil, err
	}
	connection, err := r.pool.Ensure(client.ObjectKeyFromObject(bc), bc.CreationTimestamp.Time, config)
	if errors.Is(err, brokers.ErrTooManyConnections) {
		return nil, &invalidConfig{v1alpha1.ReasonTooManyConnections, fmt.Sprintf(
			"%d older BrokerConnections of namespace %q are connected, which is the maximum: "+
				"delete or suspend one, or use another namespace", brokers.MaxConnections, bc.Namespace)}
	}
	return connection, err
}

func setStatus(
	bc *v1alpha1.BrokerConnection, health rabbit.Health, status *v1alpha1.BrokerConnectionStatus,
) ctrl.Result {
	if health.ClusterName != "" {
		status.BrokerVersion = health.Version
		status.Capabilities = capabilitiesOf(health, status.Capabilities)
	}
	if health.Cluster.Known() {
		here := ownership.Location{Cluster: health.Cluster}
		if health.Place.Address != "" {
			here.VHost = bc.Spec.VHost
		}
		here.Record(&status.Location)
	}
	value, progress, again := summarizeHealth(health, bc, time.Now())
	writer := conditions.For(&status.Conditions, bc.Generation)
	if value == nil {
		writer.Keep(v1alpha1.ConditionReady)
	} else {
		writer.SetReady(*value, progress)
	}
	if bc.Spec.ClusterRef != nil && (again == 0 || again > clusterPoll) {
		again = clusterPoll
	}
	if again == 0 {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: trigger.Jittered(again)}
}
