package mover

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/vhost"
)

// publish publishes or deletes waiting messages within the limits of pace, window and destination.
func (p *pass) publish() error {
	for len(p.waiting) > 0 && !p.blocked && p.mayPublish() && !p.isPaused() && p.notBefore.IsZero() &&
		len(p.outlet.inFlight) < p.window() && p.hasRoom() && p.pace.next() {
		next := p.waiting[0]
		p.waiting = p.waiting[1:]
		if p.Delete || p.Drop != nil && p.Drop(&next.message) {
			if err := p.settle(next); err != nil {
				return err
			}
			continue
		}
		p.seq++
		route, message, err := p.Copier.Copy(&next.message, p.seq)
		reason, text := "", ""
		switch {
		case err != nil:
			reason, text = failureNoRoute, err.Error()
		case max(len(route.Exchange), len(route.RoutingKey)) > vhost.MaxNameLength:
			reason, text = failureNoRoute, "the exchange or the routing key is longer than the 255 bytes that AMQP allows"
		case !fits(message, p.connection.Connection.Config.FrameSize):
			reason, text = failureTooLarge, "its headers leave less than 8 KiB of an AMQP frame for the headers that the broker adds"
		}
		if reason != "" {
			p.giveUp(next, reason, text)
			continue
		}
		if err := p.outlet.publish(next, route, message, p.seq); err != nil {
			return p.outletFailed(err)
		}
		p.room--
	}
	return nil
}

// confirmed handles a confirm, and publishes the messages that now have room.
func (p *pass) confirmed(confirm amqp.Confirmation, open bool) error {
	if !open {
		return p.outletClosed()
	}
	if err := p.answered(confirm.DeliveryTag); err != nil {
		return err
	}
	return p.publish()
}

// answered settles the message of a copy that the broker has answered, or retries the copy.
func (p *pass) answered(number uint64) error {
	p.answeredAt = time.Now()
	moved, err := p.outlet.answered(number)
	switch {
	case err != nil:
		return err
	case moved == nil:
		return nil
	case moved.returned != "" && p.Destination == "":
		p.giveUp(moved, failureUnroutable, moved.returned)
	case moved.returned != "":
		p.postpone(DestinationMissing, fmt.Sprintf("queue %q does not exist", p.Destination), moved)
	case !moved.isAccepted() && p.Destination != "" && !moved.byExchange:
		refused := fmt.Sprintf("the broker does not accept messages for queue %q: the queue is full or has no leader", p.Destination)
		p.postpone(DestinationFull, refused, moved)
	case !moved.isAccepted(): // a retry would duplicate the copy in the other queues behind the exchange
		p.giveUp(moved, FailureRefused, refusedByQueue)
	default:
		p.oneByOne = max(0, p.oneByOne-1)
		p.pause = 0
		p.setState(Moving, "")
		return p.settle(moved)
	}
	return nil
}

func (m *move) count(message *amqp.Delivery) {
	m.moved++
	if m.countsApart(message) {
		m.apart++
	}
}

// settle marks a moved message, or a message to delete, for acknowledgement. The acknowledgement removes the message from the
// queue.
func (p *pass) settle(done *item) error {
	p.count(&done.message)
	done.from.confirm(done.message.DeliveryTag)
	if p.connection != nil { // tests of confirms have none
		p.connection.Release(&done.message)
	}
	if p.unflushed++; !p.mayAcknowledge() || p.unflushed < min(flushLimit, (p.intake.current().prefetch+1)/2) {
		return nil
	}
	p.unflushed = 0
	return p.intake.flush(false)
}
