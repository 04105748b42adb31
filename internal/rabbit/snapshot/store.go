package snapshot

import (
	"sync"

	"github.com/warren-mq/warren/internal/vhost"
)

// Queues returns the names of the queues that are known.
func (s *Store) Queues() map[string]bool {
	names := map[string]bool{}
	s.View(func(snapshot *Snapshot) {
		for name := range snapshot.Queues {
			names[name] = true
		}
	})
	return names
}

// Write is a change of one object that the broker has confirmed.
type Write struct {
	// ID is the object; empty for what no ConsumerQueue can be concerned by.
	ID vhost.ID
	// Apply makes the change, and says whether it changed the snapshot.
	Apply func(*Snapshot) bool
}

// Store holds the current snapshot and keeps two things from contradicting each other: readings of the vhost, which take
// their time, and what is written through in the meantime.
type Store struct {
	// writing is held by whoever changes the store, and while two snapshots are compared, which takes tens of
	// milliseconds in a large vhost: readers need not wait for that.
	writing    sync.Mutex
	etag       string // empty where it cannot be trusted
	heard      string // the ETag of the last full answer, to be trusted if it comes again
	readingNow bool
	since      []Write // confirmed since the reading that is under way began
	// doubted is what the last reading missed for the first time; nil if nothing. See doubt.go.
	doubted *Snapshot

	reading sync.RWMutex
	Current *Snapshot // nil before the first reading
}

// Observe returns what the vhost has of a selection; false before the first reading.
func (s *Store) Observe(names vhost.Selection) (vhost.Observed, bool) {
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.Current == nil {
		return vhost.Observed{}, false
	}
	return s.Current.observe(names), true
}

// View shows the snapshot, if there is one; what it gives out must not be changed.
func (s *Store) View(show func(*Snapshot)) {
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.Current != nil {
		show(s.Current)
	}
}

// Write takes over a change that the broker has confirmed. The ETag falls: should somebody undo the change, the broker
// could be back at what the ETag stands for, and the snapshot would not be. It says whether the snapshot changed.
func (s *Store) Write(w Write) bool { return s.write(w, w.Apply) }

// WriteAndTell is Write that returns what the change concerns; see Snapshot.Concerning. It takes longer, in a large vhost.
func (s *Store) WriteAndTell(w Write) (concerned Notice) {
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

// write makes a change to the current snapshot by apply, and has it made again to one that is being read.
func (s *Store) write(w Write, apply func(*Snapshot) bool) bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.readingNow {
		s.since = append(s.since, w)
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.Current == nil || !apply(s.Current) {
		return false
	}
	s.etag, s.heard = "", ""
	return true
}

// Begin marks the beginning of a reading; one at a time. It returns the ETag of what is known.
func (s *Store) Begin() string {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.readingNow, s.since = true, nil
	return s.etag
}

// Forget makes the next reading read everything.
func (s *Store) Forget() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.etag, s.heard = "", ""
}

// End marks the end of a reading without news, because it failed or nothing had changed.
func (s *Store) End() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.readingNow, s.since = false, nil
}

// Replace ends a reading with what was read. It returns what changed, for those whom it concerns and object by object; nothing if there was
// nothing to compare with.
// The answer may be older than what was written through since the reading began: that is done again, and the ETag, which
// then stands for something else than the snapshot, is not kept. The vhost must be read again at once if something is missing
// for the first time.
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
		changed, difference = Changes(s.Current, fresh), DifferenceOf(s.Current, fresh)
	}
	s.trust(etag)
	s.readingNow, s.since = false, nil
	s.reading.Lock()
	defer s.reading.Unlock()
	s.Current.Free()
	s.Current = fresh
	return changed, difference, s.doubted != nil
}

// Close gives back the memory of the snapshot, which can still be read.
func (s *Store) Close() {
	s.View(func(current *Snapshot) { current.Room.Free() })
}

// trust takes over the ETag of a full answer once two answers in a row have carried it. RabbitMQ does not compute ETag
// and content at one moment: while something changed, 4.3.6 has been seen to send old content with the new ETag, which
// would hide the change for ever.
func (s *Store) trust(etag string) {
	s.etag = ""
	if etag == s.heard {
		s.etag = etag
	}
	s.heard = etag
}
