package brokerstest

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// Move moves or deletes as many messages as the config allows. It does not read them.
func (b *Broker) Move(_ context.Context, cluster string, config mover.Config) (mover.Progress, error) {
	if err := b.errs.SameCluster(b.Health().Cluster, cluster); err != nil {
		return mover.Progress{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	moved := min(b.messages[config.Queue], config.Total-config.Moved)
	if config.Limit > 0 {
		moved = min(moved, config.Limit-config.Moved)
	}
	if !config.DryRun {
		b.messages[config.Queue] -= moved
		if !config.Delete {
			b.messages[config.Destination] += moved
		}
	}
	return mover.Progress{State: mover.Moving, Moved: config.Moved + moved}, nil
}

// SetDeadLetters sets the messages of a queue.
func (b *Broker) SetDeadLetters(queue string, deadLetters ...amqp.Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deadLetters[queue], b.messages[queue] = deadLetters, len(deadLetters)
}

// SetUncounted makes a queue report zero messages, as a busy quorum queue does.
func (b *Broker) SetUncounted(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages[queue] = 0
}

// Browse passes the messages of SetDeadLetters to the visitor.
func (b *Broker) Browse(ctx context.Context, cluster string, config mover.BrowseConfig) (mover.Browsed, error) {
	counted, exists, err := b.CountQueue(ctx, cluster, config.Queue, "")
	if err == nil || errors.Is(err, brokererr.ErrAccessRefused) {
		b.recordBrowse(config.Queue, err)
	}
	if err == nil && !exists {
		err = b.errs.Fail(brokererr.ErrNotFound, "no queue '%s'", config.Queue)
	}
	if err != nil {
		return mover.Browsed{}, err
	}
	b.mu.Lock()
	deadLetters := b.deadLetters[config.Queue]
	browsed := mover.Browsed{Ready: counted.Ready}
	if b.consumers[config.Queue].Others {
		browsed.Consumers = 1
	}
	b.mu.Unlock()
	for i := range deadLetters[:min(len(deadLetters), config.MaxMessages)] {
		if ctx.Err() != nil {
			return browsed, nil //nolint:nilerr // stopping early is not a failure
		}
		browsed.Examined++
		if len(deadLetters[i].Body) > amqpconn.LargestBody {
			browsed.TooLarge++
		} else if !config.Visit(i, &deadLetters[i]) {
			return browsed, nil
		}
	}
	return browsed, nil
}

func (b *Broker) recordBrowse(queue string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused[queue] = err
}

// RefusedBrowse returns why the broker refused the last Browse of a queue; nil if it did not.
func (b *Broker) RefusedBrowse(queue string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused[queue]
}

// Consumers returns the result that SetConsumers has set for a queue.
func (b *Broker) Consumers(queue string) rabbit.Consumers {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.uncounted {
		return rabbit.Consumers{Disabled: true}
	}
	return b.consumers[queue]
}

// SetConsumers sets the result of Consumers for a queue. Browse reports one consumer if there are others.
func (b *Broker) SetConsumers(queue string, known rabbit.Consumers) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.consumers[queue] = known
}

// SetQueueCounts sets the messages of a queue that are not ready.
func (b *Broker) SetQueueCounts(queue string, counts rabbit.QueueCounts) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queueCounts[queue] = counts
}

// CountQueue returns how many messages a queue has, and whether the queue exists.
func (b *Broker) CountQueue(_ context.Context, cluster, queue, _ string) (counted rabbit.QueueCounts, exists bool, err error) {
	if err := b.errs.SameCluster(b.Health().Cluster, cluster); err != nil {
		return counted, false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.store.View(func(s *snapshot.Snapshot) { _, exists = s.Queues[queue] })
	counted = b.queueCounts[queue]
	counted.Ready = b.messages[queue]
	return counted, exists, b.failures[vhost.QueueID(queue)]
}

// Mover is a Broker whose moves run until the test ends them.
type Mover struct {
	*Broker
	// Begun receives the config of each move that begins.
	Begun chan mover.Config
	// End ends a move with the sent error.
	End chan error
	// Ended is the progress of a move that End ends; Stopped is the progress if its context ends first.
	Ended, Stopped mover.Progress
}

// NewMover returns a Mover that uses a Broker for all other methods.
func NewMover(broker *Broker) *Mover {
	return &Mover{
		Broker: broker, Begun: make(chan mover.Config, 10), End: make(chan error),
		Ended: mover.Progress{Moved: 3}, Stopped: mover.Progress{Moved: 1},
	}
}

// Move waits until the test sends to End or the context ends.
func (m *Mover) Move(ctx context.Context, _ string, config mover.Config) (mover.Progress, error) {
	m.Begun <- config
	select {
	case err := <-m.End:
		return m.Ended, err
	case <-ctx.Done():
		return m.Stopped, nil
	}
}
