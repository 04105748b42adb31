package eventfeed

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// Feed is the state of the event subscription of a vhost. A marker is a change that Warren makes to check that the feed is current: its
// event arrives after the events of all earlier changes.
type Feed struct {
	// wanted receives when a caller waits for a marker.
	wanted chan struct{}
	// unannounced finds changes without an event.
	unannounced unannounced

	mu sync.Mutex
	// since is when the first marker of the subscription arrived; zero while no events arrive. reason is why no events arrive; it is not
	// set during a short outage. lostAt is when events last arrived, or when the Feed was created.
	since  time.Time
	reason string
	lostAt time.Time
	// silences is the wait before another subscription after a silent one.
	silences retry.Backoff
	// ignored are queues whose events were ignored because of a running deletion; see Ignore.
	ignored map[string]bool
	// unclearAt is when an event last arrived that requires a refresh.
	unclearAt time.Time
	// currentAt is the latest time at which events have shown the snapshot to be current.
	currentAt time.Time
	// marked is when the marker with this number was sent, until its event arrives.
	marked time.Time
	number int
	// awaiting are the callers that wait for a marker.
	awaiting []awaiting
	// events counts the events that arrived, and eventsRead those at the beginning of the last refresh.
	events, eventsRead int
	// created counts the objects that events have added to the snapshot since the refresh that began at countedFrom.
	created     int
	countedFrom time.Time
	// exclusive are the exclusive queues that events have named. No snapshot needs them.
	exclusive map[string]bool
}

// awaiting is a caller that waits for marker number. done receives true if the snapshot is current when the marker arrives, and false
// otherwise. It must not block.
type awaiting struct {
	number int
	done   func(current bool)
}

// NewFeed returns the Feed before its first subscription.
func NewFeed(silences retry.Backoff) Feed {
	return Feed{wanted: make(chan struct{}, 1), lostAt: time.Now(), silences: silences, exclusive: map[string]bool{}}
}

// ErrSilent means that the broker accepted the subscription but sends no events.
var ErrSilent = errors.New("events are silent")

// lossBudget is how long a broker may be unreachable before the outage becomes the reason why no events arrive.
const lossBudget = 2 * time.Minute

// maxCreated is how many objects events may add to a snapshot between two refreshes, because only a refresh counts the memory
// that they take.
const maxCreated = 1000

// Wanted returns a channel that receives when a caller waits for a marker.
func (f *Feed) Wanted() <-chan struct{} { return f.wanted }

// Markers returns how many markers were sent.
func (f *Feed) Markers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.number
}

// Overdue describes a change that a refresh found and that no event has announced for this long; empty if there is none.
func (f *Feed) Overdue(limit time.Duration) string { return f.unannounced.overdue(limit) }

// Begin records that events arrive: the first marker of a subscription has arrived.
func (f *Feed) Begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since, f.reason = time.Now(), ""
}

// End records that a subscription ended. It reports whether events arrived before, and whether the reason is new. While the broker has been
// unreachable for less than lossBudget, the reason does not change.
func (f *Feed) End(reason error) (was, news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if was = !f.since.IsZero(); was {
		f.lostAt = time.Now()
		if time.Since(f.since) > f.silences.Limit {
			f.silences.Reset()
		}
	}
	if !errors.Is(reason, brokererr.ErrUnreachable) || time.Since(f.lostAt) >= lossBudget {
		news, f.reason = f.reason != reason.Error(), reason.Error()
	}
	f.since, f.exclusive = time.Time{}, map[string]bool{}
	f.unannounced.reset()
	f.answer(f.number+1, false)
	return was, news
}

// Pause returns how long to wait after a silent subscription. The wait grows each time, unless events had arrived for a long time.
func (f *Feed) Pause() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.silences.Wait()
}

// State returns since when events arrive; zero if they do not, with the reason. currentAt is the latest time at which events have
// shown the snapshot to be current.
func (f *Feed) State() (since time.Time, reason string, currentAt time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.since, f.reason, f.currentAt
}

// suffices reports whether a snapshot that was read at this time is current with all events since.
func (f *Feed) suffices(readAt time.Time) bool {
	return f.isComplete(readAt) && readAt.After(f.unclearAt)
}

// isComplete reports whether all events since the last refresh, which began at this time, have arrived. If the broker dropped an event, it
// has sent at least QueueLimit other events since then.
func (f *Feed) isComplete(readAt time.Time) bool {
	return !f.since.IsZero() && readAt.After(f.since) && f.events-f.eventsRead < QueueLimit
}

// Add records events that arrived.
func (f *Feed) Add(batch Batch) {
	f.unannounced.announce(batch.Changes)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events += batch.Events
}

// Count returns how many events have arrived.
func (f *Feed) Count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.events
}

// Refreshed records a successful refresh. previous is the start of the refresh before it. before is the number of events that had arrived
// when this refresh began. difference has the changes that this refresh found.
func (f *Feed) Refreshed(previous time.Time, before int, difference snapshot.Difference) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unannounced.refreshed(difference, f.isComplete(previous))
	f.eventsRead = before
}

// Await requests a marker, and calls done when the marker arrives: with true if the snapshot is current as of the call of Await. It
// returns false, and does not call done, if events do not suffice.
func (f *Feed) Await(readAt time.Time, done func(current bool)) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.suffices(readAt) {
		return false
	}
	f.awaiting = append(f.awaiting, awaiting{f.number + 1, done})
	select {
	case f.wanted <- struct{}{}:
	default: // a marker is about to be sent
	}
	return true
}

// answer calls done of the callers that wait for markers up to a number.
func (f *Feed) answer(number int, current bool) {
	f.awaiting = slices.DeleteFunc(f.awaiting, func(a awaiting) bool {
		if a.number > number {
			return false
		}
		a.done(current)
		return true
	})
}

// Mark records that a marker is being sent.
func (f *Feed) Mark() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.marked = time.Now()
	f.number++
}

// Reach records that the marker arrived, and reports whether it proves that the snapshot is current. Only a marker for which a caller waits
// proves that. On a cluster of several nodes, no caller waits.
func (f *Feed) Reach(readAt time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := slices.ContainsFunc(f.awaiting, func(a awaiting) bool { return a.number <= f.number })
	current := asked && f.suffices(readAt)
	if current {
		f.currentAt = f.marked
	}
	f.answer(f.number, current)
	return current
}

// Unclear records an event that requires a refresh.
func (f *Feed) Unclear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unclearAt = time.Now()
}

// MayCreate counts an object that an event adds to the snapshot. It returns false if events have added too many since the last refresh.
func (f *Feed) MayCreate(readAt time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if readAt.After(f.countedFrom) {
		f.created, f.countedFrom = 0, readAt
	}
	f.created++
	return f.created <= maxCreated
}

// IsExclusive reports whether a change is about an exclusive queue or a binding to one, which come and go with their connections.
func (f *Feed) IsExclusive(change Change) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	queue := change.ID.Name
	switch {
	case change.ID.Kind == vhost.KindBinding && !change.Binding.ToExchange:
		return f.exclusive[change.ID.Destination]
	case change.ID.Kind != vhost.KindQueue:
		return false
	case change.Kind == Created && change.Queue.Exclusive:
		if len(f.exclusive) < maxCreated { // refreshes remove the remaining ones
			f.exclusive[queue] = true
		}
		return true
	case f.exclusive[queue]:
		delete(f.exclusive, queue)
		return true
	}
	return false
}

// Concerns reports whether a change can matter to a snapshot.
func Concerns(change Change) bool {
	switch id := change.ID; {
	case change.Kind == PolicyChanged:
		_, own := fence.ParseName(id.Name)
		return !own // deletions know their own fences, and refreshes show the fences of other connections
	case id.Kind == vhost.KindQueue:
		return !strings.HasPrefix(id.Name, management.MatchQueue)
	case id.Kind == vhost.KindExchange:
		return id.Name != "" && !strings.HasPrefix(id.Name, "amq.")
	default:
		return id.Source != ""
	}
}

// Ignore records that an event about a queue was ignored because of a running deletion.
func (f *Feed) Ignore(queue string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ignored == nil {
		f.ignored = map[string]bool{}
	}
	f.ignored[queue] = true
}

// TakeIgnored reports whether events about one of the queues were ignored, and removes the records of Ignore.
func (f *Feed) TakeIgnored(queues []string) (some bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, queue := range queues {
		some = some || f.ignored[queue]
		delete(f.ignored, queue)
	}
	return some
}
