// Package patience remembers since when this process has observed something about a resource.
package patience

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FirstSeen remembers when this process first had to do with something about a resource. A DeletionTimestamp would not do:
// it is of the API server's clock, and may be older than this manager.
type FirstSeen struct {
	clock clock.PassiveClock

	mu sync.Mutex
	of map[client.ObjectKey]sighting
}

type sighting struct {
	of   string
	when time.Time
}

// NewFirstSeen makes a FirstSeen that has seen nothing, with a clock.
func NewFirstSeen(c clock.PassiveClock) *FirstSeen {
	return &FirstSeen{clock: c, of: map[client.ObjectKey]sighting{}}
}

// At records a resource, and returns when that was done first.
func (s *FirstSeen) At(object client.Object) time.Time {
	return s.record(client.ObjectKeyFromObject(object), string(object.GetUID()))
}

// Since records a state of a resource, and returns how long ago that was done first. Another state of the resource is forgotten.
func (s *FirstSeen) Since(key client.ObjectKey, state string) time.Duration {
	return s.clock.Since(s.record(key, state))
}

func (s *FirstSeen) record(key client.ObjectKey, state string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, known := s.of[key]
	if !known || seen.of != state {
		seen = sighting{of: state, when: s.clock.Now()}
		s.of[key] = seen
	}
	return seen.when
}

// Has says whether a resource was recorded.
func (s *FirstSeen) Has(object client.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, known := s.of[client.ObjectKeyFromObject(object)]
	return known && seen.of == string(object.GetUID())
}

// Forget drops a resource that is gone.
func (s *FirstSeen) Forget(key client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, key)
}

// longestTry is the most that one try to delete a topology counts: as long as it takes where nobody else deletes anything.
// Beyond that it was waiting for the deletions of others, which is no failure.
const longestTry = 15 * time.Second

// Failures adds up for how long the deletion of a topology has been failing.
type Failures struct {
	mu sync.Mutex
	of map[client.ObjectKey]trial
}

type trial struct {
	uid    types.UID
	last   time.Time
	failed time.Duration
}

// NewFailures makes a Failures that counts nothing yet.
func NewFailures() *Failures { return &Failures{of: map[client.ObjectKey]trial{}} }

// Add takes note of one more failure, and returns for how long there have been failures: each counts the time since the
// one before, up to longestTry.
func (t *Failures) Add(object client.Object, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	one, known := t.of[key]
	if !known || one.uid != object.GetUID() {
		one = trial{uid: object.GetUID(), last: now}
	}
	one.failed += min(now.Sub(one.last), longestTry)
	one.last = now
	t.of[key] = one
	return one.failed
}

// Forget drops a resource that is gone, or succeeded.
func (t *Failures) Forget(key client.ObjectKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, key)
}

// A deletion that fails for a reason that may pass is tried again for TerminationPatience, or for three resync intervals if
// that is longer. Then the resource goes, and its objects stay at the broker. The time counts from the first failure that this
// manager sees, and the time in which other deletions run does not count. PendingPatience is for what ends by itself: the
// broker tries to deliver a dead letter every three minutes, and the fence of a crashed manager may have to wait for that.
const (
	TerminationPatience = time.Minute
	PendingPatience     = 10 * time.Minute
)

// PatientIntervals is for how many resync intervals a broker may fail before a condition that was good changes: a broker's
// restart must not mean ten thousand writes and alerts.
const PatientIntervals = 3
