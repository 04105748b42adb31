package rabbit

import (
	"context"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// countsShare is how long to wait from one count of the messages to the next, at least, as a multiple of what it took.
const countsShare = 50

// counts knows how many messages the queues of a vhost hold, for metrics alone: counting takes a request of its own, for
// definitions tell nothing of messages.
type counts struct {
	mu       sync.RWMutex
	known    bool
	messages map[string]int64 // of the queues that hold any
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

// replace takes over a count, or that there is none. The next one is not made before the given time.
func (c *counts) replace(messages map[string]int64, known bool, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages, c.known = messages, known
	if next.After(c.next) {
		c.next = next
	}
}

// of is how many messages a queue holds; false if that is not known.
func (c *counts) of(queue string) (count int64, known bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.messages[queue], c.known
}

// countMessages counts the messages of the vhost's queues, if it is time to. What cannot be counted is not known, and is no trouble.
func (r *refresher) countMessages(ctx context.Context) {
	view, began := r.views.get(), time.Now()
	if !view.counts.claimReading(began, r.config.MessageCountsInterval) {
		return
	}
	messages, err := r.api.MessageCounts(ctx)
	if ctx.Err() != nil {
		return // the connection closes; the others count for themselves
	}
	if err != nil {
		r.log.V(1).Info("The messages of queues cannot be counted", "vhost", r.config.VHost, "reason", err.Error())
	}
	view.counts.replace(messages, err == nil, time.Now().Add(countsShare*time.Since(began)))
}

// Messages is how many messages a queue of the vhost held when they were last counted; false if that is not known.
func (c *Connection) Messages(queue string) (count int64, known bool) {
	current := c.views.get()
	if current == nil {
		return 0, false
	}
	var exists bool
	current.store.View(func(s *snapshot.Snapshot) { _, exists = s.Queues[queue] })
	count, known = current.counts.of(queue)
	return count, known && exists
}
