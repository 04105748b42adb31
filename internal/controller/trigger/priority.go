package trigger

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The priorities of reconciliations. What a user did has none, which is the highest: an edit does not wait until thousands of
// resources have been compared with a broker again.
const (
	// Noticed is for what somebody else may be waiting for: an object at the broker changed, another resource let go of something, a
	// deletion goes on.
	Noticed = -50
	// Resync is for what concerns all resources of a connection, and for what is due after an interval: they are compared again, and
	// as a rule nothing has changed. It is also controller-runtime's for the list that a manager begins with.
	Resync = handler.LowPriority
)

// Enqueue has a resource reconciled with a priority. One that is in the queue already keeps the higher one.
func Enqueue(queue workqueue.TypedRateLimitingInterface[reconcile.Request], priority int, request reconcile.Request) {
	EnqueueAfter(queue, priority, 0, request)
}

// EnqueueAfter is Enqueue after some time. What is enqueued again meanwhile, or is in the queue already, comes as soon as it is due.
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
