package mover

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func (p *pass) watchesDepth() bool {
	return p.Destination != "" && p.Settings().MaxDepth >= 0 && !p.DryRun && (p.taken < p.bound || len(p.waiting) > 0)
}

// checkDestination updates how many messages may still be published to the destination. It ignores a missing destination, because
// the broker returns the next copy.
func (p *pass) checkDestination(now time.Time) error {
	p.lastDepth = now
	depth, exists, counted, err := p.depth()
	if err != nil || !counted {
		return err
	}
	limit := p.Settings().MaxDepth
	p.room = roomFor(limit, depth+len(p.outlet.inFlight), p.state == DestinationBusy)
	switch {
	case exists && p.room == 0:
		p.setState(DestinationBusy, p.whyBusy(limit))
	case p.state == DestinationBusy:
		p.setState(Moving, "")
	}
	return nil
}

// roomFor returns how many messages may still be published to a destination. A busy destination has room only when a tenth of the limit is
// free: otherwise each consumed message would start and stop the move.
func roomFor(limit, depth int, busy bool) int {
	room := max(0, limit-depth)
	if busy && 10*room < limit {
		return 0
	}
	return room
}

// hasRoom reports whether another message may be published to the destination.
func (p *pass) hasRoom() bool {
	return p.Destination == "" || p.Settings().MaxDepth < 0 || p.room > 0 ||
		p.DeliveryLimited && (p.stopping || time.Since(p.takenAt) > passLimit)
}

// depth counts the ready messages of the destination and of the queue behind it. The result exists is false if there is no destination.
// The result counted is false if a queue was too busy to count.
func (p *pass) depth() (ready int, exists, counted bool, err error) {
	counted = true
	for _, queue := range []string{p.Destination, p.Behind} {
		if queue == "" {
			continue
		}
		declared, found, err := p.declared(queue)
		if err != nil {
			return 0, false, false, err
		}
		exists = exists || found && queue == p.Destination
		ready += declared.Messages
		wasBusy, err := p.wasBusy(declared, found)
		if err != nil {
			return 0, false, false, err
		}
		counted = counted && !wasBusy
	}
	return ready, exists, counted, nil
}

// A quorum queue that is too busy to count answers at least this much later: RabbitMQ 4.3.6 waits 250 ms for the count.
const stallMargin = 200 * time.Millisecond

// wasBusy reports whether the queue that gave the last answer was too busy to count. To exclude a distant broker, wasBusy times basic.qos,
// which involves no queue.
func (p *pass) wasBusy(answer amqp.Queue, exists bool) (bool, error) {
	took := p.took
	if !exists || !isUncounted(answer) || took < stallMargin {
		return false, nil
	}
	err := withinLimit(p.connection, func() error {
		asked := time.Now()
		defer p.recordAnswer(asked)
		return p.questions.Qos(0, 0, false)
	})
	return took-p.quickest >= stallMargin, err
}

func (p *pass) whyBusy(limit int) string {
	if p.Behind == "" {
		return fmt.Sprintf("queue %q has about %d ready messages", p.Destination, limit)
	}
	return fmt.Sprintf("queues %q and %q have about %d ready messages together", p.Destination, p.Behind, limit)
}
