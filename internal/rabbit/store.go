package rabbit

import (
	"sync"

	"github.com/warren-mq/warren/internal/vhost"
)

// write is a change that the broker has confirmed. It says whether it changed the snapshot.
type write func(*snapshot) bool

// store holds the current snapshot and keeps two things from contradicting each other: looks at the broker, which take
// their time, and what is written through in the meantime.
type store struct {
	// writing is held by whoever changes the store, and while two snapshots are compared, which takes tens of
	// milliseconds in a large vhost: readers need not wait for that.
	writing sync.Mutex
	etag    string // empty where it cannot be trusted
	heard   string // the ETag of the last full answer, to be trusted if it comes again
	looking bool
	since   []write // confirmed since the look that is under way began
	// doubted is what the last look missed for the first time; nil if nothing. See doubt.go.
	doubted *snapshot

	reading sync.RWMutex
	current *snapshot // nil before the first look
}

func (s *store) observe(names vhost.Selection) (vhost.Observed, bool) {
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.current == nil {
		return vhost.Observed{}, false
	}
	return s.current.observe(names), true
}

// view shows the snapshot, if there is one; what it gives out must not be changed.
func (s *store) view(show func(*snapshot)) {
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.current != nil {
		show(s.current)
	}
}

// write takes over a change that the broker has confirmed. The ETag falls: should somebody undo the change, the broker
// could be back at what the ETag stands for, and the snapshot would not be.
func (s *store) write(w write) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.looking {
		s.since = append(s.since, w)
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.current != nil && w(s.current) {
		s.etag, s.heard = "", ""
	}
}

// begin marks the beginning of a look; one at a time. It returns the ETag of what is known.
func (s *store) begin() string {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.looking, s.since = true, nil
	return s.etag
}

// forget makes the next look read everything.
func (s *store) forget() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.etag, s.heard = "", ""
}

// end marks the end of a look without news, because it failed or nothing had changed.
func (s *store) end() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.looking, s.since = false, nil
}

// replace ends a look with what was seen, and returns what changed; nothing if there was nothing to compare with.
// The answer may be older than what was written through since the look began: that is done again, and the ETag, which
// then stands for something else than the snapshot, is not kept. The vhost must be read again at once if something is missing
// for the first time.
func (s *store) replace(fresh *snapshot, etag string) (changed Notice, again bool) {
	s.writing.Lock()
	defer s.writing.Unlock()
	for _, w := range s.since {
		if w(fresh) {
			etag = ""
		}
	}
	fresh.refusing = refusing(fresh.fences, fresh.underWay)
	if s.current != nil {
		fresh.keepPatterns(s.current)
		if s.doubted = fresh.doubt(s.current, s.doubted); s.doubted != nil {
			etag = ""
		}
		changed = diff(s.current, fresh)
	}
	s.trust(etag)
	s.looking, s.since = false, nil
	s.reading.Lock()
	defer s.reading.Unlock()
	s.current.free()
	s.current = fresh
	return changed, s.doubted != nil
}

// close gives back the memory of the snapshot, which can still be read.
func (s *store) close() {
	s.view(func(current *snapshot) { current.room.free() })
}

// trust takes over the ETag of a full answer once two answers in a row have carried it. RabbitMQ does not compute ETag
// and content at one moment: while something changed, 4.3.6 has been seen to send old content with the new ETag, which
// would hide the change for ever.
func (s *store) trust(etag string) {
	s.etag = ""
	if etag == s.heard {
		s.etag = etag
	}
	s.heard = etag
}
