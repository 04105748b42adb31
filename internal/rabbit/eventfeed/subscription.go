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

// ErrEnded says that the subscription ended: the connection was closed, or the queue of the subscription deleted.
var ErrEnded = errors.New("the subscription to events ended")

const (
	// batchLimit is how many events are handled together, and how many the broker sends ahead.
	batchLimit = 128
	// QueueLimit is how many events the broker keeps for a process that is too slow. It drops the newest, so whoever missed one hears at
	// least as many that came before, and then a marker.
	QueueLimit = 100_000
)

// Subscription hears of the changes in one vhost, in the order in which a node of the broker made them. Its queue is exclusive to
// its connection.
type Subscription struct {
	vhost      string
	queue      string
	markerKey  string
	consumer   *amqp.Channel
	binder     *amqp.Channel
	deliveries <-chan amqp.Delivery
}

// Batch is what was heard at once.
type Batch struct {
	Changes []Change
	// Events is how many events were heard, with those that are not about the vhost.
	Events int
	// Marker is the highest marker that was heard; zero if none was.
	Marker int
}

// Subscribe consumes the events about a vhost over a connection to the vhost of the event exchange. The user needs the permissions
// to configure, write and read queues whose names begin with management.MatchQueue, and to read the event exchange. The error is
// that of the AMQP library.
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

// Next waits for an event, and returns it with all that have arrived. They are acknowledged before they are returned: what is lost with
// the process is lost with its subscription.
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
	for range batchLimit - 1 {
		select {
		case event, open := <-s.deliveries:
			if !open {
				return batch, nil // the next call says so
			}
			s.add(event, &batch)
			last = event
			continue
		default:
		}
		break
	}
	if err := last.Ack(true); err != nil {
		return batch, ErrEnded
	}
	return batch, nil
}

// add reads an event. Events about the event exchange itself are its subscriptions, of this process and of others.
func (s *Subscription) add(event amqp.Delivery, batch *Batch) {
	batch.Events++
	h := headers(event.Headers)
	if h.text("source_name") == management.EventExchange {
		number, isMarker := strings.CutPrefix(h.text("routing_key"), s.markerKey)
		if heard, err := strconv.Atoi(number); isMarker && err == nil && event.RoutingKey == "binding.created" {
			batch.Marker = max(batch.Marker, heard)
		}
		return
	}
	if change, concerns := parse(event, s.vhost); concerns {
		batch.Changes = append(batch.Changes, change)
	}
}

// Mark makes a marker, which a later batch reports. Its number must be above those before. What the connection's node of the broker
// did before the call comes in no later batch than the marker. A marker is a binding of the subscription's own queue; Unmark removes
// the binding.
func (s *Subscription) Mark(number int) error {
	return s.binder.QueueBind(s.queue, s.markerKey+strconv.Itoa(number), management.EventExchange, false, nil)
}

// Unmark removes the binding of a marker.
func (s *Subscription) Unmark(number int) error {
	return s.binder.QueueUnbind(s.queue, s.markerKey+strconv.Itoa(number), management.EventExchange, nil)
}
