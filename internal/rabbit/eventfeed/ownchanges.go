package eventfeed

import (
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/vhost"
)

// The broker also announces the changes of this process. Their events can arrive before the broker's answer, or long after it. For example,
// an event that a queue was deleted may be older than the declaration that followed. OwnChanges therefore remembers the changes of this
// process for some time, or until their events arrive, and compares each event with them.

// ownChangeAge is how long a change without an event is remembered. RabbitMQ does not announce a change that has no effect.
const ownChangeAge = 10 * time.Second

// OwnChanges are the changes of this process to a vhost whose events have not arrived. The zero value is ready to use.
type OwnChanges struct {
	mu sync.Mutex
	// recent has the times at which these changes began, the oldest first.
	recent  map[changed][]time.Time
	sweptAt time.Time
}

// changed identifies a kind of change of an object, or of bindings that differ only in their arguments.
type changed struct {
	id   vhost.ID
	kind Kind
}

// Begin records a change that is about to be made.
func (o *OwnChanges) Begin(id vhost.ID, kind Kind) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.recent == nil {
		o.recent = map[changed][]time.Time{}
	}
	change := changed{id, kind}
	o.recent[change] = append(o.pending(change), now)
	if now.Sub(o.sweptAt) < ownChangeAge {
		return
	}
	o.sweptAt = now
	for change := range o.recent {
		if len(o.pending(change)) == 0 {
			delete(o.recent, change)
		}
	}
}

// Refused records that the broker did not make the last change, so there will be no event.
func (o *OwnChanges) Refused(id vhost.ID, kind Kind) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change := changed{id, kind}
	if began := o.recent[change]; len(began) > 0 {
		o.recent[change] = began[:len(began)-1]
	}
}

// pending returns when the remembered changes began that no event has announced.
func (o *OwnChanges) pending(change changed) []time.Time {
	began := o.recent[change]
	for len(began) > 0 && time.Since(began[0]) > ownChangeAge {
		began = began[1:]
	}
	return began
}

// Origin is whose change an event announces.
type Origin int

// The values of Origin.
const (
	OriginOther   Origin = iota // of another client
	OriginOwn                   // of this process
	OriginUnclear               // it may be older than a change of this process
)

// Receive compares an event with the changes of this process.
func (o *OwnChanges) Receive(id vhost.ID, kind Kind) Origin {
	opposite := Created
	if kind == Created {
		opposite = Deleted
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	change := changed{id, kind}
	if own := o.pending(change); len(own) > 0 {
		o.recent[change] = own[:len(own)-1] // the latest, because the oldest may never be announced
		return OriginOwn
	}
	if len(o.pending(changed{id, opposite})) > 0 {
		return OriginUnclear
	}
	return OriginOther
}
