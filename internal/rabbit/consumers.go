package rabbit

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

const (
	// consumersLimit is how long one count of consumers takes at most; queues that it does not get to are counted another time.
	// A queue whose leader is down takes RabbitMQ a quarter of a second.
	consumersLimit = 2 * time.Second
	// consumersAtATime is how many queues are asked at a time: more would take the channels that changes need.
	consumersAtATime = 4
	// refusedPause is how long a queue is not asked that the user may not ask: RabbitMQ logs each refusal.
	refusedPause = time.Hour
)

// Consumers is what Warren knows of who else consumes a queue.
type Consumers struct {
	// Disabled: nobody counts; see Config.MessageCountsInterval.
	Disabled bool
	// Others: somebody else consumed the queue, or held messages of the queue, when consumers were last counted.
	Others bool
	// Counts is how many counts in a row have found the same; zero before the first. A count while Warren itself takes messages out of the
	// queue is none.
	Counts int
}

// consumers knows, for some queues of a vhost, whether others consume them. Each is asked by itself, for no listing does as well: see
// docs/adr/0038-consumers-of-dead-letter-queues.md. Asked are those for which get was called since the last count; a queue for which it was
// not leaves with the next count. A restart forgets all.
type consumers struct {
	mu    sync.Mutex
	asked map[string]bool
	found map[string]Consumers
	// refused is since when the user may not ask.
	refused map[string]time.Time
}

// get returns what is known of a queue, and has the next count ask about the queue.
func (c *consumers) get(queue string) Consumers {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = map[string]bool{}
	}
	c.asked[queue] = true
	return c.found[queue]
}

// begin begins a count, and returns the queues to ask.
func (c *consumers) begin(now time.Time) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := c.asked
	c.asked = nil
	maps.DeleteFunc(c.found, func(queue string, _ Consumers) bool { return !wanted[queue] })
	maps.DeleteFunc(c.refused, func(_ string, since time.Time) bool { return now.Sub(since) >= refusedPause })
	maps.DeleteFunc(wanted, func(queue string, _ bool) bool { return !c.refused[queue].IsZero() })
	return slices.Collect(maps.Keys(wanted)) // in any order: a count that ends early does not always leave out the same queues
}

// note takes note of what a count has found.
func (c *consumers) note(queue string, others bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := Consumers{Others: others, Counts: 1}
	if before := c.found[queue]; before.Others == others {
		now.Counts += before.Counts
	}
	if c.found == nil {
		c.found = map[string]Consumers{}
	}
	c.found[queue] = now
}

// refuse takes note that the user may not ask about a queue.
func (c *consumers) refuse(queue string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused == nil {
		c.refused = map[string]time.Time{}
	}
	c.refused[queue] = at
	delete(c.found, queue)
}

// Consumers is what is known of who else consumes a queue, for those who ask about the queue after each count; see Notice.Messages.
func (c *Connection) Consumers(queue string) Consumers {
	if c.config.MessageCountsInterval <= 0 {
		return Consumers{Disabled: true}
	}
	current := c.views.get()
	if current == nil {
		return Consumers{}
	}
	return current.consumers.get(queue)
}

// countConsumers counts the consumers of the queues that somebody wants to know of. What cannot be counted stays as it is known.
func (r *refresher) countConsumers(ctx context.Context, view *view) {
	if !r.matcher.isMatched() || r.matcher.channels.IsBlocked() {
		return
	}
	queues := view.consumers.begin(time.Now())
	view.store.View(func(s *snapshot.Snapshot) {
		queues = slices.DeleteFunc(queues, func(queue string) bool {
			_, exists := s.Queues[queue]
			if !exists {
				view.consumers.note(queue, false)
			}
			return !exists
		})
	})
	limited, cancel := context.WithTimeout(ctx, consumersLimit)
	defer cancel()
	next := make(chan string, len(queues))
	for _, queue := range queues {
		next <- queue
	}
	close(next)
	var running sync.WaitGroup
	for range min(consumersAtATime, len(queues)) {
		running.Go(func() {
			for queue := range next {
				if limited.Err() == nil {
					r.countConsumersOf(limited, view, queue)
				}
			}
		})
	}
	running.Wait()
}

// countConsumersOf counts the consumers of one queue. The broker does not tell Warren's own from others, so an answer of a time with any
// is left out.
func (r *refresher) countConsumersOf(ctx context.Context, view *view, queue string) {
	began := time.Now()
	declared, err := declaredQueue(ctx, r.matcher.channels, r.info.Identity.Key(), queue)
	switch {
	case errors.Is(err, brokererr.ErrAccessRefused):
		view.consumers.refuse(queue, began)
	case err != nil || r.config.Observations.takes.since(began, place{r.info.Identity, r.config.VHost, queue}):
	default:
		view.consumers.note(queue, declared.Consumers > 0)
	}
}

// declaredQueue is what a passive declaration tells of a queue, at the cluster of this name. It counts as a consumer who holds messages.
func declaredQueue(ctx context.Context, channels *amqpconn.Pool, cluster, queue string) (amqp.Queue, error) {
	answer := make(chan amqp.Queue, 1) // for the operation goes on when the context ends
	err := channels.DoOnCluster(ctx, cluster, func(channel *amqp.Channel) error {
		declared, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		answer <- declared
		return err
	})
	if err != nil {
		return amqp.Queue{}, err
	}
	return <-answer, nil
}
