// Package retrybudget measures for how long an action has been tried or a state has been observed, and defines the limits. It measures from
// the first observation by this process, so a restart resets the measurements.
package retrybudget

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/byresource"
)

// FirstSeen records when this process first saw a resource. A DeletionTimestamp is no substitute: it comes from the clock of the API
// server, and may be older than this process.
type FirstSeen struct {
	clock clock.PassiveClock
	of    byresource.Map[sighting]
}

type sighting struct {
	of   string
	when time.Time
}

// NewFirstSeen returns an empty FirstSeen with a clock.
func NewFirstSeen(c clock.PassiveClock) *FirstSeen { return &FirstSeen{clock: c} }

// At records a resource, and returns when it was first recorded.
func (s *FirstSeen) At(object client.Object) time.Time {
	return s.record(client.ObjectKeyFromObject(object), string(object.GetUID()))
}

// Since records a state of a resource, and returns for how long it has been in that state. The former state is forgotten.
func (s *FirstSeen) Since(key client.ObjectKey, state string) time.Duration {
	return s.clock.Since(s.record(key, state))
}

func (s *FirstSeen) record(key client.ObjectKey, state string) time.Time {
	return s.of.Change(key, func(seen sighting) sighting {
		if seen.when.IsZero() || seen.of != state {
			return sighting{of: state, when: s.clock.Now()}
		}
		return seen
	}).when
}

// Has reports whether a resource was recorded.
func (s *FirstSeen) Has(object client.Object) bool {
	seen := s.of.Get(client.ObjectKeyFromObject(object))
	return !seen.when.IsZero() && seen.of == string(object.GetUID())
}

// Forget removes a resource that is gone.
func (s *FirstSeen) Forget(key client.ObjectKey) { s.of.Forget(key) }

// longestTry is the longest time that counts for one attempt to delete a topology. An attempt takes this long if nothing else is deleted.
// Any further time is a wait for other deletions, which is not a failure.
const longestTry = 15 * time.Second

// Failures measures for how long the deletion of each topology has been failing. The zero value has none.
type Failures struct {
	of byresource.Map[trial]
}

type trial struct {
	uid    types.UID
	last   time.Time
	failed time.Duration
}

// Add records one more failure, and returns for how long the deletion has been failing. Each failure counts the time since the previous
// one, up to longestTry.
func (f *Failures) Add(object client.Object, now time.Time) time.Duration {
	return f.of.Change(client.ObjectKeyFromObject(object), func(one trial) trial {
		if one.last.IsZero() || one.uid != object.GetUID() {
			return trial{uid: object.GetUID(), last: now}
		}
		one.failed += min(now.Sub(one.last), longestTry)
		one.last = now
		return one
	}).failed
}

// Forget removes a resource that is gone or was deleted.
func (f *Failures) Forget(key client.ObjectKey) { f.of.Forget(key) }

// A deletion that fails for a temporary reason is retried for Termination, or for FailingIntervals if that is longer. Then Warren releases
// the resource and retains its objects at the broker. Pending replaces Termination for brokererr.ErrPending: RabbitMQ tries to deliver a
// dead letter every three minutes, and the fence of a crashed manager may have to wait for that.
const (
	Termination = time.Minute
	Pending     = 10 * time.Minute
)

// FailingIntervals is how many resync intervals a broker may fail before a good condition changes. The restart of a broker must not cause
// ten thousand writes and alerts.
const FailingIntervals = 3
