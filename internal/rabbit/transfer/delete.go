package transfer

import "time"

// sureInterval is how often the broker is asked how many messages are deleted.
const sureInterval = time.Second

// makeSure finds out how many messages the broker has deleted: a queue can forget acknowledgements that the end of their channel follows
// closely, and none that was sent a while ago when the broker answers a question on the same channel.
func (p *pass) makeSure(now time.Time) error {
	if !p.Delete || p.sure == p.moved || now.Sub(p.askedAt) < sureInterval {
		return nil
	}
	watchdog := time.AfterFunc(answerLimit, p.connection.CloseSocket)
	defer watchdog.Stop()
	if err := p.intake.ask(); err != nil {
		return err
	}
	p.sure, p.asked, p.askedAt = p.asked, p.movedBefore+p.intake.acknowledged(), now
	return nil
}

// hasLostAcknowledgements says whether the broker may not know of what was moved, for the connection has ended.
func (p *pass) hasLostAcknowledgements() bool {
	return p.moved > p.movedBefore && p.connection.Connection.IsClosed()
}

// doubt takes note of what may be in the queue again when a connection has ended.
func (p *pass) doubt() {
	doubtful := min(p.moved-p.movedBefore, p.intake.capacity())
	if p.Delete {
		doubtful = p.moved - p.sure
	}
	p.unsure += doubtful
	p.sure = p.moved
}
