package transfer

import "time"

// sureInterval is how often the broker is asked which messages it has removed.
const sureInterval = 500 * time.Millisecond

// makeSure finds out how many messages the broker has removed. A queue can forget acknowledgements that the end of their channel follows
// closely. It has not forgotten an acknowledgement that was sent an interval ago when the broker answers on the same channel.
func (p *pass) makeSure(now time.Time) error {
	if p.sure == p.moved || now.Sub(p.askedAt) < sureInterval {
		return nil
	}
	if err := p.withinLimit(p.intake.ask); err != nil {
		return err
	}
	p.sure, p.asked, p.askedAt = p.asked, p.movedBefore+p.intake.acknowledged(), now
	return nil
}

// hasLostAcknowledgements says whether the broker may not know of what was moved, for the connection has ended.
func (p *pass) hasLostAcknowledgements() bool {
	return p.moved > p.movedBefore && p.connection.Connection.IsClosed()
}

// uncertain is how many of the messages that this pass has moved may be in the queue again if the connection ends now. Unacknowledged
// deliveries never exceed the prefetch. For deletions that is not relied on: nothing moves a message again that was deleted.
func (p *pass) uncertain() int {
	if p.Delete {
		return p.moved - p.sure
	}
	return min(p.moved-p.sure, p.intake.capacity())
}

// doubt records that the connection has ended.
func (p *pass) doubt() {
	p.unsure += p.uncertain()
	p.sure = p.moved
}
