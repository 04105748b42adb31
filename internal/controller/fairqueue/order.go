package fairqueue

import (
	"container/heap"
	"container/list"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// order is the storage of a workqueue. Pop takes one request of each namespace in turn. Of a namespace it takes the request with the
// highest priority, and among equals the one that was pushed first. Its methods may be called at the same time.
type order struct {
	mu sync.Mutex
	// ready are the requests that were pushed and not popped.
	ready map[reconcile.Request]*entry
	// namespaces have a ready request each; the first one is served next.
	namespaces *list.List
	elements   map[string]*list.Element
	// priorities are those of requests that are about to be pushed.
	priorities map[reconcile.Request]int
	// popped are the priorities of requests whose priority was not asked for yet.
	popped map[reconcile.Request]int
	pushed uint64
}

// entry is a ready request.
type entry struct {
	request  reconcile.Request
	priority int
	number   uint64 // rises with each push
	index    int    // in its namespace
}

func newOrder() *order {
	return &order{
		ready: map[reconcile.Request]*entry{}, namespaces: list.New(), elements: map[string]*list.Element{},
		priorities: map[reconcile.Request]int{}, popped: map[reconcile.Request]int{},
	}
}

// raise gives a request a priority, now if the request is ready, and otherwise when it is pushed. The highest one counts.
func (o *order) raise(request reconcile.Request, priority int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if found := o.ready[request]; found != nil {
		if priority > found.priority {
			o.pushed++
			found.priority, found.number = priority, o.pushed
			heap.Fix(o.of(request.Namespace), found.index)
		}
		return
	}
	if known, exists := o.priorities[request]; !exists || priority > known {
		o.priorities[request] = priority
	}
}

// isComing reports whether a request is ready, or will be once its reconciliation has ended.
func (o *order) isComing(request reconcile.Request) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, raised := o.priorities[request]
	return raised || o.ready[request] != nil
}

// Push adds a request with the priority that it was given before.
func (o *order) Push(request reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pushed++
	added := &entry{request: request, priority: o.priorities[request], number: o.pushed}
	delete(o.priorities, request)
	o.ready[request] = added
	if o.elements[request.Namespace] == nil {
		o.elements[request.Namespace] = o.namespaces.PushBack(&byPriority{})
	}
	heap.Push(o.of(request.Namespace), added)
}

// Pop removes the next request. There must be one.
func (o *order) Pop() reconcile.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	element := o.namespaces.Front()
	entries := element.Value.(*byPriority)
	next := heap.Pop(entries).(*entry)
	if entries.Len() > 0 {
		o.namespaces.MoveToBack(element)
	} else {
		o.namespaces.Remove(element)
		delete(o.elements, next.request.Namespace)
	}
	delete(o.ready, next.request)
	o.popped[next.request] = next.priority
	return next.request
}

// takePriority returns the priority with which a request was popped.
func (o *order) takePriority(request reconcile.Request) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	priority := o.popped[request]
	delete(o.popped, request)
	return priority
}

// Len counts the requests that are ready.
func (o *order) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.ready)
}

// Touch does nothing: raise has done it.
func (o *order) Touch(reconcile.Request) {}

func (o *order) of(namespace string) *byPriority { return o.elements[namespace].Value.(*byPriority) }

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

// Push is for package heap.
func (b *byPriority) Push(added any) {
	one := added.(*entry)
	one.index = len(*b)
	*b = append(*b, one)
}

// Pop is for package heap.
func (b *byPriority) Pop() any {
	last := len(*b) - 1
	removed := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	return removed
}
