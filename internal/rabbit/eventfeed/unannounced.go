package eventfeed

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// A marker shows that the connection's own node announces changes. Each node of a cluster announces the changes made through it,
// so another node can still be silent. Then a refresh finds changes that no event announced.

// unannounced compares the changes that refreshes find with the changes that events announced. The zero value is ready to use.
type unannounced struct {
	mu sync.Mutex
	// recent are the changes that events announced since the last refresh, and earlier those announced between the last two
	// refreshes. Both count, because a node can show a change a moment after another node announced it.
	recent, earlier announced
	// found is when a refresh found a change that no event has announced yet.
	found map[changed]time.Time
}

// announced are the changes that events announced.
type announced struct {
	changes map[changed]bool
	full    bool // there were more than announcedLimit
}

// announcedLimit is the maximum number of recorded changes. If more events arrive between two refreshes, no change counts as unannounced.
const announcedLimit = 1000

// reset forgets everything when a new subscription begins.
func (u *unannounced) reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.recent, u.earlier, u.found = announced{}, announced{}, nil
}

// announce records changes that events announced, and forgets that a refresh found them.
func (u *unannounced) announce(changes []Change) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, change := range changes {
		key := changed{change.ID, change.Kind}
		delete(u.found, key)
		if u.recent.full = u.recent.full || len(u.recent.changes) == announcedLimit; u.recent.full {
			continue
		}
		if u.recent.changes == nil {
			u.recent.changes = map[changed]bool{}
		}
		u.recent.changes[key] = true
	}
}

// refreshed records the changes that a refresh found. complete is false if some of them may be older than the subscription.
func (u *unannounced) refreshed(difference snapshot.Difference, complete bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if complete && !u.recent.full && !u.earlier.full {
		for _, id := range difference.Created {
			u.find(changed{id, Created})
		}
		for _, id := range difference.Deleted {
			u.find(changed{id, Deleted})
		}
		for _, name := range difference.Policies {
			u.find(changed{vhost.ID{Name: name}, PolicyChanged})
		}
	}
	u.earlier, u.recent = u.recent, announced{}
}

// find records a change that a refresh found, unless an event announced it.
func (u *unannounced) find(change changed) {
	_, known := u.found[change]
	if known || !isAnnounced(change.id) || u.recent.changes[change] || u.earlier.changes[change] || len(u.found) == announcedLimit {
		return
	}
	if u.found == nil {
		u.found = map[changed]time.Time{}
	}
	u.found[change] = time.Now()
}

// overdue describes a change that a refresh found and that no event has announced for this long; empty if there is none.
func (u *unannounced) overdue(limit time.Duration) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	for change, since := range u.found {
		if time.Since(since) > limit {
			return change.String()
		}
	}
	return ""
}

// String describes the change as the end of a sentence.
func (c changed) String() string {
	switch c.kind {
	case PolicyChanged:
		return fmt.Sprintf("policy %q was changed", c.id.Name)
	case Deleted:
		return fmt.Sprintf("%v was deleted", c.id)
	}
	return fmt.Sprintf("%v was created", c.id)
}

// isAnnounced reports whether the event feed receives events about an object. It receives none about exchanges amq.*, which plugins of
// RabbitMQ create and delete, and drops events about bindings of the event exchange.
func isAnnounced(id vhost.ID) bool {
	switch id.Kind {
	case vhost.KindExchange:
		return !strings.HasPrefix(id.Name, "amq.")
	case vhost.KindBinding:
		return id.Source != management.EventExchange
	}
	return true
}
