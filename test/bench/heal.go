package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// measureHeal deletes main queues and measures the time until they are recreated, first with and then without the broker's
// events.
func measureHeal(ctx context.Context, w *world) ([]row, error) {
	with, err := w.measure(ctx, "heal, events", w.heal)
	if err != nil {
		return nil, err
	}
	if err := w.setEvents(ctx, false); err != nil {
		return []row{with}, err
	}
	without, err := w.measure(ctx, "heal, no events", w.heal)
	if err != nil {
		return []row{with}, err
	}
	return []row{with, without}, w.setEvents(ctx, true)
}

// setEvents enables or disables the broker's events, as the plugin rabbitmq_event_exchange does when it is enabled or disabled.
// It waits until the manager reports the change, and closes a connection of the manager, which would notice late otherwise.
func (w *world) setEvents(ctx context.Context, announced bool) error {
	expression, connection := "rabbit_exchange_type_event:unregister().", "warren events /"
	if announced {
		expression, connection = "rabbit_exchange_type_event:register().", "warren /"
	}
	w.broker.Eval(expression)
	closed := func(context.Context) (bool, error) {
		return w.vhost.Broker.CloseConnections(w.program, connection) > 0, nil
	}
	if err := wait.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, closed); err != nil {
		return fmt.Errorf("the broker lists no connection %q: %w", connection, err)
	}
	return w.until(ctx, fmt.Sprintf("the manager reports that events arrive: %t", announced), 1, func() int {
		connection, err := w.brokerConnection(ctx)
		if err != nil || !isReady(connection.Status.Conditions) || !receivesEvents(connection.Status.Capabilities, announced) {
			return 0
		}
		return 1
	})
}

// receivesEvents reports whether the status agrees with events: the manager receives them, or the status says why it does not.
func receivesEvents(known *v1alpha1.BrokerCapabilities, events bool) bool {
	return known != nil && known.Events == events && (known.EventsReason == "") == events
}

// heal deletes one in a hundred main queues, but at least ten, and waits until all are recreated. The next one is deleted when
// one was recreated. If that takes long, the deletions are spread over one resyncInterval.
func (w *world) heal(ctx context.Context) (outcome, error) {
	connection, err := w.vhost.Connect("bench")
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = connection.Close() }()
	count := min(max(10, w.count/100), w.count)
	pace := w.given.interval / time.Duration(count)
	type healed struct {
		after time.Duration
		err   error
	}
	all := make(chan healed, count)
	for number := range count {
		back := make(chan struct{})
		go func() {
			defer close(back)
			after, err := deleteAndAwait(ctx, connection, nameOf(number*w.count/count))
			all <- healed{after, err}
		}()
		select {
		case <-back:
		case <-time.After(pace):
		}
	}
	var times []time.Duration
	for range count {
		h := <-all
		err = errors.Join(err, h.err)
		times = append(times, h.after)
	}
	if err != nil {
		return outcome{}, err
	}
	result := outcome{note: fmt.Sprintf("%d queues, each back after %s", count, spread(times))}
	return result, w.untilAllReady(ctx)
}

// deleteAndAwait deletes a queue and polls until it exists again. The interval grows with the time, so the result is accurate to
// one or two percent.
func deleteAndAwait(ctx context.Context, connection *amqp.Connection, queue string) (time.Duration, error) {
	channel, err := connection.Channel()
	if err != nil {
		return 0, err
	}
	if _, err := channel.QueueDelete(queue, false, false, false); err != nil {
		return 0, fmt.Errorf("delete queue %q: %w", queue, err)
	}
	deleted := time.Now()
	for ; ; channel, err = connection.Channel() { // an error closes the channel
		if err != nil {
			return 0, err
		}
		_, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		after := time.Since(deleted)
		if err == nil {
			return after, channel.Close()
		}
		if refusal, is := errors.AsType[*amqp.Error](err); !is || refusal.Code != amqp.NotFound {
			return 0, fmt.Errorf("check queue %q: %w", queue, err)
		}
		if after > timeLimit {
			return 0, fmt.Errorf("queue %q was not recreated", queue)
		}
		if err := pause(ctx, max(5*time.Millisecond, after/50)); err != nil {
			return 0, err
		}
	}
}

// spread returns the median and the maximum of some times.
func spread(times []time.Duration) string {
	if len(times) == 0 {
		return "no time"
	}
	sorted := slices.Sorted(slices.Values(times))
	median, longest := sorted[len(sorted)/2], sorted[len(sorted)-1]
	return fmt.Sprintf("%s (median), %s (longest)", median.Round(time.Millisecond), longest.Round(time.Millisecond))
}
