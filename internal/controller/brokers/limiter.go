package brokers

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/metrics"
)

// ErrBusy ends the reconciliation of a resource that has to wait for a slot.
var ErrBusy = errors.New("others are waiting for the same broker")

const (
	// LimiterRetry is after what time a resource that was not woken tries again. Thousands may wait, and be woken, before that.
	LimiterRetry = 30 * time.Second
	// slowAfter makes a lane slow: a broker that works answers everything that one reconciliation asks of it in less time.
	slowAfter = 5 * time.Second
	// slowFor is how long a lane stays slow after a reconciliation that took longer than slowAfter.
	slowFor = time.Minute
)

// Limiter gives slots to resources whose reconciliation waits for a broker. A worker without a slot never waits for one, so brokers
// that do not answer leave workers to the resources of others. The slots are limited in three ways:
//
//   - A broker has at most half of them, by its endpoint: a hundred namespaces may have a BrokerConnection each to one broker.
//   - A namespace never has more than are then left for others: one tenant may have BrokerConnections to a hundred brokers. So one
//     namespace has at most half of the slots, and one slot is always free.
//   - All lanes that were slow last have at most a quarter together: a hundred tenants may have a broker each that does not answer.
//
// A free slot goes to the namespace that has the fewest.
type Limiter struct {
	// workers is the number of slots; of them, maxBroker are of one broker, and maxSlow of all slow lanes.
	workers, maxBroker, maxSlow int
	// wake enqueues a resource that was given a slot.
	wake func(client.ObjectKey)

	mu    sync.Mutex
	lanes map[laneKey]*lane
	// offered are slots of resources that were woken.
	offered map[client.ObjectKey]offer
	grants  uint64
}

// laneKey names the resources of one namespace at one broker.
type laneKey struct{ endpoint, namespace string }

// lane has the slots of the resources of one namespace at one broker, and those that wait for one.
type lane struct {
	laneKey

	taken   int // slots that are in use or offered
	waiting []waiter
	// granted is the number of the last slot that a waiting resource was given.
	granted   uint64
	slowUntil time.Time
}

// waiter is a resource that waits for a slot.
type waiter struct {
	resource client.ObjectKey
	since    time.Time
}

// offer is a slot that is kept for a resource.
type offer struct {
	laneKey

	since time.Time // when the resource began to wait
}

// NewLimiter makes a Limiter for a number of workers.
func NewLimiter(workers int, wake func(client.ObjectKey)) *Limiter {
	return &Limiter{
		workers: workers, maxBroker: max(workers/2, 1), maxSlow: max(workers/4, 1),
		wake: wake, lanes: map[laneKey]*lane{}, offered: map[client.ObjectKey]offer{},
	}
}

// TryAcquire gives a resource a slot at a broker, which the returned function gives back. If it returns false, the resource is woken
// when there is a slot for it.
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

// takeOffer returns for how long a resource waited for the slot that it was offered; false if there is none. An offer at another broker
// ends.
func (l *Limiter) takeOffer(resource client.ObjectKey, key laneKey, now time.Time) (wait time.Duration, has bool) {
	offer, offered := l.offered[resource]
	if !offered {
		return 0, false
	}
	delete(l.offered, resource)
	if offer.laneKey == key {
		return now.Sub(offer.since), true
	}
	l.lanes[offer.laneKey].taken--
	l.offer()
	return 0, false
}

// Pass gives back the slot that a resource was offered and does not need. It is for the end of a reconciliation that was not ended by
// ErrBusy.
func (l *Limiter) Pass(resource client.ObjectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offer, offered := l.offered[resource]; offered {
		delete(l.offered, resource)
		l.lanes[offer.laneKey].taken--
		l.offer()
	}
}

// release gives back a slot that was used for some time.
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

// usage is how many slots are taken.
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

// offer wakes resources that wait, as long as there are slots for them, and forgets lanes of which nothing needs to be known.
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
		go l.wake(first.resource) // it waits for the controller to take it
	}
	for key, of := range l.lanes {
		if of.taken == 0 && len(of.waiting) == 0 && !of.isSlow(now) {
			delete(l.lanes, key)
		}
	}
}

// next is the lane that the next slot goes to: of the namespace that has the fewest, then the one that was given none for the longest
// time. It is nil if no resource can have one.
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
