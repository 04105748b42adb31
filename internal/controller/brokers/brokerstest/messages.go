package brokerstest

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
	"github.com/warren-mq/warren/internal/vhost"
)

// Transfer moves or deletes as many messages as it may, without looking at them.
func (b *Broker) Transfer(_ context.Context, cluster string, config transfer.Config) (transfer.Progress, error) {
	if err := b.errs.SameCluster(b.Health().Cluster, cluster); err != nil {
		return transfer.Progress{}, err
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
	return transfer.Progress{State: transfer.Moving, Moved: config.Moved + moved}, nil
}

// SetLetters says which messages a queue holds.
func (b *Broker) SetLetters(queue string, letters ...amqp.Delivery) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.letters[queue], b.messages[queue] = letters, len(letters)
}

// SetUncounted has a queue say that it has no messages, as one does that is too busy to count them.
func (b *Broker) SetUncounted(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages[queue] = 0
}

// Look shows the messages of SetLetters.
func (b *Broker) Look(ctx context.Context, cluster string, config transfer.LookConfig) (transfer.Looked, error) {
	counted, exists, err := b.Backlog(ctx, cluster, config.Queue)
	if err == nil || errors.Is(err, brokererr.ErrAccessRefused) {
		b.noteLook(config.Queue, err)
	}
	if err == nil && !exists {
		err = b.errs.Fail(brokererr.ErrNotFound, "no queue '%s'", config.Queue)
	}
	if err != nil {
		return transfer.Looked{}, err
	}
	b.mu.Lock()
	letters := b.letters[config.Queue]
	b.mu.Unlock()
	looked := transfer.Looked{Ready: counted.Ready}
	for i := range letters[:min(len(letters), config.Most)] {
		if ctx.Err() != nil || !config.Visit(&letters[i]) {
			return looked, nil //nolint:nilerr // a look that is stopped has not failed
		}
	}
	return looked, nil
}

func (b *Broker) noteLook(queue string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused[queue] = err
}

// RefusedLook is why the last look at a queue was refused.
func (b *Broker) RefusedLook(queue string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused[queue]
}

// Consumers is what is known of who else consumes a queue.
func (b *Broker) Consumers(queue string) rabbit.Consumers {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.uncounted {
		return rabbit.Consumers{Disabled: true}
	}
	return b.consumers[queue]
}

// SetConsumers says what is known of who else consumes a queue.
func (b *Broker) SetConsumers(queue string, known rabbit.Consumers) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.consumers[queue] = known
}

// SetBacklog says what a queue has besides its ready messages.
func (b *Broker) SetBacklog(queue string, backlog rabbit.Backlog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backlogs[queue] = backlog
}

// Backlog counts the messages of a queue.
func (b *Broker) Backlog(_ context.Context, cluster, queue string) (counted rabbit.Backlog, exists bool, err error) {
	if err := b.errs.SameCluster(b.Health().Cluster, cluster); err != nil {
		return counted, false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.store.View(func(s *snapshot.Snapshot) { _, exists = s.Queues[queue] })
	counted = b.backlogs[queue]
	counted.Ready = b.messages[queue]
	return counted, exists, b.failures[vhost.QueueID(queue)]
}

// Mover is a Broker whose transfers go on until they are told to end.
type Mover struct {
	*Broker
	// Begun are the transfers that have begun.
	Begun chan transfer.Config
	// End ends a transfer.
	End chan error
	// Ended is how far a transfer has come that ends by itself, Stopped one that is told to end early.
	Ended, Stopped transfer.Progress
}

// NewMover makes a Mover that is otherwise like a Broker.
func NewMover(broker *Broker) *Mover {
	return &Mover{
		Broker: broker, Begun: make(chan transfer.Config, 10), End: make(chan error),
		Ended: transfer.Progress{Moved: 3}, Stopped: transfer.Progress{Moved: 1},
	}
}

// Transfer waits until it is told to end.
func (m *Mover) Transfer(ctx context.Context, _ string, config transfer.Config) (transfer.Progress, error) {
	m.Begun <- config
	select {
	case err := <-m.End:
		return m.Ended, err
	case <-ctx.Done():
		return m.Stopped, nil
	}
}
