package rabbit

import (
	"maps"
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
	recent  map[changed]unheard
	sweptAt time.Time
}

// changed is what was done to an object, or to several bindings that differ in their arguments alone.
type changed struct {
	id   vhost.ID
	kind events.Kind
}

// unheard is how many of such changes have not been heard, and when the last one was made.
type unheard struct {
	count int
	at    time.Time
}

func (u unheard) isRecent() bool { return u.count > 0 && time.Since(u.at) <= ownChangeAge }

// begin takes note of a change that is about to be made.
func (o *ownChanges) begin(id vhost.ID, kind events.Kind) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.recent == nil {
		o.recent = map[changed]unheard{}
	}
	count := 1
	if before := o.recent[changed{id, kind}]; before.isRecent() {
		count += before.count
	}
	o.recent[changed{id, kind}] = unheard{count, now}
	if now.Sub(o.sweptAt) < ownChangeAge {
		return
	}
	o.sweptAt = now
	maps.DeleteFunc(o.recent, func(_ changed, change unheard) bool { return !change.isRecent() })
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
	opposite := map[events.Kind]events.Kind{events.Created: events.Deleted, events.Deleted: events.Created}
	o.mu.Lock()
	defer o.mu.Unlock()
	own, contrary := o.recent[changed{id, kind}], o.recent[changed{id, opposite[kind]}]
	switch {
	case own.isRecent():
		own.count--
		o.recent[changed{id, kind}] = own
		return originOwn
	case contrary.isRecent():
		return originUnclear
	}
	return originOther
}
