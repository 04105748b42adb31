package consumer

import (
	"sync"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

// State is what a consumer is about.
type State string

// States of a consumer.
const (
	StateConnecting    State = "Connecting"
	StateDeclaringQoS  State = "DeclaringQoS"
	StateConsuming     State = "Consuming"
	StateDelivering    State = "Delivering"
	StateReconnecting  State = "Reconnecting"
	StateShuttingDown  State = "ShuttingDown"
	StateDrainingQueue State = "DrainingQueue"
	StateDisconnected  State = "Disconnected"
)

// Observer is told what happens. A nil function costs nothing.
type Observer struct {
	// State is called with each transition, one after the other. A call that does not return holds up nothing but further calls.
	State func(Transition)
	// Reconnected is called when messages are delivered again after a loss.
	Reconnected func(Reconnection)
	// Stuck is called once for each handler that goes on more than 2 s after its context has ended.
	Stuck func(StuckHandler)
	// Settled is called when a delivery is settled, or when that has become void. It is a part of the handling: the next message waits.
	Settled func(Settlement)
	// Published is called with each attempt to publish a copy. It is a part of the handling, too.
	Published func(Publication)
}

// Transition is a change of state.
type Transition struct {
	Queue    string
	From, To State
	// Err is why, for Reconnecting.
	Err error
}

// Reconnection is the end of a loss.
type Reconnection struct {
	Queue string
	// Attempts is how often the consumer tried to connect, the last time included.
	Attempts int
	// Took is the time from the loss until messages were delivered again.
	Took time.Duration
}

// StuckHandler is a handler that goes on after its context has ended. No other message gets its slot.
type StuckHandler struct {
	Delivery *Delivery
	// Took is the time since the handler was called.
	Took time.Duration
}

// Settlement is how a delivery ended.
type Settlement struct {
	Delivery *Delivery
	Result   contract.Result
	Action   contract.Action
	// Err is what the handler returned.
	Err error
	// Took is the time from the delivery to its end at the handler.
	Took time.Duration
	// Stale: the broker took the message back before it was settled.
	Stale bool
}

// Publication is an attempt to publish a copy.
type Publication struct {
	Delivery *Delivery
	Route    contract.Route
	// Err is nil once the broker has confirmed the copy.
	Err  error
	Took time.Duration
}

// reporter tells observers of transitions, in order, and without having the consumer wait for them.
type reporter struct {
	mu      sync.Mutex
	waiting []func()
	idle    chan struct{} // closed when a goroutine has told all; nil while there is none
	closed  bool
}

// maxReports is how many reports wait at most.
const maxReports = 1000

func (r *reporter) report(tell func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.waiting) > maxReports { // an observer does not return
		return
	}
	r.waiting = append(r.waiting, tell)
	if r.idle == nil {
		r.idle = make(chan struct{})
		go r.work()
	}
}

// work tells all that waits. An observer may end the goroutine.
func (r *reporter) work() {
	over := false
	defer func() {
		if !over {
			go r.work()
		}
	}()
	for {
		r.mu.Lock()
		if len(r.waiting) == 0 {
			over = true
			close(r.idle)
			r.idle = nil
			r.mu.Unlock()
			return
		}
		tell := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.mu.Unlock()
		tell()
	}
}

// reportTimeout is how long observers have to hear of the end of a consumer.
const reportTimeout = time.Second

// close ends the reports, and waits until those before have been told.
func (r *reporter) close() {
	r.mu.Lock()
	r.closed = true
	idle := r.idle
	r.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(reportTimeout)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}
