package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

// State is the state of a consumer's connection.
type State string

// States of a consumer.
const (
	StateConnecting   State = "Connecting"
	StateDeclaringQoS State = "DeclaringQoS"
	StateConsuming    State = "Consuming"
	StateDelivering   State = "Delivering"
	StateReconnecting State = "Reconnecting"
	// StatePaused: the consumer does not consume. Consumer.Pause was called, the breaker is open, or the contract asks for a pause,
	// because the operator recreates the queue.
	StatePaused        State = "Paused"
	StateShuttingDown  State = "ShuttingDown"
	StateDrainingQueue State = "DrainingQueue"
	StateDisconnected  State = "Disconnected"
)

// Observer has functions that the consumer calls on events. Each of them may be nil. If one of them panics, the consumer logs the
// panic and continues.
type Observer struct {
	// State is called after each transition, one call at a time and in order. A call that does not return delays only further
	// calls of State, Reconnected and Stuck.
	State func(Transition)
	// Reconnected is called when the consumer receives messages again after a lost connection.
	Reconnected func(Reconnection)
	// Stuck is called once for each handler that still runs 2 s after its context ended.
	Stuck func(StuckHandler)
	// Settled is called when a delivery is settled, or can no longer be settled. The worker does not handle the next message
	// before Settled returns.
	Settled func(Settlement)
	// Published is called after each attempt to publish a copy. The copy's original is not settled before Published returns.
	Published func(Publication)
}

// Transition is a change of a consumer's state.
type Transition struct {
	Queue    string
	From, To State
	// Err is the reason if To is StateReconnecting, or StatePaused because of the breaker; else nil.
	Err error
}

// Reconnection describes a reconnect after a lost connection.
type Reconnection struct {
	Queue string
	// Attempts is how often the consumer tried to connect, including the successful attempt.
	Attempts int
	// Took is the time from the loss until messages were delivered again.
	Took time.Duration
}

// StuckHandler is a handler that runs on after its context has ended. No other message gets its slot.
type StuckHandler struct {
	Delivery *Delivery
	// Took is the time since the handler was called.
	Took time.Duration
}

// Settlement is how a delivery ended.
type Settlement struct {
	Delivery *Delivery
	// Context has the values of the handler's context, including those of middleware, such as a span. It never ends, because the
	// message may be settled long after the handler returned. If middleware called the handler several times, the values are those of
	// the first call. If the handler was not called, the values are those of the context of Run.
	Context context.Context
	Result  contract.Result
	Action  contract.Action
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
	// Context is as in Settlement.
	Context context.Context
	Route   contract.Route
	// Err is nil once the broker has confirmed the copy.
	Err  error
	Took time.Duration
}

// reporter calls observers in order, in a goroutine of its own, so that they do not delay the consumer.
type reporter struct {
	mu      sync.Mutex
	waiting []func()
	idle    chan struct{} // closed when the goroutine has made all calls; nil if there is none
	closed  bool
}

// maxReports is how many calls may wait. Further ones are dropped.
const maxReports = 1000

func (r *reporter) report(call func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.waiting) > maxReports { // an observer blocks
		return
	}
	r.waiting = append(r.waiting, call)
	if r.idle == nil {
		r.idle = make(chan struct{})
		go r.run()
	}
}

// run makes the waiting calls. If an observer ends the goroutine, another one continues.
func (r *reporter) run() {
	over := false
	defer func() {
		if !over {
			go r.run()
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
		call := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.mu.Unlock()
		call()
	}
}

// reportTimeout is how long close waits for observers.
const reportTimeout = time.Second

// close drops further calls and waits for the pending ones.
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
