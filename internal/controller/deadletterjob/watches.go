package deadletterjob

import (
	"context"
	"strings"
	"time"

	"k8s.io/client-go/util/workqueue"
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
)

// workers is how many jobs of a kind are reconciled at a time. At most half of them count messages for one namespace, because a count
// takes seconds if the broker does not answer.
const workers = 4

// Setup adds the controller of a kind to a manager.
func Setup(mgr ctrl.Manager, kind Kind, tasks *Tasks, finder *Finder) (*Reconciler, error) {
	r := &Reconciler{
		Kind: kind, Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("warren"), Finder: finder, Tasks: tasks,
		Limiter: brokers.NewLimiter(workers, func(key client.ObjectKey) { tasks.enqueue(Key{kind, key}) }),
		Now:     time.Now, Log: mgr.GetLogger().WithName(string(kind)),
	}
	enqueued := make(chan event.TypedGenericEvent[client.ObjectKey])
	tasks.OnEnqueue(kind, func(key client.ObjectKey) {
		select {
		case enqueued <- event.TypedGenericEvent[client.ObjectKey]{Object: key}:
		case <-tasks.lifetime.Done():
		}
	})
	if err := mgr.Add(r); err != nil {
		return nil, err
	}
	enqueue := handler.TypedFuncs[client.ObjectKey, reconcile.Request]{
		GenericFunc: func(
			_ context.Context, e event.TypedGenericEvent[client.ObjectKey], q workqueue.TypedRateLimitingInterface[reconcile.Request],
		) {
			q.Add(reconcile.Request{NamespacedName: e.Object})
		},
	}
	return r, ctrl.NewControllerManagedBy(mgr).
		Named(strings.ToLower(string(kind))).
		For(kind.empty(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.ConsumerQueue{}, handler.EnqueueRequestsFromMapFunc(r.ofConsumerQueue),
			builder.WithPredicates(affectsJobs())).
		Watches(&v1alpha1.BrokerConnection{}, handler.EnqueueRequestsFromMapFunc(r.ofConnection),
			builder.WithPredicates(usabilityChanged())).
		WatchesRawSource(source.TypedChannel(enqueued, enqueue)).
		WithOptions(fairqueue.Options(workers)).
		Complete(r)
}

// affectsJobs passes events that change whether messages of a ConsumerQueue can be taken.
func affectsJobs() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.ConsumerQueue), e.ObjectNew.(*v1alpha1.ConsumerQueue)
		return before.Generation != after.Generation || before.Status.ObservedGeneration != after.Status.ObservedGeneration ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			conditions.Ready(before.Status.Conditions).Reason != conditions.Ready(after.Status.Conditions).Reason
	}}
}

// usabilityChanged passes events that change whether a BrokerConnection can be used.
func usabilityChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.BrokerConnection), e.ObjectNew.(*v1alpha1.BrokerConnection)
		was, is := conditions.ReadyOf(before), conditions.ReadyOf(after)
		return before.Generation != after.Generation || was.Status != is.Status || was.Reason != is.Reason
	}}
}

func (r *Reconciler) ofConsumerQueue(ctx context.Context, cq client.Object) []reconcile.Request {
	return r.unfinished(ctx, client.InNamespace(cq.GetNamespace()), client.MatchingFields{indexConsumerQueue: cq.GetName()})
}

func (r *Reconciler) ofConnection(ctx context.Context, bc client.Object) []reconcile.Request {
	return r.unfinished(ctx, client.InNamespace(bc.GetNamespace()))
}

// unfinished returns requests for the jobs that have not ended.
func (r *Reconciler) unfinished(ctx context.Context, only ...client.ListOption) []reconcile.Request {
	jobs, err := r.Kind.list(ctx, r.Client, only...)
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot list jobs", "kind", r.Kind)
		return nil
	}
	var requests []reconcile.Request
	for _, job := range jobs {
		if job.Status.CompletionTime == nil {
			requests = append(requests, reconcile.Request{NamespacedName: job.key().ObjectKey})
		}
	}
	return requests
}
