package main

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// measureTiers drops a delay tier from all ConsumerQueues while it has messages. For a while the manager must not delete any of
// them. Then the messages are removed, and the time until the delay tiers are deleted is measured.
func measureTiers(ctx context.Context, w *world) ([]row, error) {
	if err := w.setTiers(ctx, "30s", "1h"); err != nil {
		return nil, err
	}
	queues, err := w.tierQueues("1h")
	if err != nil {
		return nil, err
	}
	connection, err := w.vhost.Connect("bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	if err := publishToEach(ctx, connection, queues); err != nil {
		return nil, err
	}
	kept, err := w.measure(ctx, "tiers, kept", func(ctx context.Context) (outcome, error) {
		patches, err := w.patchTiers(ctx, w.count, "30s")
		if err != nil {
			return outcome{}, err
		}
		return outcome{own: patches.writes()}, pause(ctx, w.given.idle)
	})
	if err != nil {
		return nil, err
	}
	kept.note = tiersNote(kept)
	gone, err := w.measure(ctx, "tiers, gone", func(ctx context.Context) (outcome, error) {
		if err := purgeEach(connection, queues); err != nil {
			return outcome{}, err
		}
		return outcome{}, w.untilTiers(ctx, "30s")
	})
	if err != nil {
		return []row{kept}, err
	}
	return []row{kept, gone}, nil
}

// tiersNote describes the manager's requests while it waits for messages to leave.
func tiersNote(r row) string {
	seconds := r.took.Seconds()
	return fmt.Sprintf("manager %.1f%% of a core; %.1f HTTP and %.1f AMQP requests per second",
		100*r.cpu.manager.Seconds()/seconds, r.http.total()/seconds, r.amqp.total()/seconds)
}

// setTiers sets the delay tiers of all ConsumerQueues and waits until they have exactly these.
func (w *world) setTiers(ctx context.Context, delays ...v1alpha1.Duration) error {
	if _, err := w.patchTiers(ctx, w.count, delays...); err != nil {
		return err
	}
	return w.untilTiers(ctx, delays...)
}

// untilTiers waits until all ConsumerQueues are Ready and their status lists as many objects as these delay tiers have.
func (w *world) untilTiers(ctx context.Context, delays ...v1alpha1.Duration) error {
	desired, err := w.desired(0, delays...)
	if err != nil {
		return err
	}
	objects := len(desired.Exchanges) + len(desired.Queues) + len(desired.Bindings)
	return w.until(ctx, fmt.Sprintf("all ConsumerQueues have the delay tiers %v only", delays), w.count, func() int {
		return w.resources.count(func(_ string, s state) bool { return s.ready && s.objects == objects })
	})
}

// desired returns the topology of a ConsumerQueue with some delay tiers.
func (w *world) desired(number int, delays ...v1alpha1.Duration) (topology.Topology, error) {
	version, err := vhost.ParseVersion(w.vhost.Broker.Version)
	if err != nil {
		return topology.Topology{}, err
	}
	cq := w.layout.consumerQueue(number)
	cq.Spec.Retry.DelayTiers = tiers(delays...)
	return topology.Desired(cq, version)
}

// tierQueues returns the queues of one delay tier of all ConsumerQueues.
func (w *world) tierQueues(delay v1alpha1.Duration) ([]string, error) {
	var names []string
	for number := range w.count {
		desired, err := w.desired(number, delay)
		if err != nil {
			return nil, err
		}
		for _, queue := range desired.Queues {
			if queue.Role == v1alpha1.RoleDelayTier {
				names = append(names, queue.Name)
			}
		}
	}
	return names, nil
}

// publishToEach publishes one message to each queue and waits until the broker has confirmed all of them.
func publishToEach(ctx context.Context, connection *amqp.Connection, queues []string) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = channel.Close() }()
	if err := channel.Confirm(false); err != nil {
		return err
	}
	confirms := make([]*amqp.DeferredConfirmation, len(queues))
	for i, queue := range queues {
		message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("wait")}
		if confirms[i], err = channel.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, message); err != nil {
			return fmt.Errorf("publish to queue %q: %w", queue, err)
		}
	}
	for i, confirm := range confirms {
		if taken, err := confirm.WaitContext(ctx); err != nil || !taken {
			return fmt.Errorf("publish to queue %q: taken: %t, %w", queues[i], taken, err)
		}
	}
	return nil
}

// purgeEach removes the message from each queue. It fails if a message is missing.
func purgeEach(connection *amqp.Connection, queues []string) error {
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = channel.Close() }()
	for _, queue := range queues {
		messages, err := channel.QueuePurge(queue, false)
		if err != nil {
			return fmt.Errorf("purge queue %q: %w", queue, err)
		}
		if messages != 1 {
			return fmt.Errorf("queue %q has %d messages, not the one that was published", queue, messages)
		}
	}
	return nil
}
