package rabbit

import (
	"context"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/eventfeed"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// views are a connection's view of its vhost, and while the user's rights or the cluster have changed the next view, which is
// not shown before it has been read: an empty one would pass for an empty vhost.
type views struct {
	observations *Observations
	viewer       viewer
	// listen hears the events of a view until the context ends.
	listen func(ctx context.Context, view *view)
	// lifetime is the connection's, not a call's; stopListening ends the hearing of the current view.
	lifetime      context.Context
	stopListening context.CancelFunc
	listening     sync.WaitGroup

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
		v.listenTo(read)
	}
	v.mu.Unlock()
	if before != nil && before != read {
		v.viewer.notify(snapshot.Notice{Health: true})
	}
}

// listenTo hears the events of another view than before.
func (v *views) listenTo(read *view) {
	if v.stopListening != nil {
		v.stopListening()
	}
	ctx, cancel := context.WithCancel(v.lifetime)
	v.stopListening = cancel
	v.listening.Go(func() { v.listen(ctx, read) })
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

// nextReading is when the vhost may be read again; zero before the first reading.
func (v *views) nextReading(pace pace) time.Time {
	current := v.get()
	if current == nil {
		return time.Time{}
	}
	return current.nextReading(pace)
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

// snapshot shows the snapshot, if there is one; what the snapshot gives out must not be changed.
func (v *views) snapshot(show func(*snapshot.Snapshot)) {
	if current := v.get(); current != nil {
		current.store.View(show)
	}
}

// begin takes note of a change that is about to be made, for its event not to pass for somebody else's change.
func (v *views) begin(id vhost.ID, kind eventfeed.Kind) {
	v.each(func(view *view) { view.own.Begin(id, kind) })
}

// refused takes note that the broker did not make the change that began last.
func (v *views) refused(id vhost.ID, kind eventfeed.Kind) {
	v.each(func(view *view) { view.own.Refused(id, kind) })
}

// takeIgnored reports whether events about one of the queues were left to a deletion, and forgets that.
func (v *views) takeIgnored(queues []string) (some bool) {
	v.each(func(view *view) { some = view.events.TakeIgnored(queues) || some })
	return some
}

// write takes over a change that the broker has confirmed, into the view that is being read for the first time too.
func (v *views) write(change snapshot.Write) {
	v.each(func(view *view) { view.write(change) })
}

// each shows the current view, and the next one.
func (v *views) each(show func(*view)) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, view := range []*view{v.current, v.next} {
		if view != nil {
			show(view)
		}
	}
}
