package consumerqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/deadletterjob"
	"github.com/warren-mq/warren/internal/controller/fairqueue"
	"github.com/warren-mq/warren/internal/controller/retrybudget"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/ownership"
)

// Reconciler makes the topology of each ConsumerQueue match its spec, and reports differences in the status.
type Reconciler struct {
	client client.Client
	live   client.Reader
	// leadsSince returns when this manager first reconciled a resource. The manager has led since then.
	leadsSince func() time.Time
	recorder   events.EventRecorder
	pool       *brokers.Pool
	deletions  *brokers.DeletionTasks
	index      *ownership.Index
	claimLock  *ownership.ClaimLock
	handover   *ownership.Handover
	// refreshes makes new resources, deleted resources, and resources with a new requested-at annotation wait for a refresh.
	refreshes *brokers.RefreshGate
	// removals makes a resource wait for a refresh before Warren removes objects that left the spec. refusals does so after the broker
	// refused a write.
	removals, refusals *brokers.RefreshGate
	orphaned           orphanTimes
	redeclared         *redeclared
	limiter            *brokers.Limiter
	recreations        *recreationTasks
	statuses           statuswriter.Writer
	unprotected        unprotected
	// deleted records when this manager first saw a deletion, contracts when it first saw a contract in the status. restored records when
	// it last compared the ConfigMap of a queue that waits to be recreated.
	deleted, contracts, restored *retrybudget.FirstSeen
	// The retry budgets of a deletion, by cause: the broker could not be reached, it refused, it needs time (see
	// brokererr.ErrPending), or a recreation must end first.
	unreached, refused, pending, unfinished retrybudget.Failures
}

// +kubebuilder:rbac:groups=messaging.warren.dev,resources=consumerqueues,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=messaging.warren.dev,resources=consumerqueues/status,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create

// The rate limit of reconciliations that failed for a temporary reason.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = 5 * time.Minute
)

// Setup adds the controller of ConsumerQueues to a manager.
func Setup(mgr ctrl.Manager, connections *brokers.Pool, concurrent int) (*Reconciler, error) {
	r := &Reconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), leadsSince: sync.OnceValue(time.Now),
		recorder: mgr.GetEventRecorder("warren"), pool: connections,
		deletions: brokers.NewDeletionTasks(connections.Lifetime(), connections.Enqueue),
		index:     ownership.NewIndex(), claimLock: ownership.NewClaimLock(), handover: ownership.NewHandover(),
		refreshes: brokers.NewRefreshGate(connections.Enqueue), removals: brokers.NewRefreshGate(connections.Enqueue),
		refusals: brokers.NewRefreshGate(connections.Enqueue), redeclared: newRedeclared(clock.RealClock{}),
		deleted: retrybudget.NewFirstSeen(clock.RealClock{}), contracts: retrybudget.NewFirstSeen(clock.RealClock{}),
		restored:    retrybudget.NewFirstSeen(clock.RealClock{}),
		limiter:     brokers.NewLimiter(concurrent, connections.Enqueue),
		recreations: newRecreationTasks(connections.Lifetime(), connections.Enqueue),
	}
	connections.OnCurrent(func(connection *brokers.Broker) {
		for _, gate := range r.gates() {
			gate.EnqueueAnswered(connection)
		}
	})
	startDriftCounters()
	wanted := predicate.Or(trigger.SpecOrRequest(), trigger.StatusLost(), recreationAnnotated())
	return r, ctrl.NewControllerManagedBy(mgr).
		Named("consumerqueue").
		For(&v1alpha1.ConsumerQueue{}, builder.WithPredicates(wanted, notAtStart())).
		Watches(&v1alpha1.BrokerConnection{}, r.resyncConnection(), builder.WithPredicates(readinessChanged(), notAtStart())).
		Watches(&v1alpha1.ConsumerQueue{}, r.indexPeers()).
		Watches(&v1alpha1.Redrive{}, queueOfJob(), builder.WithPredicates(deadletterjob.RefusalChanged())).
		Watches(&v1alpha1.Purge{}, queueOfJob(), builder.WithPredicates(deadletterjob.RefusalChanged())).
		WatchesRawSource(source.TypedChannel(r.pool.ConsumerQueueEvents, enqueueNoticed())).
		WatchesRawSource(source.Channel(r.pool.MessageCountEvents, r.messageCountHandler())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: concurrent,
			ReconciliationTimeout:   trigger.ReconciliationTimeout,
			NewQueue:                fairqueue.NewFor(fairqueue.Limits{Namespace: concurrent, Background: concurrent / 4}),
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Complete(r)
}

// Reconcile compares one ConsumerQueue with its vhost, corrects differences as the spec allows, and writes the status if it has
// changed.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	r.leadsSince()
	cq, exists, err := r.get(ctx, request.NamespacedName)
	if err != nil || cq == nil {
		r.limiter.Decline(request.NamespacedName)
		return ctrl.Result{}, err
	}
	ownership.RestoreIntents(cq)
	if exists && !r.index.Await(ctx, cq, trigger.CacheSyncDelay) {
		r.limiter.Decline(request.NamespacedName)
		return ctrl.Result{RequeueAfter: trigger.Jittered(trigger.CacheSyncDelay)}, nil
	}
	s := &scope{Reconciler: r, report: reportOn(cq)}
	run := s.reconcileNormal
	if !cq.DeletionTimestamp.IsZero() {
		run = s.reconcileDelete
	}
	done, err := run(ctx)
	if done.waits != forSlot {
		r.limiter.Decline(request.NamespacedName)
	}
	pauseIn, pausing := s.syncPause(ctx)
	var writing error
	if errors.Is(err, statuswriter.ErrStaleCache) {
		done.waits = forCache
	}
	if done.waits == (waiting{}) {
		if writing = s.finish(ctx); statuswriter.IsStale(writing) {
			done.waits = forCache
		}
	}
	s.countReconciliation(done.waits, errors.Join(err, writing))
	if done.waits != (waiting{}) {
		return ctrl.Result{RequeueAfter: trigger.Jittered(done.waits.retry)}, nil
	}
	if err := errors.Join(err, pausing, writing); err != nil {
		return ctrl.Result{}, err
	}
	if pauseIn > 0 && (done.RequeueAfter == 0 || pauseIn < done.RequeueAfter) {
		done.RequeueAfter = pauseIn
	}
	return done.Result, nil
}

// get returns a ConsumerQueue from the cache. If the API server removed it unprotected, get returns the recorded version, and exists is
// false. If there is neither, cq is nil.
func (r *Reconciler) get(ctx context.Context, key client.ObjectKey) (cq *v1alpha1.ConsumerQueue, exists bool, err error) {
	cq = &v1alpha1.ConsumerQueue{}
	err = r.client.Get(ctx, key, cq)
	former := r.unprotected.get(key)
	switch {
	case apierrors.IsNotFound(err):
		if former == nil {
			r.forget(key)
		}
		return former, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("get ConsumerQueue: %w", err)
	case former != nil: // the new ConsumerQueue of this name specifies the topology
		r.forget(key)
	}
	return cq, true, nil
}

// reconciled is what a reconciliation returns to the workqueue.
type reconciled struct {
	ctrl.Result

	waits waiting
}

func requeueAfter(wait time.Duration, priority int) reconciled {
	return reconciled{Result: ctrl.Result{RequeueAfter: wait, Priority: &priority}}
}

// waiting is why a reconciliation ended early: it waits, and its status is not written. The zero value means that it does not wait.
type waiting struct {
	reason string // as in the metric of reconciliations
	retry  time.Duration
}

// A refresh and a free slot usually enqueue the resource earlier.
var (
	forRefresh = waiting{"RefreshPending", brokers.RefreshRecheck}
	forSlot    = waiting{"Busy", brokers.LimiterRetry}
	forCache   = waiting{"StaleCache", trigger.CacheSyncDelay}
)

// gates are all gates at which a ConsumerQueue can wait for a refresh.
func (r *Reconciler) gates() []*brokers.RefreshGate {
	return []*brokers.RefreshGate{r.refreshes, r.removals, r.refusals}
}

// forget removes everything in memory about a ConsumerQueue that is gone.
func (r *Reconciler) forget(key client.ObjectKey) {
	r.deletions.Cancel(key)
	for _, gate := range r.gates() {
		gate.Forget(key)
	}
	r.orphaned.Forget(key)
	r.redeclared.forget(key)
	r.deleted.Forget(key)
	r.contracts.Forget(key)
	r.restored.Forget(key)
	r.unreached.Forget(key)
	r.refused.Forget(key)
	r.pending.Forget(key)
	r.unfinished.Forget(key)
	metrics.ForgetConsumerQueue(key.Namespace, key.Name)
	r.recreations.forget(key)
	r.statuses.Forget(key)
	r.unprotected.Forget(key)
}
