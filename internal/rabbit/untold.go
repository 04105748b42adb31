package rabbit

import (
	"maps"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/events"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// A queue or exchange that is deleted takes its bindings with it. RabbitMQ announces the bindings first, and the queue up to 70 ms
// later. Whoever were told of the bindings at once would bind them again, to a queue that is about to go: RabbitMQ answers that there
// is no such queue, and 4.3.6 has been seen to close the connection instead. So a binding that somebody deleted is not told of
// before its queue or exchange is heard to be gone as well, or stays for a moment.

// untold is what others have changed, and no connection has been told of yet. The zero value is ready to use.
type untold struct {
	mu      sync.Mutex
	notices []snapshot.Notice
	// deleted are the ends of bindings that were deleted. Both ends are there, as far as events have told.
	deleted map[bindingEnds]bool
	// overdue fires when the bindings are told of whose ends stay; nil while nothing waits.
	overdue *time.Timer
}

// bindingEnds are what a binding binds.
type bindingEnds struct {
	source, destination string
	toExchange          bool
}

// include says whether an object is one of the ends.
func (e bindingEnds) include(id vhost.ID) bool {
	if id.Kind == vhost.KindQueue {
		return !e.toExchange && e.destination == id.Name
	}
	return e.source == id.Name || e.toExchange && e.destination == id.Name
}

// add takes note of a change, and of whom it concerns; nobody if the notice is empty.
func (u *untold) add(change events.Change, concerned snapshot.Notice) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !concerned.Empty() {
		u.notices = append(u.notices, concerned)
	}
	switch {
	case change.Kind != events.Deleted:
	case change.ID.Kind != vhost.KindBinding:
		maps.DeleteFunc(u.deleted, func(ends bindingEnds, _ bool) bool { return ends.include(change.ID) })
	case !concerned.Empty():
		if u.deleted == nil {
			u.deleted = map[bindingEnds]bool{}
		}
		u.deleted[bindingEnds{change.Binding.Source, change.Binding.Destination, change.Binding.ToExchange}] = true
	}
}

// take returns all that may be told now. If something has to wait, everything waits, for a time at most, and tell is called when that
// is over.
func (u *untold) take(patience time.Duration, tell func()) snapshot.Notice {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.deleted) == 0 {
		return u.clear()
	}
	if u.overdue == nil {
		u.overdue = time.AfterFunc(patience, tell)
	}
	return snapshot.Notice{}
}

// takeAll returns everything.
func (u *untold) takeAll() snapshot.Notice {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.clear()
}

func (u *untold) clear() snapshot.Notice {
	if u.overdue != nil {
		u.overdue.Stop()
	}
	all := snapshot.Merge(u.notices)
	u.notices, u.deleted, u.overdue = nil, nil, nil
	return all
}
