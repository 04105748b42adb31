package rabbit

import (
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/events"
	"github.com/warren-mq/warren/internal/vhost"
)

// A change that a connection of this process makes is announced like any other. The event can be heard before the broker's answer
// to the change, and long after: an event that a queue was deleted may be older than the queue that was declared since. So
// changes of our own are remembered until they have been heard, or for a time, and an event is compared with them.

// ownChangeAge is how long a change is remembered that is not heard. One that changes nothing is not announced.
const ownChangeAge = 10 * time.Second

// ownChanges are the changes of this process to a vhost whose events have not been heard. The zero value is ready to use.
type ownChanges struct {
	mu      sync.Mutex
	recent  map[vhost.ID]ownChange
	sweptAt time.Time
}

// ownChange is the last change of an object, or of several bindings that differ in their arguments alone.
type ownChange struct {
	kind  events.Kind
	at    time.Time
	count int // that have not been heard
}

// begin takes note of a change that is about to be made.
func (o *ownChanges) begin(id vhost.ID, kind events.Kind) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.recent == nil {
		o.recent = map[vhost.ID]ownChange{}
	}
	count := 1
	if before := o.recent[id]; before.kind == kind {
		count += before.count
	}
	o.recent[id] = ownChange{kind, now, count}
	if now.Sub(o.sweptAt) < ownChangeAge {
		return
	}
	o.sweptAt = now
	for id, change := range o.recent {
		if now.Sub(change.at) > ownChangeAge {
			delete(o.recent, id)
		}
	}
}

// origin says whose change an event announces.
type origin int

const (
	originOther   origin = iota // somebody else's
	originOwn                   // our own
	originUnclear               // it may be older than a change of our own
)

// hear compares an event with our own changes.
func (o *ownChanges) hear(id vhost.ID, kind events.Kind) origin {
	o.mu.Lock()
	defer o.mu.Unlock()
	change, known := o.recent[id]
	switch {
	case !known || time.Since(change.at) > ownChangeAge:
		return originOther
	case change.kind != kind:
		return originUnclear
	}
	if change.count--; change.count > 0 {
		o.recent[id] = change
	} else {
		delete(o.recent, id)
	}
	return originOwn
}
