package observe

import (
	"time"

	"github.com/warren-mq/warren/internal/rabbit/eventfeed"
)

// RefusedPause is how long a broker is not asked again about the consumers of a queue after a refusal.
const RefusedPause = refusedPause

// SharesWith reports whether two Observers have one observation.
func (o *Observer) SharesWith(other *Observer) bool {
	return o.get().observation == other.get().observation
}

// IsShared reports whether other Observers may use the observation.
func (o *Observer) IsShared() bool { return o.get().key.isShared() }

// LastRead returns when the last read of the vhost began.
func (o *Observer) LastRead() time.Time { return o.get().lastRead() }

// Feed returns the event feed of the vhost.
func (o *Observer) Feed() *eventfeed.Feed { return &o.get().events }

// AwaitMarker reports whether events will show when the snapshot is current.
func (o *Observer) AwaitMarker() bool { return o.awaitMarker(func(bool) {}) }

// NextCountOfConsumers returns when a broker is asked again that refused to count the consumers of a queue.
func (o *Observer) NextCountOfConsumers(queue string) time.Time {
	known := &o.get().consumers
	known.mu.Lock()
	defer known.mu.Unlock()
	return known.of[queue].notBefore
}

// Shared returns how many observations are shared.
func (o *Observations) Shared() int { return len(o.shared) }
