package brokers

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/metrics"
)

const (
	// LimiterRetry is how soon a resource tries again for a slot if the Limiter has not enqueued it.
	LimiterRetry = 30 * time.Second
	// slowAfter is the duration of a reconciliation from which its lane counts as slow. A healthy broker answers all requests of a
	// reconciliation in less time.
	slowAfter = 5 * time.Second
	// slowFor is how long a lane stays slow after a reconciliation that took longer than slowAfter.
	slowFor = time.Minute
)

// Limiter gives slots to reconciliations that wait for a broker. A worker never blocks on a slot, so workers remain for other
// resources while brokers do not answer. Three limits hold:
//
//   - A broker, by its endpoint, has at most half of the slots, because a hundred namespaces may have BrokerConnections to it.
//   - A namespace has at most as many slots as are free, because one tenant may have BrokerConnections to a hundred brokers. So a
//     namespace has at most half of the slots, and one slot is always free.
//   - All slow lanes together have at most a quarter of the slots, because the brokers of a hundred tenants may not answer.
//
// A free slot goes to the namespace with the fewest slots.
type Limiter struct {
	// workers is the number of slots. One broker has at most maxBroker of them, all slow lanes together maxSlow.
	workers, maxBroker, maxSlow int
	// enqueue enqueues a resource that was offered a slot.
	enqueue func(client.ObjectKey)

	mu    sync.Mutex
	lanes map[laneKey]*lane
	// offered maps enqueued resources to the slots reserved for them.
	offered map[client.ObjectKey]offer
	grants  uint64
}

// laneKey names the resources of one namespace at one broker.
type laneKey struct{ endpoint, namespace string }

// lane has the slots of the resources of one namespace at one broker, and the resources that wait.
type lane struct {
	laneKey

	taken   int // slots that are in use or offered
	waiting []waiter
	// granted is the number of the last slot that a waiting resource was given.
	granted   uint64
	slowUntil time.Time
}

type waiter struct {
	resource client.ObjectKey
	since    time.Time
}

// offer is a slot that is reserved for a resource.
type offer struct {
	laneKey

	since time.Time // when the resource began to wait
}

// NewLimiter returns a Limiter for a number of workers.
func NewLimiter(workers int, enqueue func(client.ObjectKey)) *Limiter {
	return &Limiter{
		workers: workers, maxBroker: max(workers/2, 1), maxSlow: max(workers/4, 1),
		enqueue: enqueue, lanes: map[laneKey]*lane{}, offered: map[client.ObjectKey]offer{},
	}
}

// TryAcquire gives a resource a slot at a broker; the returned function releases it. If it returns false, the Limiter enqueues the
// resource when it can offer a slot.
func (l *Limiter) TryAcquire(endpoint string, resource client.ObjectKey) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key, now := laneKey{endpoint, resource.Namespace}, time.Now()
	wait, has := l.takeOffer(resource, key, now)
	of := l.lane(key)
	if !has {
		if !l.fits(of, l.count(now), now) {
			of.await(waiter{resource, now})
			return nil, false
		}
		of.taken++
	}
	metrics.LimiterWaits.Observe(wait)
	return func() { l.release(of, time.Since(now)) }, true
}

// takeOffer takes the slot that was offered to a resource, and returns for how long the resource waited; false if there is none.
// It withdraws an offer at another broker.
func (l *Limiter) takeOffer(resource client.ObjectKey, key laneKey, now time.Time) (wait time.Duration, has bool) {
	if offer, offered := l.offered[resource]; offered && offer.laneKey == key {
		delete(l.offered, resource)
		return now.Sub(offer.since), true
	}
	l.endOffer(resource)
	return 0, false
}

// endOffer withdraws the slot that was offered to a resource, if there is one.
func (l *Limiter) endOffer(resource client.ObjectKey) {
	if offer, offered := l.offered[resource]; offered {
		delete(l.offered, resource)
		l.lanes[offer.laneKey].taken--
		l.offer()
	}
}

// Decline withdraws the slot that a resource was offered and does not need. Call it at the end of each reconciliation that does not
// wait for a slot.
func (l *Limiter) Decline(resource client.ObjectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endOffer(resource)
}

// release releases a slot that was used for the given time.
func (l *Limiter) release(from *lane, used time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from.taken--
	from.slowUntil = time.Time{}
	if used > slowAfter {
		from.slowUntil = time.Now().Add(slowFor)
	}
	l.offer()
}

func (l *Limiter) lane(key laneKey) *lane {
	found := l.lanes[key]
	if found == nil {
		found = &lane{laneKey: key}
		l.lanes[key] = found
	}
	return found
}

func (l *lane) await(w waiter) {
	if !slices.ContainsFunc(l.waiting, func(other waiter) bool { return other.resource == w.resource }) {
		l.waiting = append(l.waiting, w)
	}
}

func (l *lane) isSlow(now time.Time) bool { return now.Before(l.slowUntil) }

type usage struct {
	all, slow           int
	brokers, namespaces map[string]int
}

func (l *Limiter) count(now time.Time) usage {
	taken := usage{brokers: map[string]int{}, namespaces: map[string]int{}}
	for _, of := range l.lanes {
		taken.all += of.taken
		taken.brokers[of.endpoint] += of.taken
		taken.namespaces[of.namespace] += of.taken
		if of.isSlow(now) {
			taken.slow += of.taken
		}
	}
	return taken
}

// fits reports whether a lane may have one more slot.
func (l *Limiter) fits(of *lane, taken usage, now time.Time) bool {
	left := l.workers - taken.all - 1
	return (taken.namespaces[of.namespace] < left || taken.all == 0) && taken.brokers[of.endpoint] < l.maxBroker &&
		(taken.slow < l.maxSlow || !of.isSlow(now))
}

// offer offers free slots to waiting resources, and forgets lanes that need no record.
func (l *Limiter) offer() {
	now := time.Now()
	for {
		next := l.next(now)
		if next == nil {
			break
		}
		first := next.waiting[0]
		next.waiting = next.waiting[1:]
		next.taken++
		l.grants++
		next.granted = l.grants
		l.offered[first.resource] = offer{next.laneKey, first.since}
		go l.enqueue(first.resource) // enqueue waits for the controller
	}
	for key, of := range l.lanes {
		if of.taken == 0 && len(of.waiting) == 0 && !of.isSlow(now) {
			delete(l.lanes, key)
		}
	}
}

// next returns the lane that gets the next slot: a lane of the namespace with the fewest slots, then the lane that waited
// longest. It returns nil if no resource can have one.
func (l *Limiter) next(now time.Time) *lane {
	taken := l.count(now)
	var best *lane
	for _, of := range l.lanes {
		if len(of.waiting) == 0 || !l.fits(of, taken, now) {
			continue
		}
		if best == nil || cmp.Or(
			cmp.Compare(taken.namespaces[of.namespace], taken.namespaces[best.namespace]),
			cmp.Compare(of.granted, best.granted), of.waiting[0].since.Compare(best.waiting[0].since),
		) < 0 {
			best = of
		}
	}
	return best
}

// EmitMetrics emits how many resources wait.
func (l *Limiter) EmitMetrics(emit metrics.Emit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := 0
	for _, of := range l.lanes {
		waiting += len(of.waiting)
	}
	metrics.LimiterWaiting.Emit(emit, float64(waiting))
}
