package snapshot

import (
	"sync"

	"github.com/warren-mq/warren/internal/vhost"
)

// Write is a change of one object that the broker has confirmed.
type Write struct {
	// ID is the object; empty if the change cannot concern a ConsumerQueue.
	ID vhost.ID
	// Apply makes the change, and reports whether it changed the snapshot.
	Apply func(*Snapshot) bool
}

// Store holds the current snapshot of a vhost. While a refresh runs, the broker may confirm changes. Store applies them to the current
// snapshot, and again to the refreshed one, whose content may be older than the changes. The zero value is ready to use.
type Store struct {
	// writing serializes changes of the store. Replace also holds it while it compares two snapshots, which takes tens of
	// milliseconds in a large vhost: callers of Observe and View need not wait for that.
	writing    sync.Mutex
	etag       string // of the current snapshot; empty if it cannot be trusted
	lastETag   string // of the last full answer; see trust
	refreshing bool
	since      []Write // changes confirmed since the running refresh began
	// doubted holds the objects that the last refresh missed for the first time; nil if none. See doubt.go.
	doubted *Snapshot

	reading sync.RWMutex
	Current *Snapshot // nil before the first refresh
}

// Observe returns the selected objects of the vhost; false before the first refresh.
func (s *Store) Observe(names vhost.Selection) (vhost.Observed, bool) {
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.Current == nil {
		return vhost.Observed{}, false
	}
	return s.Current.observe(names), true
}

// View calls show with the current snapshot, if there is one. show must change neither the snapshot nor what it returns.
func (s *Store) View(show func(*Snapshot)) {
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.Current != nil {
		show(s.Current)
	}
}

// Queues returns the names of the queues in the snapshot; none before the first refresh.
func (s *Store) Queues() map[string]bool {
	names := map[string]bool{}
	s.View(func(snapshot *Snapshot) {
		for name := range snapshot.Queues {
			names[name] = true
		}
	})
	return names
}

// Write applies a change that the broker has confirmed, and reports whether the snapshot changed. It drops the ETag, because another client
// may undo the change. The state of the broker would then match the ETag, but the snapshot would not.
func (s *Store) Write(w Write) bool { return s.write(w, w.Apply) }

// WriteWithNotice is Write, and returns the objects that the change concerns; see Snapshot.Concerning. It takes longer in a large
// vhost.
func (s *Store) WriteWithNotice(w Write) (concerned Notice) {
	s.write(w, func(current *Snapshot) bool {
		before := current.Concerning(w.ID)
		changed := w.Apply(current)
		if changed {
			concerned = Merge([]Notice{before, current.Concerning(w.ID)})
		}
		return changed
	})
	return concerned
}

// write changes the current snapshot by apply. If a refresh is running, Replace applies the change to its snapshot, too.
func (s *Store) write(w Write, apply func(*Snapshot) bool) bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.refreshing {
		s.since = append(s.since, w)
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.Current == nil || !apply(s.Current) {
		return false
	}
	s.etag, s.lastETag = "", ""
	return true
}

// Begin begins a refresh. Only one may run at a time. It returns the ETag of the current snapshot, which is empty if the refresh
// must read the whole vhost.
func (s *Store) Begin() string {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.refreshing, s.since = true, nil
	return s.etag
}

// Forget drops the ETag, so that the next refresh reads the whole vhost.
func (s *Store) Forget() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.etag, s.lastETag = "", ""
}

// End ends a refresh that failed, or that found no change.
func (s *Store) End() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.refreshing, s.since = false, nil
}

// Replace ends a refresh with its snapshot. It returns the objects that the changes concern, and the objects that changed; both are empty
// after the first refresh. If again is true, an object is missing for the first time, and the caller must refresh the vhost immediately.
// The fresh snapshot may be older than the changes confirmed since the refresh began. Replace applies them again, and drops the ETag if
// one of them changes the fresh snapshot.
func (s *Store) Replace(fresh *Snapshot, etag string) (changed Notice, difference Difference, again bool) {
	s.writing.Lock()
	defer s.writing.Unlock()
	for _, w := range s.since {
		if w.Apply(fresh) {
			etag = ""
		}
	}
	fresh.left = left(fresh.Fences, fresh.UnderWay)
	if s.Current != nil {
		fresh.keepPatterns(s.Current)
		if s.doubted = fresh.doubt(s.Current, s.doubted); s.doubted != nil {
			etag = ""
		}
		fresh.keepAlternates(s.Current)
		changed, difference = Changes(s.Current, fresh), differenceOf(s.Current, fresh)
	}
	s.trust(etag)
	s.refreshing, s.since = false, nil
	s.reading.Lock()
	defer s.reading.Unlock()
	s.Current.Free()
	s.Current = fresh
	return changed, difference, s.doubted != nil
}

// Close subtracts the memory of the snapshot from the usage of the process. Callers can still read the snapshot.
func (s *Store) Close() {
	s.View(func(current *Snapshot) { current.Room.Free() })
}

// trust accepts the ETag of a full answer once two successive answers have the same one. RabbitMQ does not compute ETag and content
// atomically: during a change, 4.3.6 sent old content with the new ETag, which would hide the change forever.
func (s *Store) trust(etag string) {
	s.etag = ""
	if etag == s.lastETag {
		s.etag = etag
	}
	s.lastETag = etag
}
