package consumer

import (
	"errors"
	"sync"
	"time"
)

// settler is the part of a channel that acker uses.
type settler interface {
	Ack(tag uint64, multiple bool) error
	Nack(tag uint64, multiple, requeue bool) error
	Reject(tag uint64, requeue bool) error
}

// errStale is returned for a delivery whose channel is closed.
var errStale = errors.New("the broker has taken the message back")

// ackDelay is how long an ack waits at most so that it can be sent together with others.
const ackDelay = 2 * time.Millisecond

// acker settles the deliveries of one channel. It sends acks together: one frame for all deliveries before the first unfinished
// one, and one frame for each finished delivery after that. All frames are sent under one lock and recorded afterwards, so an ack
// for several deliveries never covers one that is still being handled or rejected.
type acker struct {
	channel settler
	batch   int // number of finished deliveries that are acked without further delay

	mu       sync.Mutex
	first    uint64     // the lowest tag that is not settled
	states   []tagState // of the tags from first on
	lowest   int        // index of the first finished delivery in states, if finished > 0
	finished int        // number of deliveries with a pending ack
	closed   bool
	wake     chan struct{} // signals run that an ack is pending
	ended    chan struct{}
}

type tagState uint8

const (
	tagOpen tagState = iota
	tagFinished
	tagSettled
)

func newAcker(channel settler, prefetch int) *acker {
	return &acker{
		channel: channel, batch: max(1, min(64, prefetch/4)), first: 1, wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

// run sends acks that have waited for ackDelay, until close is called.
func (a *acker) run() {
	delay := time.NewTimer(ackDelay)
	defer delay.Stop()
	delay.Stop()
	for {
		select {
		case <-a.wake:
			delay.Reset(ackDelay)
		case <-delay.C:
			_ = a.flush() // the session sees that the channel is closed
		case <-a.ended:
			return
		}
	}
}

// ack acks a delivery, possibly after ackDelay.
func (a *acker) ack(tag uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errStale
	}
	a.mark(tag, tagFinished)
	if at := int(tag - a.first); a.finished == 0 || at < a.lowest {
		a.lowest = at
	}
	a.finished++
	if a.finished >= a.batch {
		return a.send()
	}
	if a.finished == 1 {
		notify(a.wake)
	}
	return nil
}

// reject rejects a delivery. With requeue the broker counts the delivery and delivers the message again.
func (a *acker) reject(tag uint64, requeue bool) error {
	return a.settle(tag, func() error { return a.channel.Reject(tag, requeue) })
}

// returnMessage returns a message that was not handled. RabbitMQ 4.3 does not count that as a delivery.
func (a *acker) returnMessage(tag uint64) error {
	return a.settle(tag, func() error { return a.channel.Nack(tag, false, true) })
}

func (a *acker) settle(tag uint64, send func() error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errStale
	}
	if err := send(); err != nil {
		return err
	}
	a.mark(tag, tagSettled)
	a.advance()
	return nil
}

// returnAll returns all unsettled messages, including deliveries that have not reached this program yet, and closes the acker.
func (a *acker) returnAll() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errStale
	}
	if err := a.send(); err != nil {
		return err
	}
	a.closed = true
	return a.channel.Nack(0, true, true)
}

// finish sends the pending acks and closes the acker.
func (a *acker) finish() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errStale
	}
	a.closed = true
	return a.send()
}

// flush sends the pending acks.
func (a *acker) flush() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errStale
	}
	return a.send()
}

// close stops run. Nothing is sent any more.
func (a *acker) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	select {
	case <-a.ended:
	default:
		close(a.ended)
	}
}

// mark records the state of a delivery. Deliveries before it that no worker has received yet are recorded as open.
func (a *acker) mark(tag uint64, state tagState) {
	for at := int(tag - a.first); len(a.states) <= at; {
		a.states = append(a.states, tagOpen)
	}
	a.states[tag-a.first] = state
}

// send acks the finished deliveries. An ack for several deliveries names the last finished one, because RabbitMQ closes the
// channel when an ack names a settled delivery.
func (a *acker) send() error {
	if a.finished == 0 {
		return nil
	}
	last := -1
	for at, state := range a.states {
		if state == tagOpen {
			break
		}
		if state == tagFinished {
			last = at
		}
	}
	if last >= 0 {
		if err := a.channel.Ack(a.first+uint64(last), true); err != nil {
			return err
		}
		for at := range a.states[:last+1] {
			if a.states[at] == tagFinished {
				a.states[at] = tagSettled
				a.finished--
			}
		}
	}
	for at := max(last+1, a.lowest); a.finished > 0; at++ {
		if a.states[at] != tagFinished {
			continue
		}
		if err := a.channel.Ack(a.first+uint64(at), false); err != nil {
			return err
		}
		a.states[at] = tagSettled
		a.finished--
	}
	a.advance()
	return nil
}

// advance removes the settled deliveries before the first unsettled one.
func (a *acker) advance() {
	settled := 0
	for settled < len(a.states) && a.states[settled] == tagSettled {
		settled++
	}
	if settled > 0 {
		a.states = append(a.states[:0], a.states[settled:]...)
		a.first += uint64(settled)
		a.lowest -= settled
	}
}
