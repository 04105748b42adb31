package rabbit

import (
	"context"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// countsShare is how long to wait from one count of the messages to the next, at least, as a multiple of what it took.
const countsShare = 50

// Messages is how many messages some queues held when the messages of their vhost were last counted.
type Messages struct {
	// Disabled: messages are never counted; see Config.MessageCountsInterval.
	Disabled bool
	// AsOf is when the count began; zero while there is none.
	AsOf time.Time
	// Of has the number for each queue that was counted and is there. A queue declared after the count counts as empty.
	Of map[string]int64
	// Stuck has the number of dead letters that waited to be routed at two counts in a row, for each queue that holds any. Queues that
	// delay returned messages are left out: RabbitMQ counts both together.
	Stuck map[string]int64
	// Uncounted are those of the queues that were there and did not answer, as when their leader is down; nil if there are none.
	Uncounted []string
}

// count is one count of the messages of a vhost.
type count struct {
	asOf time.Time
	// messages has the queues that hold any.
	messages map[string]management.MessageCount
	// stuck has the queues that hold dead letters that wait to be routed, and did at the count before: others are under way.
	stuck map[string]int64
	// uncounted are queues that did not answer.
	uncounted map[string]bool
}

// newCount keeps of an answer what is not to be taken for granted: most queues are empty and answer. asked are the queues that were
// there before, and last is the count before, if any.
func newCount(asOf time.Time, answered map[string]management.MessageCount, asked map[string]bool, last *count) *count {
	c := &count{
		asOf: asOf, messages: map[string]management.MessageCount{}, stuck: map[string]int64{}, uncounted: map[string]bool{},
	}
	for queue := range asked {
		if _, counted := answered[queue]; !counted {
			c.uncounted[queue] = true
		}
	}
	for queue, numbers := range answered {
		if numbers.Messages > 0 {
			c.messages[queue] = numbers
		}
		if last == nil {
			continue
		}
		if stuck := min(numbers.Held, last.messages[queue].Held); stuck > 0 {
			c.stuck[queue] = stuck
		}
	}
	return c
}

// counts knows how many messages the queues of a vhost hold, for status and metrics: counting takes a request of its own, for
// definitions tell nothing of messages.
type counts struct {
	mu   sync.RWMutex
	last *count    // nil if nothing is known; replaced, never changed
	next time.Time // when to count again
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

// replace takes over a count, or with nil that there is none. The next one is not made before the given time.
func (c *counts) replace(last *count, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = last
	if next.After(c.next) {
		c.next = next
	}
}

// get returns the last count, nil if there is none.
func (c *counts) get() *count {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.last
}

// countMessages counts the messages of the vhost's queues, and the consumers of some, if it is time to, and tells all who share the view.
// What cannot be counted is not known, and is no trouble.
func (r *refresher) countMessages(ctx context.Context) {
	view, began := r.views.get(), time.Now()
	if !view.counts.claimReading(began, r.config.MessageCountsInterval) {
		return
	}
	asked := view.store.Queues()
	answered, err := r.api.MessageCounts(ctx, func(queue string) bool { return asked[queue] })
	if err == nil {
		r.countConsumers(ctx, view)
	}
	if ctx.Err() != nil {
		return // the connection closes; the others count for themselves
	}
	next := time.Now().Add(countsShare * time.Since(began))
	if err != nil {
		r.log.V(1).Info("The messages of queues cannot be counted", "vhost", r.config.VHost, "reason", err.Error())
		view.counts.replace(nil, next)
		return
	}
	view.counts.replace(newCount(began, answered, asked, view.counts.get()), next)
	view.tellAll(snapshot.Notice{Messages: true})
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
	last := current.counts.get()
	if last == nil {
		return Messages{}
	}
	found := Messages{AsOf: last.asOf, Of: make(map[string]int64, len(queues)), Stuck: map[string]int64{}}
	current.store.View(func(s *snapshot.Snapshot) {
		for _, queue := range queues {
			known, exists := s.Queues[queue]
			switch {
			case exists && last.uncounted[queue]:
				found.Uncounted = append(found.Uncounted, queue)
			case exists:
				found.Of[queue] = last.messages[queue].Messages
				if stuck := last.stuck[queue]; stuck > 0 && known.Arguments[vhost.ArgDelayedRetryType] == nil {
					found.Stuck[queue] = stuck
				}
			}
		}
	})
	return found
}
