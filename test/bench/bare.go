package main

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// measureBare measures how long the broker takes for the objects of all ConsumerQueues without a manager. A program declares and
// deletes them over one connection with 16 channels. Each channel waits for one response at a time.
func measureBare(ctx context.Context, w *world) ([]row, error) {
	topologies, err := w.topologies()
	if err != nil {
		return nil, err
	}
	bare := w.vhost.Broker.VHost(w.program, "bare")
	bare.Create()
	connection, err := bare.Connect("bench")
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	var rows []row
	for _, step := range []struct {
		phase string
		do    func(*amqp.Channel, topology.Topology) error
		first bool // the topology with the shared objects is declared first and deleted last
	}{
		{"bare declare", declare, true},
		{"bare delete", remove, false},
	} {
		r, err := w.measure(ctx, step.phase, func(context.Context) (outcome, error) {
			return outcome{}, overChannels(connection, topologies, step.first, step.do)
		})
		if err != nil {
			return rows, fmt.Errorf("%s: %w", step.phase, err)
		}
		r.http, r.amqp, r.writes = nil, nil, nil // no manager runs
		rows = append(rows, r)
	}
	w.declaring, w.deleting = rows[0].took, rows[1].took
	bare.Delete()
	return rows, nil
}

// topologies returns the topologies of the ConsumerQueues. Shared objects are only in the first.
func (w *world) topologies() ([]topology.Topology, error) {
	version, err := vhost.ParseVersion(w.vhost.Broker.Version)
	if err != nil {
		return nil, err
	}
	seen := vhost.IDs{}
	isNew := func(id vhost.ID) bool {
		known := seen[id]
		seen[id] = true
		return !known
	}
	list := make([]topology.Topology, w.count)
	for number := range w.count {
		desired, err := topology.Desired(w.layout.consumerQueue(number), version)
		if err != nil {
			return nil, err
		}
		for _, exchange := range desired.Exchanges {
			if isNew(exchange.ID()) {
				list[number].Exchanges = append(list[number].Exchanges, exchange)
			}
		}
		for _, queue := range desired.Queues {
			if isNew(queue.ID()) {
				list[number].Queues = append(list[number].Queues, queue)
			}
		}
		list[number].Bindings = desired.Bindings
	}
	return list, nil
}

// overChannels calls a function with each topology on one of the channels, with the first topology before or after all others.
func overChannels(
	connection *amqp.Connection, topologies []topology.Topology, first bool, do func(*amqp.Channel, topology.Topology) error,
) error {
	channels := make(chan *amqp.Channel, parallel)
	for range parallel {
		channel, err := connection.Channel()
		if err != nil {
			return err
		}
		channels <- channel
	}
	with := func(number int) error {
		channel := <-channels
		defer func() { channels <- channel }()
		return do(channel, topologies[number])
	}
	if first {
		if err := with(0); err != nil {
			return err
		}
	}
	if err := forEach(len(topologies)-1, func(number int) error { return with(number + 1) }); err != nil || first {
		return err
	}
	return with(0)
}

func declare(channel *amqp.Channel, desired topology.Topology) error {
	for _, exchange := range desired.Exchanges {
		if err := channel.ExchangeDeclare(exchange.Name, string(exchange.Type), true, false, false, false, nil); err != nil {
			return fmt.Errorf("declare exchange %q: %w", exchange.Name, err)
		}
	}
	for _, queue := range desired.Queues {
		if _, err := channel.QueueDeclare(queue.Name, true, false, false, false, amqp.Table(queue.Arguments)); err != nil {
			return fmt.Errorf("declare queue %q: %w", queue.Name, err)
		}
	}
	for _, binding := range desired.Bindings {
		err := channel.QueueBind(binding.Destination, binding.RoutingKey, binding.Source, false, amqp.Table(binding.Arguments))
		if err != nil {
			return fmt.Errorf("bind queue %q to exchange %q: %w", binding.Destination, binding.Source, err)
		}
	}
	return nil
}

// remove deletes the objects that Warren deletes: all except source exchanges.
func remove(channel *amqp.Channel, desired topology.Topology) error {
	for _, queue := range desired.Queues {
		if _, err := channel.QueueDelete(queue.Name, false, false, false); err != nil {
			return fmt.Errorf("delete queue %q: %w", queue.Name, err)
		}
	}
	for _, exchange := range desired.Exchanges {
		if exchange.Role == v1alpha1.RoleSource {
			continue
		}
		if err := channel.ExchangeDelete(exchange.Name, false, false); err != nil {
			return fmt.Errorf("delete exchange %q: %w", exchange.Name, err)
		}
	}
	return nil
}
