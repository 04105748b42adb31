package rabbit

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// consumersLimit is how long one count of consumers takes at most; queues that it does not get to are counted another time.
	// RabbitMQ gives a queue without a leader a quarter of a second.
	consumersLimit = 2 * time.Second
	// consumersAtATime is how many queues are asked at a time: more would take the channels that changes need.
	consumersAtATime = 4
	// refusedPause is how long a broker is not asked again about a queue after a refusal, which RabbitMQ logs.
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

// consumers knows, for some queues of a vhost, whether others consume them. Each queue is asked by itself, for no listing does as well: see
// docs/adr/0038-consumers-of-dead-letter-queues.md. A queue for which nobody has called get since the last count leaves with the next.
type consumers struct {
	mu sync.Mutex
	of map[string]*consumersOf // by queue
}

// consumersOf is what is known of one queue.
type consumersOf struct {
	Consumers

	wanted    bool      // get was called since the last count
	notBefore time.Time // when to ask a broker again that has refused to tell
}

// get returns what is known of a queue, and has the next count ask about the queue.
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

// begin begins a count, and returns the queues to ask about, in any order: a count that ends early does not always leave out the same.
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

// note takes note of what a count has found.
func (c *consumers) note(queue string, others bool) {
	c.change(queue, func(known *consumersOf) {
		if known.Others != others {
			known.Consumers = Consumers{Others: others}
		}
		known.Counts++
	})
}

// refuse takes note that the broker does not tell the user of a queue.
func (c *consumers) refuse(queue string, notBefore time.Time) {
	c.change(queue, func(known *consumersOf) { known.Consumers, known.notBefore = Consumers{}, notBefore })
}

// change changes what is known of a queue, unless nobody wants to know any more.
func (c *consumers) change(queue string, change func(*consumersOf)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.of[queue]; known != nil {
		change(known)
	}
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

// countConsumers counts the consumers of the queues that somebody wants to know of. What cannot be counted stays as it is known. Only
// quorum queues are asked, for a classic queue that is asked does not expire; all other queues are taken to have no consumers.
func (r *refresher) countConsumers(ctx context.Context, view *view) {
	if !r.matcher.isMatched() || r.matcher.channels.IsBlocked() {
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

// countConsumersOf counts the consumers of one queue. The broker does not tell Warren's own from others, so an answer of a time when Warren
// itself was a consumer is left out.
func (r *refresher) countConsumersOf(ctx context.Context, view *view, queue string) {
	began := time.Now()
	declared, err := declaredQueue(ctx, r.matcher.channels, r.info.Identity.Key(), queue)
	switch {
	case errors.Is(err, brokererr.ErrAccessRefused):
		view.consumers.refuse(queue, began.Add(refusedPause))
	case err != nil || r.config.Observations.takes.since(began, clusterQueue{r.info.Identity, r.config.VHost, queue}):
	default:
		view.consumers.note(queue, declared.Consumers > 0)
	}
}

// declaredQueue is what a passive declaration tells of a queue, at the cluster of this name: how many messages are ready, and how many
// consume the queue. Whoever holds messages of a quorum queue is counted as a consumer.
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
