package rabbit

import (
	"sync"

	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// views are a connection's view of its vhost, and while the user's rights or the cluster have changed the next view, which is
// not shown before it has been read: an empty one would pass for an empty vhost.
type views struct {
	observations *Observations
	viewer       viewer

	mu      sync.RWMutex
	current *view // nil before the first reading
	next    *view // nil if there is none
	closed  bool
}

// prepare returns the view to read, for a connection that may read this. moving says that another view is shown so far.
func (v *views) prepare(key observationKey) (read *view, moving bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	moving = v.current != nil
	if moving && v.current.key == key {
		v.drop(v.next)
		v.next = nil
		return v.current, false
	}
	if v.next != nil && v.next.key == key {
		return v.next, moving
	}
	v.drop(v.next)
	v.next = v.observations.open(key, v.viewer)
	return v.next, moving
}

// show makes a view that has been read the current one. In another view everything may differ.
func (v *views) show(read *view) {
	v.mu.Lock()
	before := v.current
	if read != before {
		v.drop(before)
		v.current, v.next = read, nil
	}
	v.mu.Unlock()
	if before != nil && before != read {
		v.viewer.notify(snapshot.Notice{Health: true})
	}
}

func (v *views) drop(view *view) {
	if view != nil {
		v.observations.close(view)
	}
}

// close gives back the memory. What was observed can still be read.
func (v *views) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.closed {
		v.drop(v.current)
		v.drop(v.next)
		v.closed = true
	}
}

// get returns the current view, nil before the first reading.
func (v *views) get() *view {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.current
}

// observe returns what the vhost has of a selection; false before the first reading.
func (v *views) observe(selection vhost.Selection) (vhost.Observed, bool) {
	current := v.get()
	if current == nil {
		return vhost.Observed{}, false
	}
	observed, read := current.store.Observe(selection)
	current.members.observe(selection, &observed)
	return observed, read
}

// show shows the snapshot, if there is one; what it gives out must not be changed.
func (v *views) snapshot(show func(*snapshot.Snapshot)) {
	if current := v.get(); current != nil {
		current.store.View(show)
	}
}

// write takes over a change that the broker has confirmed, into the view that is being read for the first time too.
func (v *views) write(change snapshot.Write) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, view := range []*view{v.current, v.next} {
		if view != nil {
			view.write(change)
		}
	}
}
