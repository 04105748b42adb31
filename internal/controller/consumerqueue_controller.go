package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology"
)

// ConsumerQueueReconciler keeps the topology of each ConsumerQueue as its spec asks for, and its status truthful.
type ConsumerQueueReconciler struct {
	client      client.Client
	live        client.Reader
	recorder    events.EventRecorder
	connections *Connections
	removals    *removals
	releases    *releases
	freshness   *freshness
	departures  *departed
	turns       *turns
	written     writeTracker
	// deleted is when ConsumerQueues were first seen to be being deleted.
	deleted *sightings
	// unreached, refused and pending count against patience: deletions for which the broker could not be asked, those that it
	// did not let succeed, and those that wait for what goes away by itself.
	unreached, refused, pending *trials
	// claiming is held while a resource writes down what it takes for its own: of two that want the same, the second sees
	// what the first has taken.
	claiming sync.Mutex
}

// +kubebuilder:rbac:groups=messaging.warren.dev,resources=consumerqueues,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=messaging.warren.dev,resources=consumerqueues/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// The rate limit of reconciliations that failed for a transient reason.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = 5 * time.Minute
)

func (r *ConsumerQueueReconciler) setup(mgr ctrl.Manager, concurrent int) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("consumerqueue").
		For(&v1alpha1.ConsumerQueue{}, builder.WithPredicates(specOrRequest())).
		Watches(&v1alpha1.BrokerConnection{}, handler.EnqueueRequestsFromMapFunc(r.queuesOfConnection),
			builder.WithPredicates(readinessChanged())).
		Watches(&v1alpha1.ConsumerQueue{}, r.waitingNeighbours()).
		WatchesRawSource(source.Channel(r.connections.consumerQueues, &handler.TypedEnqueueRequestForObject[*v1alpha1.ConsumerQueue]{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrent,
			ReconciliationTimeout:   reconciliationTimeout,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Complete(r)
}

// readinessChanged lets pass what changes whether a BrokerConnection can be used, and why not.
func readinessChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*v1alpha1.BrokerConnection), e.ObjectNew.(*v1alpha1.BrokerConnection)
			was, is := readyOf(before), readyOf(after)
			return before.Generation != after.Generation || isProtected(before) != isProtected(after) ||
				before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
				was.Status != is.Status || was.Reason != is.Reason || was.Message != is.Message
		},
	}
}

func readyOf(bc *v1alpha1.BrokerConnection) metav1.Condition { return readyIn(bc.Status.Conditions) }

func readyIn(conditions []metav1.Condition) metav1.Condition {
	if found := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); found != nil {
		return *found
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending}
}

func (r *ConsumerQueueReconciler) queuesOfConnection(ctx context.Context, bc client.Object) []reconcile.Request {
	list := &v1alpha1.ConsumerQueueList{}
	err := r.client.List(ctx, list, client.InNamespace(bc.GetNamespace()),
		client.MatchingFields{indexConnection: bc.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "List ConsumerQueues", "brokerConnection", client.ObjectKeyFromObject(bc))
		return nil
	}
	requests := make([]reconcile.Request, len(list.Items))
	for i := range list.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
	}
	return requests
}

// Reconcile looks at one ConsumerQueue, mends what it may, and writes its status if that changed.
func (r *ConsumerQueueReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cq := &v1alpha1.ConsumerQueue{}
	err := r.client.Get(ctx, request.NamespacedName, cq)
	if apierrors.IsNotFound(err) {
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("get ConsumerQueue: %w", err)
	}
	look := &look{ConsumerQueueReconciler: r, cq: cq, status: cq.Status.DeepCopy()}
	run := look.run
	if !cq.DeletionTimestamp.IsZero() {
		run = look.terminate
	}
	result, err := run(ctx)
	if later, ok := errors.AsType[*notLooked](err); ok {
		return ctrl.Result{RequeueAfter: jittered(later.wait)}, nil
	}
	switch {
	case errors.Is(err, errOldStatus), errors.Is(err, errUnprotected):
		return ctrl.Result{RequeueAfter: jittered(cacheDelay)}, nil
	case errors.Is(err, errNoTurn):
		return ctrl.Result{RequeueAfter: jittered(turnPoll)}, nil // it is woken as a rule
	}
	writing := look.finish(ctx)
	if apierrors.IsConflict(writing) || errors.Is(writing, errOldStatus) {
		return ctrl.Result{RequeueAfter: jittered(cacheDelay)}, nil
	}
	if err := errors.Join(err, writing); err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}

// forget drops what is remembered of a ConsumerQueue that is gone.
func (r *ConsumerQueueReconciler) forget(key client.ObjectKey) {
	r.removals.forget(key)
	r.freshness.forget(key)
	r.departures.forget(key)
	r.deleted.forget(key)
	r.unreached.forget(key)
	r.refused.forget(key)
	r.pending.forget(key)
	r.written.forget(key)
}

// errOldStatus ends a look that began with another status than the API server has by now.
var errOldStatus = errors.New("the cache has not heard of the newest status yet")

// orOldStatus makes errOldStatus of a conflict.
func orOldStatus(err error) error {
	if apierrors.IsConflict(err) {
		return errOldStatus
	}
	return err
}

// cacheDelay is how long the cache is given to hear of a status that was written a moment ago.
const cacheDelay = 100 * time.Millisecond

// finish writes the status if it changed, then records the Events that it speaks of. It does so after an error too: a
// retry sees the status that was written and no transition any more. It returns a conflict or errOldStatus if the look began
// with an old status; that the resource changed otherwise in the meantime does no harm.
func (l *look) finish(ctx context.Context) error {
	if equality.Semantic.DeepEqual(l.cq.Status, *l.status) {
		if l.written.isOlder(l.cq) {
			return errOldStatus
		}
		l.recordEvents()
		return nil
	}
	err := l.writeStatus(ctx)
	if apierrors.IsConflict(err) && l.checkCurrent(ctx) == nil {
		err = l.writeStatus(ctx)
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	l.recordEvents()
	return nil
}

func (l *look) writeStatus(ctx context.Context) error {
	if err := applyConsumerQueueStatus(ctx, l.client, l.cq, *l.status); err != nil {
		return err
	}
	l.written.wrote(l.cq)
	return nil
}

// checkCurrent returns errOldStatus if the status is another than the look began with. It takes over the new version of a
// resource of which something else changed; of a new spec there will be another look.
func (l *look) checkCurrent(ctx context.Context) error {
	now := &v1alpha1.ConsumerQueue{}
	err := l.live.Get(ctx, client.ObjectKeyFromObject(l.cq), now)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get ConsumerQueue: %w", err)
	}
	if err != nil || now.UID != l.cq.UID || !equality.Semantic.DeepEqual(now.Status, l.cq.Status) {
		return errOldStatus
	}
	l.cq.ResourceVersion = now.ResourceVersion
	return nil
}

// connectionKey names the BrokerConnection of a ConsumerQueue.
func connectionKey(cq *v1alpha1.ConsumerQueue) client.ObjectKey {
	return client.ObjectKey{Namespace: cq.Namespace, Name: cq.ConnectionName()}
}

// connectionOf finds the BrokerConnection of a ConsumerQueue; nil if there is none.
func (r *ConsumerQueueReconciler) connectionOf(ctx context.Context, cq *v1alpha1.ConsumerQueue) (*v1alpha1.BrokerConnection, error) {
	bc := &v1alpha1.BrokerConnection{}
	err := r.client.Get(ctx, connectionKey(cq), bc)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get BrokerConnection %q: %w", cq.ConnectionName(), err)
	}
	return bc, nil
}

// usable returns the connection that a BrokerConnection has open, if it can be asked.
func (r *ConsumerQueueReconciler) usable(bc *v1alpha1.BrokerConnection) (*rabbit.Connection, topology.Version, bool) {
	connection := r.connections.Get(client.ObjectKeyFromObject(bc))
	if connection == nil || connection.Owner() != string(bc.UID) { // it is that of a BrokerConnection that was here before
		return nil, topology.Version{}, false
	}
	health := connection.Health()
	version, err := topology.ParseVersion(health.Version)
	return connection, version, err == nil && health.Matched && !health.SyncedAt.IsZero()
}
