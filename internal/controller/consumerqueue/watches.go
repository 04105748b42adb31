package consumerqueue

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/trigger"
)

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// readinessChanged passes events that change whether a BrokerConnection can be used, or why not.
func readinessChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*v1alpha1.BrokerConnection), e.ObjectNew.(*v1alpha1.BrokerConnection)
			was, is := conditions.ReadyOf(before), conditions.ReadyOf(after)
			return before.Generation != after.Generation || before.IsProtected() != after.IsProtected() ||
				before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
				was.Status != is.Status || was.Reason != is.Reason ||
				conditions.WhyNotReady(before.Name, was) != conditions.WhyNotReady(after.Name, is)
		},
	}
}

// recreationAnnotated passes a change of the annotations that approve or abort a recreation.
func recreationAnnotated() predicate.Predicate {
	return trigger.OnUpdate(func(former, now client.Object) bool {
		before, after := former.GetAnnotations(), now.GetAnnotations()
		return before[v1alpha1.ApproveRecreationAnnotation] != after[v1alpha1.ApproveRecreationAnnotation] ||
			before[v1alpha1.AbortRecreationAnnotation] != after[v1alpha1.AbortRecreationAnnotation]
	})
}

// resyncConnection enqueues all ConsumerQueues of a BrokerConnection.
func (r *Reconciler) resyncConnection() handler.EventHandler {
	resync := func(ctx context.Context, bc client.Object, queue requests) {
		for _, request := range r.queuesOfConnection(ctx, bc, all) {
			trigger.Enqueue(queue, trigger.Resync, request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q requests) { resync(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requests) { resync(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requests) { resync(ctx, e.Object, q) },
	}
}

// enqueueNoticed enqueues the ConsumerQueues that the pool of connections names.
func enqueueNoticed() handler.TypedEventHandler[brokers.QueuedResource, reconcile.Request] {
	return handler.TypedFuncs[brokers.QueuedResource, reconcile.Request]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[brokers.QueuedResource], q requests) {
			trigger.Enqueue(q, e.Object.Priority, reconcile.Request{NamespacedName: e.Object.Resource})
		},
	}
}

// queuesOfConnection returns the ConsumerQueues of a BrokerConnection for which wanted returns true.
func (r *Reconciler) queuesOfConnection(
	ctx context.Context, bc client.Object, wanted func(*v1alpha1.ConsumerQueue) bool,
) (requests []reconcile.Request) {
	queues, err := brokers.QueuesOf(ctx, r.client, client.ObjectKeyFromObject(bc))
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot list ConsumerQueues", "brokerConnection", client.ObjectKeyFromObject(bc))
		return nil
	}
	for i := range queues {
		if wanted(&queues[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&queues[i])})
		}
	}
	return requests
}

func all(*v1alpha1.ConsumerQueue) bool { return true }
