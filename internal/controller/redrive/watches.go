package redrive

import (
	"context"
	"time"

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
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/trigger"
)

// IndexConsumerQueue is, of a Redrive, the names of the ConsumerQueues that it takes messages from and moves them to.
const IndexConsumerQueue = "consumerQueue"

// AddIndexes adds the index by which the cache is asked.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &v1alpha1.Redrive{}, IndexConsumerQueue, func(object client.Object) []string {
		spec := object.(*v1alpha1.Redrive).Spec
		names := []string{spec.ConsumerQueueRef.Name}
		if to := spec.Destination; to != nil && to.ConsumerQueueRef != nil && to.ConsumerQueueRef.Name != names[0] {
			names = append(names, to.ConsumerQueueRef.Name)
		}
		return names
	})
}

// Setup adds the controller of Redrives to a manager.
func Setup(mgr ctrl.Manager, connections *brokers.Pool, sharesQueue SharesQueue) (*Reconciler, error) {
	wakeups := make(chan event.TypedGenericEvent[client.ObjectKey])
	wake := func(key client.ObjectKey) {
		select {
		case wakeups <- event.TypedGenericEvent[client.ObjectKey]{Object: key}:
		case <-connections.Lifetime().Done():
		}
	}
	r := &Reconciler{
		client: mgr.GetClient(), recorder: mgr.GetEventRecorder("warren"), pool: connections, sharesQueue: sharesQueue,
		tasks: newTasks(connections.Lifetime(), wake), now: time.Now, log: mgr.GetLogger().WithName("redrives"),
	}
	if err := mgr.Add(r); err != nil {
		return nil, err
	}
	woken := handler.TypedFuncs[client.ObjectKey, reconcile.Request]{
		GenericFunc: func(
			_ context.Context, e event.TypedGenericEvent[client.ObjectKey], q workqueue.TypedRateLimitingInterface[reconcile.Request],
		) {
			q.Add(reconcile.Request{NamespacedName: e.Object})
		},
	}
	return r, ctrl.NewControllerManagedBy(mgr).
		Named("redrive").
		For(&v1alpha1.Redrive{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.ConsumerQueue{}, handler.EnqueueRequestsFromMapFunc(r.redrivesOfConsumerQueue),
			builder.WithPredicates(concernsRedrives())).
		Watches(&v1alpha1.BrokerConnection{}, handler.EnqueueRequestsFromMapFunc(r.redrivesOfConnection),
			builder.WithPredicates(usabilityChanged())).
		WatchesRawSource(source.TypedChannel(wakeups, woken)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, ReconciliationTimeout: trigger.ReconciliationTimeout}).
		Complete(r)
}

// concernsRedrives lets pass what changes whether messages of a ConsumerQueue can be moved.
func concernsRedrives() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.ConsumerQueue), e.ObjectNew.(*v1alpha1.ConsumerQueue)
		return before.Generation != after.Generation || before.Status.ObservedGeneration != after.Status.ObservedGeneration ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			conditions.Ready(before.Status.Conditions).Reason != conditions.Ready(after.Status.Conditions).Reason
	}}
}

// usabilityChanged lets pass what changes whether messages can be moved through a BrokerConnection.
func usabilityChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.BrokerConnection), e.ObjectNew.(*v1alpha1.BrokerConnection)
		was, is := conditions.ReadyOf(before), conditions.ReadyOf(after)
		return before.Generation != after.Generation || was.Status != is.Status || was.Reason != is.Reason
	}}
}

// redrivesOfConsumerQueue are the Redrives that have to do with a ConsumerQueue.
func (r *Reconciler) redrivesOfConsumerQueue(ctx context.Context, cq client.Object) []reconcile.Request {
	return r.unfinished(ctx, cq.GetNamespace(), client.MatchingFields{IndexConsumerQueue: cq.GetName()})
}

// redrivesOfConnection are the Redrives that may have to do with a BrokerConnection.
func (r *Reconciler) redrivesOfConnection(ctx context.Context, bc client.Object) []reconcile.Request {
	return r.unfinished(ctx, bc.GetNamespace())
}

// unfinished lists the Redrives of a namespace that have not ended.
func (r *Reconciler) unfinished(ctx context.Context, namespace string, only ...client.ListOption) []reconcile.Request {
	list := &v1alpha1.RedriveList{}
	options := append([]client.ListOption{client.InNamespace(namespace), client.UnsafeDisableDeepCopy}, only...)
	if err := r.client.List(ctx, list, options...); err != nil {
		log.FromContext(ctx).Error(err, "List Redrives", "namespace", namespace)
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Status.CompletionTime == nil {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
