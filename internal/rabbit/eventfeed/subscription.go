package eventfeed

import (
	"context"
	"errors"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// ErrEnded means that the subscription ended: the connection was closed, or the queue of the subscription was deleted.
var ErrEnded = errors.New("the subscription to events ended")

const (
	// batchLimit is the maximum number of events in a Batch, and the prefetch of the consumer.
	batchLimit = 128
	// QueueLimit is how many events the broker retains for a process that is too slow. The broker drops the newest events, so a process
	// that missed an event receives at least QueueLimit earlier ones before the next marker.
	QueueLimit = 100_000
)

// Subscription receives the changes in one vhost, in the order in which a node of the broker made them. Its queue is exclusive to its
// connection.
type Subscription struct {
	vhost      string
	queue      string
	markerKey  string
	consumer   *amqp.Channel
	binder     *amqp.Channel
	deliveries <-chan amqp.Delivery
}

// Batch is a set of events that arrived together.
type Batch struct {
	Changes []Change
	// Events is how many events arrived, including events that are not about the vhost.
	Events int
	// Marker is the number of the highest marker that arrived; zero if none did.
	Marker int
}

// Subscribe consumes the events about a vhost over a connection to the vhost of the event exchange. The user needs the permissions to
// configure, write and read queues whose names begin with management.MatchQueue, and to read the event exchange. It returns the error
// of the AMQP library.
func Subscribe(connection *amqpconn.Conn, vhostName string) (*Subscription, error) {
	s := &Subscription{vhost: vhostName, queue: management.MatchQueue + "events-" + connection.ID}
	s.markerKey = s.queue + "."
	var err error
	if s.consumer, err = connection.Connection.Channel(); err != nil {
		return nil, err
	}
	if s.binder, err = connection.Connection.Channel(); err != nil {
		return nil, err
	}
	arguments := amqp.Table{
		"x-queue-type": "classic", vhost.ArgMaxLength: int32(QueueLimit), vhost.ArgOverflow: vhost.OverflowRejectPublish,
	}
	if _, err := s.consumer.QueueDeclare(s.queue, false, false, true, false, arguments); err != nil {
		return nil, err
	}
	for _, key := range bindingKeys {
		if err := s.consumer.QueueBind(s.queue, key, management.EventExchange, false, nil); err != nil {
			return nil, err
		}
	}
	if err := s.consumer.Qos(batchLimit, 0, false); err != nil {
		return nil, err
	}
	s.deliveries, err = s.consumer.Consume(s.queue, "", false, true, false, false, nil)
	return s, err
}

// Next waits for an event, and returns it with all other events that have arrived, up to batchLimit. It acknowledges events before the
// caller handles them: if the process ends, its subscription ends, too. It returns ErrEnded, or the error of the context.
func (s *Subscription) Next(ctx context.Context) (Batch, error) {
	batch := Batch{}
	var last amqp.Delivery
	select {
	case event, open := <-s.deliveries:
		if !open {
			return batch, ErrEnded
		}
		s.add(event, &batch)
		last = event
	case <-ctx.Done():
		return batch, ctx.Err()
	}
	for more := true; more && batch.Events < batchLimit; {
		select {
		case event, open := <-s.deliveries:
			if !open {
				return batch, nil // the next call returns ErrEnded
			}
			s.add(event, &batch)
			last = event
		default:
			more = false
		}
	}
	if err := last.Ack(true); err != nil {
		return batch, ErrEnded
	}
	return batch, nil
}

// add decodes an event. Events about the event exchange itself are markers and other subscriptions.
func (s *Subscription) add(event amqp.Delivery, batch *Batch) {
	batch.Events++
	h := headers(event.Headers)
	if h.text("source_name") == management.EventExchange {
		number, isMarker := strings.CutPrefix(h.text("routing_key"), s.markerKey)
		if reached, err := strconv.Atoi(number); isMarker && err == nil && event.RoutingKey == "binding.created" {
			batch.Marker = max(batch.Marker, reached)
		}
		return
	}
	if change, concerns := parse(event, s.vhost); concerns {
		batch.Changes = append(batch.Changes, change)
	}
}

// Mark sends a marker, which a later batch reports. Its number must be higher than all earlier numbers. Changes that the node of
// the connection made before the call arrive before the marker. A marker is a binding of the subscription's queue. Unmark removes
// the binding.
func (s *Subscription) Mark(number int) error {
	return s.binder.QueueBind(s.queue, s.markerKey+strconv.Itoa(number), management.EventExchange, false, nil)
}

// Unmark removes the binding of a marker.
func (s *Subscription) Unmark(number int) error {
	return s.binder.QueueUnbind(s.queue, s.markerKey+strconv.Itoa(number), management.EventExchange, nil)
}
