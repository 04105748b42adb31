package fairqueue

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/warren-mq/warren/internal/controller/trigger"
)

// Queue is a priority queue that serves namespaces round-robin. Priorities order the requests of one namespace. As in controller-runtime's
// queue, a request is in the queue once, with the highest priority and the earliest time of all its additions.
type Queue struct {
	workqueue.TypedInterface[reconcile.Request] // requests that are ready, or that a worker has

	order   *order
	limiter workqueue.TypedRateLimiter[reconcile.Request]

	mu      sync.Mutex
	delayed map[reconcile.Request]*delay
}

// delay holds a request until it becomes ready.
type delay struct {
	timer    *time.Timer
	due      time.Time
	priority int
}

var _ priorityqueue.PriorityQueue[reconcile.Request] = &Queue{}

// background is the highest priority of background requests: a manager's first list, and events of all resources of a connection.
const background = handler.LowPriority

// Limits are the maximum numbers of concurrent reconciliations of one namespace: of all its requests, and of its background requests. Each
// is at least one.
type Limits struct{ Namespace, Background int }

// Options returns the options of a controller whose reconciliations take seconds if a broker does not answer. One namespace takes at most
// half of the workers.
func Options(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers, ReconciliationTimeout: trigger.ReconciliationTimeout,
		NewQueue: NewFor(Limits{Namespace: workers / 2, Background: workers / 2}),
	}
}

// NewFor returns a function that makes the queue of a controller. The metrics of the queue have its name. The limiter sets the delays of
// requests that are added with RateLimited.
func NewFor(limits Limits) func(
	name string, limiter workqueue.TypedRateLimiter[reconcile.Request],
) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return func(
		name string, limiter workqueue.TypedRateLimiter[reconcile.Request],
	) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return newQueue(name, limiter, limits)
	}
}

func newQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request], limits Limits) *Queue {
	order := newOrder(Limits{max(limits.Namespace, 1), max(limits.Background, 1)})
	return &Queue{
		TypedInterface: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: order}),
		order:          order, limiter: limiter, delayed: map[reconcile.Request]*delay{},
	}
}

// AddWithOpts adds requests.
func (q *Queue) AddWithOpts(options priorityqueue.AddOpts, requests ...reconcile.Request) {
	priority := 0
	if options.Priority != nil {
		priority = *options.Priority
	}
	for _, request := range requests {
		wait := options.After
		if options.RateLimited {
			if limited := q.limiter.When(request); wait == 0 || limited < wait {
				wait = limited
			}
		}
		q.add(request, priority, wait)
	}
}

func (q *Queue) add(request reconcile.Request, priority int, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.delayed[request]
	if before != nil {
		priority = max(priority, before.priority)
	}
	switch due := time.Now().Add(wait); {
	case wait <= 0:
		q.addNow(request, priority)
	case before == nil && q.order.raiseComing(request, priority):
	case before == nil:
		added := &delay{due: due, priority: priority}
		added.timer = time.AfterFunc(wait, func() { q.end(request, added) })
		q.delayed[request] = added
	default:
		before.priority = priority
		if due.Before(before.due) {
			before.due = due
			before.timer.Reset(wait)
		}
	}
}

// end makes a request ready when its delay is over.
func (q *Queue) end(request reconcile.Request, over *delay) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.delayed[request] == over { // otherwise the request was added without a delay at the same moment
		q.addNow(request, over.priority)
	}
}

// addNow makes a request ready. The caller holds the lock.
func (q *Queue) addNow(request reconcile.Request, priority int) {
	if before := q.delayed[request]; before != nil {
		before.timer.Stop()
		delete(q.delayed, request)
	}
	q.order.raise(request, priority)
	q.TypedInterface.Add(request)
}

// Add adds a request with the default priority.
func (q *Queue) Add(request reconcile.Request) { q.add(request, 0, 0) }

// AddAfter adds a request later.
func (q *Queue) AddAfter(request reconcile.Request, wait time.Duration) { q.add(request, 0, wait) }

// AddRateLimited adds a request that failed.
func (q *Queue) AddRateLimited(request reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, request)
}

// GetWithPriority waits for the next request.
func (q *Queue) GetWithPriority() (request reconcile.Request, priority int, shutdown bool) {
	request, shutdown = q.TypedInterface.Get()
	return request, q.order.priorityOf(request), shutdown
}

// Get is GetWithPriority without the priority.
func (q *Queue) Get() (request reconcile.Request, shutdown bool) {
	request, _, shutdown = q.GetWithPriority()
	return request, shutdown
}

// Done ends the reconciliation of a request.
func (q *Queue) Done(request reconcile.Request) {
	q.order.done(request)
	q.TypedInterface.Done(request)
}

// Forget ends the delays of a request by the limiter.
func (q *Queue) Forget(request reconcile.Request) { q.limiter.Forget(request) }

// NumRequeues counts the failures of a request.
func (q *Queue) NumRequeues(request reconcile.Request) int { return q.limiter.NumRequeues(request) }
