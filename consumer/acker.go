package consumer

import (
	"errors"
	"sync"
	"time"
)

// settler is the part of a channel that settles deliveries.
type settler interface {
	Ack(tag uint64, multiple bool) error
	Nack(tag uint64, multiple, requeue bool) error
	Reject(tag uint64, requeue bool) error
}

// errStale: the channel of the delivery is closed, and the broker has taken the message back.
var errStale = errors.New("the broker has taken the message back")

// ackDelay is how long a finished delivery waits for others to be acked with, at most.
const ackDelay = 2 * time.Millisecond

// acker settles the deliveries of one channel. Acks are sent together: one frame for all deliveries up to the first that is not
// finished, and one for each that is finished behind that. All frames are sent under one lock, and what is sent is marked after: no
// ack for many can cover a delivery that is at work or being rejected.
type acker struct {
	channel settler
	batch   int // how many finished deliveries are acked at once, without further delay

	mu       sync.Mutex
	first    uint64     // the lowest tag that is not settled
	states   []tagState // from that tag on
	lowest   int        // where in states the first finished one is, if any
	finished int        // how many wait for their ack
	closed   bool
	wake     chan struct{} // tells the loop that something is finished
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

// run acks what has waited for long enough, until the acker is closed.
func (a *acker) run() {
	delay := time.NewTimer(ackDelay)
	defer delay.Stop()
	delay.Stop()
	for {
		select {
		case <-a.wake:
			delay.Reset(ackDelay)
		case <-delay.C:
			_ = a.flush() // the channel tells the session
		case <-a.ended:
			return
		}
	}
}

// ack acks a delivery, now or a little later.
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
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// reject rejects a delivery, or has the broker count and deliver it again.
func (a *acker) reject(tag uint64, requeue bool) error {
	return a.settle(tag, func() error { return a.channel.Reject(tag, requeue) })
}

// returnMessage returns a delivery that was not handled.
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

// returnAll returns all deliveries that are not settled, those included that have never been seen here.
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

// finish sends the acks that wait, and nothing more after them.
func (a *acker) finish() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errStale
	}
	a.closed = true
	return a.send()
}

// flush sends the acks that wait.
func (a *acker) flush() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return errStale
	}
	return a.send()
}

// close ends the acker; nothing is sent any more.
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

// mark notes how far a delivery is; of those before it, which the workers have not come to yet, too.
func (a *acker) mark(tag uint64, state tagState) {
	for at := int(tag - a.first); len(a.states) <= at; {
		a.states = append(a.states, tagOpen)
	}
	a.states[tag-a.first] = state
}

// send acks what is finished. An ack for many names a delivery that is itself finished: one that is settled would be an error.
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

// advance forgets the deliveries before the first that is not settled.
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
