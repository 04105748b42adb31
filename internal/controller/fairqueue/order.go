package fairqueue

import (
	"container/heap"
	"container/list"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// order is the storage of a workqueue. Pop serves namespaces round-robin. Within a namespace, Pop takes the request with the highest
// priority, and the oldest among equal priorities. An order is safe for concurrent use.
type order struct {
	limits Limits

	mu sync.Mutex
	// ready are the requests that were pushed and not popped.
	ready map[reconcile.Request]*entry
	// namespaces are the namespaces with ready or popped requests; rotation has them in the order in which Pop serves them.
	namespaces map[string]*namespace
	rotation   *list.List
	// priorities are the priorities of requests that are about to be pushed.
	priorities map[reconcile.Request]int
	// popped are the priorities of requests that are not done.
	popped map[reconcile.Request]int
	pushed uint64
}

type namespace struct {
	ready      byPriority
	popped     int
	background int           // popped requests with a background priority
	element    *list.Element // in order.rotation
}

type entry struct {
	request  reconcile.Request
	priority int
	number   uint64 // rises with each push
	index    int    // in its namespace
}

func (e *entry) isBackground() bool { return isBackground(e.priority) }

// isBackground reports whether a request with this priority may be one of thousands.
func isBackground(priority int) bool { return priority <= background }

func newOrder(limits Limits) *order {
	return &order{
		limits: limits,
		ready:  map[reconcile.Request]*entry{}, namespaces: map[string]*namespace{}, rotation: list.New(),
		priorities: map[reconcile.Request]int{}, popped: map[reconcile.Request]int{},
	}
}

// raise sets the priority of a request: now if the request is ready, and otherwise when it is pushed. The highest priority counts.
func (o *order) raise(request reconcile.Request, priority int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.setPriority(request, priority)
}

// setPriority is raise for a caller that holds the lock.
func (o *order) setPriority(request reconcile.Request, priority int) {
	if found := o.ready[request]; found != nil {
		if priority > found.priority {
			o.pushed++
			found.priority, found.number = priority, o.pushed
			heap.Fix(&o.namespaces[request.Namespace].ready, found.index)
		}
		return
	}
	if known, exists := o.priorities[request]; !exists || priority > known {
		o.priorities[request] = priority
	}
}

// raiseComing is raise for a request that is ready, or becomes ready when its reconciliation ends. It returns false for any other
// request.
func (o *order) raiseComing(request reconcile.Request, priority int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, raised := o.priorities[request]; !raised && o.ready[request] == nil {
		return false
	}
	o.setPriority(request, priority)
	return true
}

// Push adds a request with the priority that raise has set.
func (o *order) Push(request reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pushed++
	added := &entry{request: request, priority: o.priorities[request], number: o.pushed}
	delete(o.priorities, request)
	o.ready[request] = added
	of := o.namespaces[request.Namespace]
	if of == nil {
		of = &namespace{}
		of.element = o.rotation.PushBack(of)
		o.namespaces[request.Namespace] = of
	}
	heap.Push(&of.ready, added)
}

// Pop removes the next request. Len must not be zero.
func (o *order) Pop() reconcile.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.next()
	o.rotation.MoveToBack(of.element)
	next := heap.Pop(&of.ready).(*entry)
	of.popped++
	if next.isBackground() {
		of.background++
	}
	delete(o.ready, next.request)
	o.popped[next.request] = next.priority
	return next.request
}

// next returns the namespace to serve next; nil if no request may be popped. Each namespace that it skips has a request that is not
// done, so it skips at most as many namespaces as there are workers.
func (o *order) next() *namespace {
	for element := o.rotation.Front(); element != nil; element = element.Next() {
		of := element.Value.(*namespace)
		if len(of.ready) == 0 || of.popped >= o.limits.Namespace {
			continue
		}
		if !of.ready[0].isBackground() || of.background < o.limits.Background {
			return of
		}
	}
	return nil
}

// priorityOf returns the priority of a popped request that is not done.
func (o *order) priorityOf(request reconcile.Request) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.popped[request]
}

func (o *order) done(request reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.namespaces[request.Namespace]
	of.popped--
	if isBackground(o.popped[request]) {
		of.background--
	}
	delete(o.popped, request)
	if of.popped == 0 && len(of.ready) == 0 {
		o.rotation.Remove(of.element)
		delete(o.namespaces, request.Namespace)
	}
}

// Len returns how many requests are ready; zero if no request may be popped.
func (o *order) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next() == nil {
		return 0
	}
	return len(o.ready)
}

// Touch does nothing, because raise has already set the priority.
func (o *order) Touch(reconcile.Request) {}

// byPriority is a heap of the ready requests of a namespace.
type byPriority []*entry

func (b byPriority) Len() int { return len(b) }

func (b byPriority) Less(i, j int) bool {
	if b[i].priority != b[j].priority {
		return b[i].priority > b[j].priority
	}
	return b[i].number < b[j].number
}

func (b byPriority) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].index, b[j].index = i, j
}

// Push implements heap.Interface.
func (b *byPriority) Push(added any) {
	one := added.(*entry)
	one.index = len(*b)
	*b = append(*b, one)
}

// Pop implements heap.Interface.
func (b *byPriority) Pop() any {
	last := len(*b) - 1
	removed := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	return removed
}
