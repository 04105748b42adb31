package observe

import (
	"context"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/eventfeed"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/vhost"
)

// views are a connection's view of its vhost, and the next view after the user's rights or the cluster have changed. The next view
// is shown only after it has been read, because an unread view looks like an empty vhost.
type views struct {
	observations *Observations
	viewer       viewer
	// listen receives the events of a view until the context ends.
	listen func(ctx context.Context, view *view)
	// lifetime ends with the connection. stopListening ends the subscription of the current view.
	lifetime      context.Context
	stopListening context.CancelFunc
	listening     sync.WaitGroup

	mu      sync.RWMutex
	current *view // nil before the first read
	next    *view // nil if there is none
	closed  bool
}

// newViews returns the views of a connection, which is without a view at first. listen receives the events of a view until the context
// ends.
func newViews(lifetime context.Context, settings Settings, listen func(ctx context.Context, view *view)) *views {
	return &views{
		observations: settings.Observations, lifetime: lifetime, listen: listen,
		viewer: viewer{
			notify: settings.Notify, isDeleting: settings.IsDeleting, bindingWait: settings.Timeouts.Binding,
			silences: retry.Backoff{First: settings.Timeouts.Silence, Limit: settings.Timeouts.LastListen},
		},
	}
}

// prepare returns the view to read for a connection with this key. moving reports whether another view is shown until then.
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

// show makes a view current after it has been read. Its notice concerns all objects, because any object may differ in another view.
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

// listenTo subscribes to the events of another view.
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

// Close frees the memory. Callers can still read the objects that they have observed.
func (v *views) Close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.closed {
		v.drop(v.current)
		v.drop(v.next)
		v.closed = true
	}
}

// get returns the current view; nil before the first read.
func (v *views) get() *view {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.current
}

// nextRefresh returns when the vhost may be read again; zero before the first read.
func (v *views) nextRefresh(pace timing.Pace) time.Time {
	current := v.get()
	if current == nil {
		return time.Time{}
	}
	return current.nextRefresh(pace)
}

// Observe returns the selected objects of the vhost; false before the first read.
func (v *views) Observe(selection vhost.Selection) (vhost.Observed, bool) {
	current := v.get()
	if current == nil {
		return vhost.Observed{}, false
	}
	observed, read := current.store.Observe(selection)
	current.members.observe(selection, &observed)
	return observed, read
}

// View calls show with the snapshot, if there is one. show must not change the snapshot.
func (v *views) View(show func(*snapshot.Snapshot)) {
	if current := v.get(); current != nil {
		current.store.View(show)
	}
}

// Begin records a change that is about to be made, so that its event does not count as a change by another client.
func (v *views) Begin(id vhost.ID, kind eventfeed.Kind) {
	v.each(func(view *view) { view.own.Begin(id, kind) })
}

// Refused records that the broker did not make the last change.
func (v *views) Refused(id vhost.ID, kind eventfeed.Kind) {
	v.each(func(view *view) { view.own.Refused(id, kind) })
}

// TakeIgnored reports whether events about one of the queues were ignored because of a deletion, and removes that record.
func (v *views) TakeIgnored(queues []string) (some bool) {
	v.each(func(view *view) { some = view.events.TakeIgnored(queues) || some })
	return some
}

// Write applies a confirmed change to the snapshots of the current view and of the next one.
func (v *views) Write(change snapshot.Write) {
	v.each(func(view *view) { view.write(change) })
}

// each calls show with the current view and the next one.
func (v *views) each(show func(*view)) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, view := range []*view{v.current, v.next} {
		if view != nil {
			show(view)
		}
	}
}
