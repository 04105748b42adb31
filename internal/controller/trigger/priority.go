package trigger

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The priorities of reconciliations. A change by a user has the default priority 0, which is the highest, so that an edit does not wait
// until thousands of resources have been compared again.
const (
	// Noticed is for single changes: an object at the broker changed, another resource released an object, or a deletion continues.
	Noticed = -50
	// Resync is for events that concern all resources of a connection, and for elapsed intervals. Usually nothing has changed.
	// Controller-runtime uses the same priority for the first list of a manager.
	Resync = handler.LowPriority
)

// Enqueue enqueues a resource with a priority. A resource that is already in the queue keeps the higher priority.
func Enqueue(queue workqueue.TypedRateLimitingInterface[reconcile.Request], priority int, request reconcile.Request) {
	EnqueueAfter(queue, priority, 0, request)
}

// EnqueueAfter enqueues a resource after a delay. If the resource is already in the queue, the earlier time counts.
func EnqueueAfter(
	queue workqueue.TypedRateLimitingInterface[reconcile.Request], priority int, wait time.Duration, request reconcile.Request,
) {
	if prioritized, ok := queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: &priority, After: wait}, request)
		return
	}
	if wait > 0 {
		queue.AddAfter(request, wait)
		return
	}
	queue.Add(request)
}
