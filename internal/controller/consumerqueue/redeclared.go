package consumerqueue

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/vhost"
)

// An object that other clients delete maxRedeclared times within redeclaredWithin is declared once per redeclareAgain, until no client has
// deleted it for redeclaredWithin. Under load, RabbitMQ can leave a quorum queue partly created, so each additional declaration is a risk.
const (
	maxRedeclared    = 3
	redeclaredWithin = 10 * time.Minute
	redeclareAgain   = 5 * time.Minute
	// lateEvents is how long after the deletion of a queue or exchange the event of one of its bindings may arrive. A broker that
	// is not busy sends all of them within 70 ms; see ADR 0025.
	lateEvents = 30 * time.Second
)

// redeclared records when deleted objects were declared again. A restart forgets it. An entry starts anew if the object existed for
// redeclaredWithin before it was deleted again. It is removed with its ConsumerQueue.
type redeclared struct {
	clock clock.PassiveClock

	mu sync.Mutex
	of map[client.ObjectKey]map[vhost.ID]redeclarations
}

type redeclarations struct {
	last    []time.Time // up to maxRedeclared, the oldest first
	limited bool
}

func newRedeclared(c clock.PassiveClock) *redeclared {
	return &redeclared{clock: c, of: map[client.ObjectKey]map[vhost.ID]redeclarations{}}
}

// postponed returns which objects of a resource may not be declared again yet, and how soon the first of them may be.
func (r *redeclared) postponed(resource client.ObjectKey, missing []vhost.ID) (objects vhost.IDs, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range missing {
		left := r.of[resource][id].wait(r.clock)
		if left <= 0 {
			continue
		}
		if objects == nil {
			objects, wait = vhost.IDs{}, left
		}
		objects[id], wait = true, min(wait, left)
	}
	return objects, wait
}

// wait returns for how long an object may not be declared again.
func (d redeclarations) wait(c clock.PassiveClock) time.Duration {
	if !d.limited {
		return 0
	}
	return redeclareAgain - c.Since(d.last[len(d.last)-1])
}

// record records objects that were declared again. It leaves out a binding whose queue or exchange was recorded within lateEvents:
// the deletion of the queue or exchange deleted the binding, too.
func (r *redeclared) record(resource client.ObjectKey, objects []vhost.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(objects) > 0 && r.of[resource] == nil {
		r.of[resource] = map[vhost.ID]redeclarations{}
	}
	now, of := r.clock.Now(), r.of[resource]
	var bindings []vhost.ID
	for _, id := range objects {
		if id.Kind == vhost.KindBinding {
			bindings = append(bindings, id)
		} else {
			of[id] = of[id].with(now)
		}
	}
	for _, id := range bindings {
		if !of[vhost.ExchangeID(id.Source)].isRecent(now) && !of[vhost.QueueID(id.Destination)].isRecent(now) {
			of[id] = of[id].with(now)
		}
	}
}

// isRecent reports whether an event of the last deletion may still arrive.
func (d redeclarations) isRecent(now time.Time) bool {
	return len(d.last) > 0 && now.Sub(d.last[len(d.last)-1]) < lateEvents
}

func (d redeclarations) with(now time.Time) redeclarations {
	if len(d.last) > 0 && now.Sub(d.last[len(d.last)-1]) >= redeclaredWithin {
		d = redeclarations{}
	}
	d.last = append(d.last, now)
	if len(d.last) > maxRedeclared {
		d.last = d.last[1:]
	}
	d.limited = d.limited || len(d.last) == maxRedeclared && now.Sub(d.last[0]) <= redeclaredWithin
	return d
}

func (r *redeclared) forget(resource client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, resource)
}
