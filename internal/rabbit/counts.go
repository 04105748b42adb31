package rabbit

import (
	"context"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// countsShare is how long to wait from one count of the messages to the next, at least, as a multiple of what it took.
const countsShare = 50

// Messages is how many messages some queues held when the messages of their vhost were last counted.
type Messages struct {
	// Disabled: messages are never counted; see Config.MessageCountsInterval.
	Disabled bool
	// AsOf is when the count began; zero while there is none.
	AsOf time.Time
	// Of has the number for each queue that is there; nothing while AsOf is zero. A queue declared after the count counts as empty.
	Of map[string]int64
}

// counts knows how many messages the queues of a vhost hold, for status and metrics: counting takes a request of its own, for
// definitions tell nothing of messages.
type counts struct {
	mu       sync.RWMutex
	asOf     time.Time        // zero if nothing is known
	messages map[string]int64 // of the queues that hold any; replaced, never changed
	next     time.Time        // when to count again
}

// claimReading says whether it is time for the caller to count; nobody else does so meanwhile.
func (c *counts) claimReading(now time.Time, interval time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if interval <= 0 || now.Before(c.next) {
		return false
	}
	c.next = now.Add(interval)
	return true
}

// replace takes over a count, or with a zero time that there is none. The next one is not made before the given time.
func (c *counts) replace(messages map[string]int64, asOf, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages, c.asOf = messages, asOf
	if next.After(c.next) {
		c.next = next
	}
}

// last returns the last count, and when it was made.
func (c *counts) last() (messages map[string]int64, asOf time.Time) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.messages, c.asOf
}

// countMessages counts the messages of the vhost's queues, if it is time to, and tells all who share the view. What cannot be counted
// is not known, and is no trouble.
func (r *refresher) countMessages(ctx context.Context) {
	view, began := r.views.get(), time.Now()
	if !view.counts.claimReading(began, r.config.MessageCountsInterval) {
		return
	}
	messages, err := r.api.MessageCounts(ctx)
	if ctx.Err() != nil {
		return // the connection closes; the others count for themselves
	}
	next := time.Now().Add(countsShare * time.Since(began))
	if err != nil {
		r.log.V(1).Info("The messages of queues cannot be counted", "vhost", r.config.VHost, "reason", err.Error())
		view.counts.replace(nil, time.Time{}, next)
		return
	}
	view.counts.replace(messages, began, next)
	for _, other := range view.all() {
		other.viewer.notify(snapshot.Notice{Messages: true})
	}
}

// Messages is how many messages some queues of the vhost held when they were last counted.
func (c *Connection) Messages(queues []string) Messages {
	if c.config.MessageCountsInterval <= 0 {
		return Messages{Disabled: true}
	}
	current := c.views.get()
	if current == nil {
		return Messages{}
	}
	messages, asOf := current.counts.last()
	if asOf.IsZero() {
		return Messages{}
	}
	found := Messages{AsOf: asOf, Of: make(map[string]int64, len(queues))}
	current.store.View(func(s *snapshot.Snapshot) {
		for _, queue := range queues {
			if _, exists := s.Queues[queue]; exists {
				found.Of[queue] = messages[queue]
			}
		}
	})
	return found
}
