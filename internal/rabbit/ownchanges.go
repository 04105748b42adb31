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
	mu sync.Mutex
	// recent is when such changes began, the oldest first.
	recent  map[changed][]time.Time
	sweptAt time.Time
}

// changed is what was done to an object, or to several bindings that differ in their arguments alone.
type changed struct {
	id   vhost.ID
	kind events.Kind
}

// begin takes note of a change that is about to be made.
func (o *ownChanges) begin(id vhost.ID, kind events.Kind) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.recent == nil {
		o.recent = map[changed][]time.Time{}
	}
	change := changed{id, kind}
	o.recent[change] = append(o.unheard(change), now)
	if now.Sub(o.sweptAt) < ownChangeAge {
		return
	}
	o.sweptAt = now
	for change := range o.recent {
		if len(o.unheard(change)) == 0 {
			delete(o.recent, change)
		}
	}
}

// refused takes note that the broker did not make the change that began last: there will be no event.
func (o *ownChanges) refused(id vhost.ID, kind events.Kind) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change := changed{id, kind}
	if began := o.recent[change]; len(began) > 0 {
		o.recent[change] = began[:len(began)-1]
	}
}

// unheard is when changes began that are remembered.
func (o *ownChanges) unheard(change changed) []time.Time {
	began := o.recent[change]
	for len(began) > 0 && time.Since(began[0]) > ownChangeAge {
		began = began[1:]
	}
	return began
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
	opposite := events.Created
	if kind == events.Created {
		opposite = events.Deleted
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	change := changed{id, kind}
	if own := o.unheard(change); len(own) > 0 {
		o.recent[change] = own[:len(own)-1] // the latest: the oldest may never be announced
		return originOwn
	}
	if len(o.unheard(changed{id, opposite})) > 0 {
		return originUnclear
	}
	return originOther
}
