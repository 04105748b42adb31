package mover

import "time"

// removedInterval is the shortest time between two requests that show which messages the broker has removed.
const removedInterval = 500 * time.Millisecond

// countRemoved updates how many messages the broker has certainly removed. RabbitMQ can lose an acknowledgement if its channel ends
// shortly afterwards. An acknowledgement is certain once the broker has answered a request that was sent on the same channel at
// least removedInterval later.
func (p *pass) countRemoved(now time.Time) error {
	if p.removed == p.moved || now.Sub(p.askedAt) < removedInterval {
		return nil
	}
	if err := p.intake.ask(); err != nil {
		return err
	}
	p.removed, p.asked, p.askedAt = p.asked, p.movedBefore+p.intake.acknowledged(), now
	return nil
}

// mayHaveLostAcknowledgements reports whether the connection has ended after this pass moved messages. The broker may then have lost
// acknowledgements.
func (p *pass) mayHaveLostAcknowledgements() bool {
	return p.moved > p.movedBefore && p.connection.Connection.IsClosed()
}

// uncertain is how many messages that this pass moved may be in the queue again if the connection ends now. If there is a prefetch, their
// number does not exceed it. Deletions do not rely on that limit, because no later pass deletes such a message again.
func (p *pass) uncertain() int {
	if p.Delete || p.DeliveryLimited {
		return p.moved - p.removed
	}
	return min(p.moved-p.removed, p.intake.capacity())
}

// countUnsure adds the uncertain messages to unsure, because the connection has ended. It also counts the copies in flight as moved:
// the broker may have accepted them, and return their originals only after the next pass has moved others.
func (p *pass) countUnsure() {
	for number, unanswered := range p.inFlight() {
		p.count(&unanswered.message)
		p.unanswered++
		delete(p.outlet.inFlight, number)
	}
	p.unsure += p.uncertain()
	p.removed = p.moved
}
