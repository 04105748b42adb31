package transfer

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// publish sends or deletes what waits, as far as pace, window and destination allow.
func (p *pass) publish() error {
	for len(p.waiting) > 0 && !p.blocked && p.mayPublish() && !p.isPaused() && p.until.IsZero() &&
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
			reason, text = FailureNoRoute, err.Error()
		case max(len(route.Exchange), len(route.RoutingKey)) > maxShortString:
			reason, text = FailureNoRoute, "the exchange or the routing key is longer than the 255 bytes that AMQP allows"
		case !fits(message, p.connection.Connection.Config.FrameSize):
			reason, text = FailureTooLarge, "its headers leave less than 8 KiB of a frame of AMQP for those that the broker adds"
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

// confirmed takes a confirm, and publishes what there is room for now.
func (p *pass) confirmed(confirm amqp.Confirmation, open bool) error {
	if !open {
		return p.outletClosed()
	}
	if err := p.answered(confirm); err != nil {
		return err
	}
	return p.publish()
}

// answered settles the message of a confirm, or has another try with its copy.
func (p *pass) answered(confirm amqp.Confirmation) error {
	moved, err := p.outlet.answered(confirm)
	switch {
	case err != nil:
		return err
	case moved == nil:
		return nil
	case moved.returned != "" && p.Destination == "":
		p.giveUp(moved, FailureUnroutable, moved.returned)
	case moved.returned != "":
		p.putOff(DestinationMissing, fmt.Sprintf("queue %q does not exist", p.Destination), moved)
	case !confirm.Ack && p.Destination != "" && !moved.byExchange:
		p.putOff(DestinationFull, fmt.Sprintf("the broker does not take messages for queue %q: the queue is full", p.Destination), moved)
	case !confirm.Ack: // the other queues behind the exchange may have it: they would get it again
		p.giveUp(moved, FailureRefused, refusedByQueue)
	default:
		p.careful = max(0, p.careful-1)
		p.pause = 0
		p.setState(Moving, "")
		return p.settle(moved)
	}
	return nil
}

// settle has a message acknowledged that was moved, or that is to be deleted: by the acknowledgement the queue loses it.
func (p *pass) settle(done *item) error {
	p.moved++
	if p.countsApart(&done.message) {
		p.apart++
	}
	done.from.confirm(done.message.DeliveryTag)
	if p.connection != nil { // tests of confirms have none
		p.connection.Release(&done.message)
	}
	if p.unflushed++; p.isPaused() || p.unflushed < min(flushLimit, (p.intake.current().prefetch+1)/2) {
		return nil
	}
	p.unflushed = 0
	return p.intake.flush(false)
}
