package mover

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
)

// SkippedTooLarge is the reason why a dry run or a deletion skips a message whose body is larger than amqpconn.LargestBody.
const SkippedTooLarge = "TooLarge"

// failedBefore is the reason to skip a message that could not be moved in an earlier pass.
const failedBefore = "failed before"

// decide skips or counts a message, or adds it to the messages to move.
func (p *pass) decide(message *item, size int64, tooLarge bool) {
	switch skip := p.skips(&message.message, size); {
	case skip == failedBefore:
		p.hold(message.from, &message.message)
		p.countFailure()
	case skip != "":
		p.skipped[skip]++
		p.hold(message.from, &message.message)
	case tooLarge:
		p.holdTooLarge(message, size)
	case p.DryRun:
		p.matched++
		if p.countsApart(&message.message) {
			p.matchedApart++
		}
		p.hold(message.from, &message.message)
	default:
		p.waiting = append(p.waiting, message)
	}
}

// skips returns the reason why a message stays in the queue; empty if it is to be moved.
func (p *pass) skips(message *amqp.Delivery, size int64) string {
	if len(p.failed) > 0 && p.failed[deadletter.Fingerprint(message)] {
		return failedBefore
	}
	return p.Filter.Skips(message, size)
}

// holdTooLarge leaves a message in the queue because its body is too large. A dry run and a deletion skip it; a move counts a failure.
func (p *pass) holdTooLarge(message *item, size int64) {
	if p.DryRun || p.Delete {
		p.hold(message.from, &message.message)
		p.skipped[SkippedTooLarge]++
		return
	}
	p.giveUp(message, failureBodyTooLarge, fmt.Sprintf("its body has %d bytes, and Warren moves messages of up to %d bytes",
		size, amqpconn.LargestBody))
}

// stopWithoutMemory ends the pass, because the process had no memory for a message. The next pass uses a smaller prefetch.
func (p *pass) stopWithoutMemory(message *item, size int64) {
	p.hold(message.from, &message.message)
	p.sizes.shrink(size, message.from.prefetch)
	p.shortOfMemory = true
	p.stop(errNoMemory)
}

// hold holds a message until the pass ends. A move that holds many messages becomes selective, because with a small prefetch it
// would need too many channels.
func (p *pass) hold(from *intakeChannel, message *amqp.Delivery) {
	from.hold(message)
	if p.held++; p.held > manyHeld {
		p.Selective = true
	}
}

// holdWaiting holds the messages that wait, without moving them.
func (p *pass) holdWaiting() {
	for _, item := range p.waiting {
		p.hold(item.from, &item.message)
	}
	p.waiting = nil
}
