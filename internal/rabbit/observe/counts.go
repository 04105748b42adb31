package observe

import (
	"context"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// countsShare is the minimum wait between two counts, as a multiple of the duration of the last one.
const countsShare = 50

// Messages is how many messages queues held when the messages of their vhost were last counted.
type Messages struct {
	// Disabled: messages are never counted; see Config.MessageCountsInterval.
	Disabled bool
	// AsOf is when the count began; zero if there is none.
	AsOf time.Time
	// Of maps each counted queue that exists to its number of messages. A queue declared after the count counts as empty.
	Of map[string]int64
	// Stuck has the number of dead letters that waited to be routed at two counts in a row, for each queue with any. RabbitMQ counts
	// returned messages that it delays together with them.
	Stuck map[string]int64
	// Uncounted are existing queues that did not answer, for example because their leader is down; nil if there are none.
	Uncounted []string
}

// count is one count of the messages of a vhost.
type count struct {
	asOf time.Time
	// messages has the counts of the queues that hold messages.
	messages map[string]management.MessageCount
	// stuck maps each queue to the number of dead letters that waited to be routed at this count and at the previous one.
	stuck map[string]int64
	// uncounted are queues that did not answer.
	uncounted map[string]bool
}

// newCount keeps only non-empty and unanswered queues, because most queues are empty and answer. asked are the queues that existed
// before. last is the previous count; nil if there is none.
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

// counts has the last count of a vhost, for status and metrics. A count needs a separate request, because definitions have no
// counts.
type counts struct {
	mu   sync.RWMutex
	last *count    // nil if nothing is known; replaced, never changed
	next time.Time // when to count again
}

// beginCount reports whether the caller should count now. If so, it returns false to all other callers for the interval.
func (c *counts) beginCount(now time.Time, interval time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if interval <= 0 || now.Before(c.next) {
		return false
	}
	c.next = now.Add(interval)
	return true
}

// replace sets the last count; nil for none. The next count begins no earlier than the given time.
func (c *counts) replace(last *count, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = last
	if next.After(c.next) {
		c.next = next
	}
}

// get returns the last count; nil if there is none.
func (c *counts) get() *count {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.last
}

// countMessages counts the messages of all queues, and the consumers of wanted queues, if a count is due. It notifies all
// connections that share the view. A failed count does not fail the refresh.
func (r *refresher) countMessages(ctx context.Context) {
	view, began := r.views.get(), time.Now()
	if !view.counts.beginCount(began, r.MessageCountsInterval) {
		return
	}
	asked := view.store.Queues()
	answered, err := r.ReadAPI.MessageCounts(ctx, func(queue string) bool { return asked[queue] })
	if err == nil {
		r.countConsumers(ctx, view)
	}
	if ctx.Err() != nil {
		return // this connection closes, and the others count themselves
	}
	next := time.Now().Add(countsShare * time.Since(began))
	if err != nil {
		r.Log.Info("Cannot count the messages of queues; statuses and metrics have no counts until a count succeeds",
			"vhost", r.VHost, "reason", err.Error())
		view.counts.replace(nil, next)
		return
	}
	view.counts.replace(newCount(began, answered, asked, view.counts.get()), next)
	view.broadcast(snapshot.Notice{Messages: true})
}

// Messages returns how many messages queues held when they were last counted.
func (o *Observer) Messages(queues []string) Messages {
	if o.MessageCountsInterval <= 0 {
		return Messages{Disabled: true}
	}
	current := o.get()
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
			_, exists := s.Queues[queue]
			switch {
			case exists && last.uncounted[queue]:
				found.Uncounted = append(found.Uncounted, queue)
			case exists:
				found.Of[queue] = last.messages[queue].Messages
				if stuck := last.stuck[queue]; stuck > 0 {
					found.Stuck[queue] = stuck
				}
			}
		}
	})
	return found
}
