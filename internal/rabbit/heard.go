package rabbit

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/events"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// heard is the state of an observation's event feed.
type heard struct {
	// wanted wakes the goroutine that makes markers; see eventListener.
	wanted chan struct{}
	// unannounced finds changes without an event.
	unannounced unannounced

	mu sync.Mutex
	// since is when the first marker of the subscription was heard; zero while no events are heard, and reason says why, once that is
	// known: a broker that is restarted comes back. lostAt is when events were heard last, or the observation began.
	since  time.Time
	reason string
	lostAt time.Time
	// silences is the wait before another subscription where one was silent.
	silences backoff
	// ignored are queues of which events were left to a deletion that was under way; see leaveToDeletion.
	ignored map[string]bool
	// unclearAt is when an event was last heard that only a reading can make clear.
	unclearAt time.Time
	// currentAt is the latest time as of which the snapshot was shown to be current by events.
	currentAt time.Time
	// marked is when the marker was made that is on its way, the one of a number.
	marked time.Time
	number int
	// awaiting are those who wait until a marker is heard.
	awaiting []awaiting
	// events counts those heard, and eventsRead is how many there were when the reading began that was used last.
	events, eventsRead int
	// created counts the objects that came into the snapshot by events, up to the reading that began at countedFrom.
	created     int
	countedFrom time.Time
	// exclusive are exclusive queues that events told of, which no snapshot needs.
	exclusive map[string]bool
}

// awaiting is somebody who waits until the marker of a number is heard. tell says whether the snapshot is current then, and must not
// wait.
type awaiting struct {
	number int
	tell   func(current bool)
}

func newHeard(silences backoff) heard {
	return heard{wanted: make(chan struct{}, 1), lostAt: time.Now(), silences: silences, exclusive: map[string]bool{}}
}

// errSilent: the broker takes the subscription, and sends no events.
var errSilent = errors.New("events are silent")

// lossPatience is for how long a broker may be unreachable before that is said to be the reason why no events are heard.
const lossPatience = 2 * time.Minute

// createdLimit is how many objects may come into a snapshot by events from one reading to the next: only a reading counts the
// memory that they take.
const createdLimit = 1000

// begin records that events are heard: the first marker of a subscription has come.
func (h *heard) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since, h.reason = time.Now(), ""
}

// end records that a subscription ended. It reports whether events were heard, and whether the reason is a new one. While the broker
// has been unreachable for a short time only, the reason stays what it was.
func (h *heard) end(reason error) (was, news bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if was = !h.since.IsZero(); was {
		h.lostAt = time.Now()
		if time.Since(h.since) > h.silences.limit {
			h.silences.reset()
		}
	}
	if !errors.Is(reason, brokererr.ErrUnreachable) || time.Since(h.lostAt) >= lossPatience {
		news, h.reason = h.reason != reason.Error(), reason.Error()
	}
	h.since, h.exclusive = time.Time{}, map[string]bool{}
	h.unannounced.reset()
	h.answer(h.number+1, false)
	return was, news
}

// pause returns how long nobody may subscribe after a subscription that was silent: longer each time, unless events were heard for long.
func (h *heard) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.silences.wait()
}

// state is since when events have been heard; zero if they are not, for a reason. currentAt is that of the observation.
func (h *heard) state() (since time.Time, reason string, currentAt time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since, h.reason, h.currentAt
}

// suffices says whether a snapshot that was read at a time, with all events since, is current. Where the broker dropped an event, it
// has sent as many others since then as it keeps.
func (h *heard) suffices(readAt time.Time) bool {
	return h.isComplete(readAt) && readAt.After(h.unclearAt)
}

// isComplete reports whether all events since a time were heard, at which the vhost was read last.
func (h *heard) isComplete(readAt time.Time) bool {
	return !h.since.IsZero() && readAt.After(h.since) && h.events-h.eventsRead < events.QueueLimit
}

// add records events that were heard.
func (h *heard) add(batch events.Batch) {
	h.unannounced.announce(batch.Changes)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events += batch.Events
}

// count is how many events were heard.
func (h *heard) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events
}

// read records a refresh that succeeded: when the one before it began, how many events had been heard before this one, and what it found
// changed.
func (h *heard) read(previous time.Time, before int, difference snapshot.Difference) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unannounced.refreshed(difference, h.isComplete(previous))
	h.eventsRead = before
}

// await has a marker made, and tells when the marker is heard whether the snapshot is current as of the call. It is false if events
// do not suffice.
func (h *heard) await(readAt time.Time, tell func(current bool)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.suffices(readAt) {
		return false
	}
	h.awaiting = append(h.awaiting, awaiting{h.number + 1, tell})
	select {
	case h.wanted <- struct{}{}:
	default: // one is about to be made
	}
	return true
}

// answer tells those who wait for markers up to a number.
func (h *heard) answer(number int, current bool) {
	h.awaiting = slices.DeleteFunc(h.awaiting, func(a awaiting) bool {
		if a.number > number {
			return false
		}
		a.tell(current)
		return true
	})
}

// mark takes note that a marker is being made.
func (h *heard) mark() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.marked = time.Now()
	h.number++
}

// reach records that the marker was heard, and reports whether it shows that the snapshot is current. A marker that nobody asked for does
// not: where the cluster has several nodes, nobody asks.
func (h *heard) reach(readAt time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := slices.ContainsFunc(h.awaiting, func(a awaiting) bool { return a.number <= h.number })
	current := asked && h.suffices(readAt)
	if current {
		h.currentAt = h.marked
	}
	h.answer(h.number, current)
	return current
}

// unclear takes note of an event that only a reading makes clear.
func (h *heard) unclear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unclearAt = time.Now()
}

// mayCreate counts an object that comes into the snapshot, and is false if there have been too many since the last reading.
func (h *heard) mayCreate(readAt time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if readAt.After(h.countedFrom) {
		h.created, h.countedFrom = 0, readAt
	}
	h.created++
	return h.created <= createdLimit
}

// passExclusive says whether a change is about an exclusive queue or a binding to one: those come and go with their connections.
func (h *heard) passExclusive(change events.Change) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	queue := change.ID.Name
	switch {
	case change.ID.Kind == vhost.KindBinding && !change.Binding.ToExchange:
		return h.exclusive[change.ID.Destination]
	case change.ID.Kind != vhost.KindQueue:
		return false
	case change.Kind == events.Created && change.Queue.Exclusive:
		if len(h.exclusive) < createdLimit { // the others are cleared up by readings
			h.exclusive[queue] = true
		}
		return true
	case h.exclusive[queue]:
		delete(h.exclusive, queue)
		return true
	}
	return false
}

// concerns says whether a change can matter to a snapshot.
func concerns(change events.Change) bool {
	switch id := change.ID; {
	case change.Kind == events.PolicyChanged:
		_, own := fence.ParseName(id.Name)
		return !own // deletions know of their fences, and readings show those of others
	case id.Kind == vhost.KindQueue:
		return !strings.HasPrefix(id.Name, management.MatchQueue)
	case id.Kind == vhost.KindExchange:
		return id.Name != "" && !strings.HasPrefix(id.Name, "amq.")
	default:
		return id.Source != ""
	}
}

// effect is what a change does to a snapshot. The values are those of a metric.
type effect string

const (
	effectNone    effect = "ignored"
	effectOwn     effect = "own"     // the snapshot has the change, or is about to
	effectApply   effect = "applied" // the change is to be made to the snapshot
	effectRefresh effect = "refresh" // only a reading shows the change
)

// effectOf decides what to do about a change. ordered is as for takeAll.
func (v *view) effectOf(change events.Change, ordered bool) effect {
	switch {
	case !concerns(change) || v.events.passExclusive(change):
		return effectNone
	case change.Kind == events.PolicyChanged:
		return effectRefresh
	case change.Kind == events.Deleted && v.isDeleting(change.ID):
		return v.leaveToDeletion(change.ID)
	}
	switch v.own.hear(change.ID, change.Kind) {
	case originOwn:
		return effectOwn
	case originUnclear:
		return effectRefresh
	}
	switch {
	case !ordered:
		return effectRefresh
	case change.ID.Kind == vhost.KindBinding && !change.Exact:
		return effectRefresh
	case change.Kind == events.Created && (!change.Exact || !v.events.mayCreate(v.lastRead()) || !v.hasEnds(change)):
		return effectRefresh
	}
	return effectApply
}

// apply makes a change to the snapshot, and returns what the change concerns.
func (v *view) apply(change events.Change) snapshot.Notice {
	apply := func(s *snapshot.Snapshot) bool { return deleted(s, change) }
	if change.Kind == events.Created {
		apply = func(s *snapshot.Snapshot) bool { return created(s, change) }
	}
	if !change.Binding.ToExchange {
		return v.store.WriteAndTell(snapshot.Write{ID: change.ID, Apply: apply})
	}
	if !v.store.Write(snapshot.Write{Apply: apply}) {
		return snapshot.Notice{}
	}
	return snapshot.Notice{Routes: []string{change.Binding.Source}}
}

func deleted(s *snapshot.Snapshot, change events.Change) bool {
	switch change.ID.Kind {
	case vhost.KindQueue:
		return s.DropQueue(change.ID.Name)
	case vhost.KindExchange:
		return s.DropExchange(change.ID.Name)
	}
	return s.DropBinding(change.Binding)
}

func created(s *snapshot.Snapshot, change events.Change) bool {
	switch change.ID.Kind {
	case vhost.KindQueue:
		return s.PutQueue(change.ID.Name, change.Queue)
	case vhost.KindExchange:
		return s.PutExchange(change.ID.Name, change.Exchange)
	}
	return s.PutBinding(change.Binding)
}

// hasEnds says whether the snapshot has what a binding binds.
func (v *view) hasEnds(change events.Change) bool {
	if change.ID.Kind != vhost.KindBinding {
		return true
	}
	source, destination := false, false
	v.store.View(func(s *snapshot.Snapshot) {
		_, source = s.Exchange(change.Binding.Source)
		if change.Binding.ToExchange {
			_, destination = s.Exchange(change.Binding.Destination)
		} else {
			_, destination = s.Queues[change.Binding.Destination]
		}
	})
	return source && destination
}

// takeAll brings changes into the snapshot, and tells those whom they concern; see untold. ordered says that the events come in the
// order of the changes, as those of a single node do: others may only lead to a refresh. sufficed is false if the vhost must be read.
func (v *view) takeAll(changes []events.Change, ordered bool) (sufficed bool) {
	sufficed = true
	for _, change := range changes {
		effect, concerned := v.effectOf(change, ordered), snapshot.Notice{}
		switch effect {
		case effectApply:
			concerned = v.apply(change)
		case effectRefresh:
			sufficed = false
		}
		v.untold.add(change, concerned)
		metrics.Events.Inc(string(effect))
		metrics.EventLag.Observe(time.Since(change.At))
	}
	if !sufficed {
		v.events.unclear()
	}
	v.tellOfOthers(v.untold.take(v.viewer.patience, func() { v.tellOfOthers(v.untold.takeAll()) }))
	return sufficed
}

// tellOfOthers gives every connection a notice of what others have changed.
func (v *view) tellOfOthers(notice snapshot.Notice) {
	if notice.Empty() {
		return
	}
	v.store.View(func(s *snapshot.Snapshot) { notice = s.WithUpstream(notice) })
	v.tellAll(notice)
}

// tellAll gives every connection a notice.
func (v *view) tellAll(notice snapshot.Notice) {
	for _, other := range v.all() {
		other.viewer.notify(notice)
	}
}
