package consumer

import (
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

// State is what a consumer is about.
type State string

// States of a consumer.
const (
	Connecting    State = "Connecting"
	DeclaringQoS  State = "DeclaringQoS"
	Consuming     State = "Consuming"
	Delivering    State = "Delivering"
	Reconnecting  State = "Reconnecting"
	ShuttingDown  State = "ShuttingDown"
	DrainingQueue State = "DrainingQueue"
	Disconnected  State = "Disconnected"
)

// Observer is told what happens. It must not block. A nil function costs nothing.
type Observer struct {
	// State is called with each transition.
	State func(Transition)
	// Settled is called when a delivery is settled, or when that has become void.
	Settled func(Settlement)
	// Published is called with each attempt to publish a copy.
	Published func(Publication)
}

// Transition is a change of state.
type Transition struct {
	Queue    string
	From, To State
	// Err is why, for Reconnecting.
	Err error
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
