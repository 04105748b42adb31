package observe

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// consumersLimit limits the duration of one count of consumers. The next count asks the remaining queues. RabbitMQ waits a quarter of a
	// second for a queue without a leader.
	consumersLimit = 2 * time.Second
	// consumersAtATime is how many queues are asked at a time. More would use up the channels that changes need.
	consumersAtATime = 4
	// refusedPause is the wait after the broker has refused to count the consumers of a queue, because RabbitMQ logs each refusal.
	refusedPause = time.Hour
)

// Consumers describes other consumers of a queue.
type Consumers struct {
	// Disabled: consumers are never counted; see Config.MessageCountsInterval.
	Disabled bool
	// Others: at the last count, other clients consumed the queue or held its messages.
	Others bool
	// Counts is the number of consecutive counts with the same result; zero before the first, and after a refusal. Counts while Warren
	// itself consumes the queue, or until consumerSettle after that, are ignored.
	Counts int
}

// consumers records, for some queues of a vhost, whether other clients consume them. It needs a request for each queue, because no listing
// shows consumers as accurately; see ADR 0022. A count drops the queues for which get was not called since the previous count.
type consumers struct {
	mu sync.Mutex
	of map[string]*consumersOf // by queue
}

type consumersOf struct {
	Consumers

	wanted    bool      // get was called since the last count
	notBefore time.Time // the earliest next count after a refusal
}

// get returns the last result for a queue, and includes the queue in the next count.
func (c *consumers) get(queue string) Consumers {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.of[queue]
	if known == nil {
		known = &consumersOf{}
		if c.of == nil {
			c.of = map[string]*consumersOf{}
		}
		c.of[queue] = known
	}
	known.wanted = true
	return known.Consumers
}

// begin starts a count, and returns its queues in random order, so that counts that end early do not always leave out the same queues.
func (c *consumers) begin(now time.Time) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.of, func(_ string, known *consumersOf) bool { return !known.wanted })
	var queues []string
	for queue, known := range c.of {
		known.wanted = false
		if !now.Before(known.notBefore) {
			queues = append(queues, queue)
		}
	}
	return queues
}

// note records a result.
func (c *consumers) note(queue string, others bool) {
	c.change(queue, func(known *consumersOf) {
		if known.Others != others {
			known.Consumers = Consumers{Others: others}
		}
		known.Counts++
	})
}

// refuse records that the broker refused to count the consumers of a queue.
func (c *consumers) refuse(queue string, notBefore time.Time) {
	c.change(queue, func(known *consumersOf) { known.Consumers, known.notBefore = Consumers{}, notBefore })
}

// change changes the entry of a queue, if it is still wanted.
func (c *consumers) change(queue string, change func(*consumersOf)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.of[queue]; known != nil {
		change(known)
	}
}

// Consumers describes other consumers of a queue. Call it after each count to keep the queue in the counts; see Notice.Messages.
func (o *Observer) Consumers(queue string) Consumers {
	if o.MessageCountsInterval <= 0 {
		return Consumers{Disabled: true}
	}
	current := o.get()
	if current == nil {
		return Consumers{}
	}
	return current.consumers.get(queue)
}

// countConsumers counts the consumers of the wanted queues. A queue that cannot be counted keeps its last result. It queries only quorum
// queues, because a passive declaration delays the expiry of a classic queue. It records other queues as having no other consumers.
func (r *refresher) countConsumers(ctx context.Context, view *view) {
	if !r.Matcher.IsMatched() || r.Channels.IsBlocked() {
		return
	}
	var quorum []string
	view.store.View(func(s *snapshot.Snapshot) {
		for _, queue := range view.consumers.begin(time.Now()) {
			if s.Queues[queue].Type() == vhost.TypeQuorum {
				quorum = append(quorum, queue)
			} else {
				view.consumers.note(queue, false)
			}
		}
	})
	limited, cancel := context.WithTimeout(ctx, consumersLimit)
	defer cancel()
	var counting sync.WaitGroup
	for first := range consumersAtATime {
		counting.Go(func() {
			for i := first; i < len(quorum) && limited.Err() == nil; i += consumersAtATime {
				r.countConsumersOf(limited, view, quorum[i])
			}
		})
	}
	counting.Wait()
}

// countConsumersOf counts the consumers of one queue. It drops the answer if Warren itself consumed the queue during the count, because the
// broker does not distinguish consumers.
func (r *refresher) countConsumersOf(ctx context.Context, view *view, queue string) {
	began := time.Now()
	at := clusterQueue{cluster: r.info.Identity, vhost: r.VHost, queue: queue}
	declared, exists, err := r.Channels.DeclaredQueue(ctx, at.cluster.Key(), queue)
	switch {
	case errors.Is(err, brokererr.ErrAccessRefused):
		view.consumers.refuse(queue, began.Add(refusedPause))
	case err != nil || !exists || r.Observations.consumed.since(began, at):
	default:
		view.consumers.note(queue, declared.Consumers > 0)
	}
}
