// Package timing has the timeouts and waits of a connection. All rooms of package rabbit use them, and tests shorten or lengthen them.
package timing

import "time"

// Timeouts limit how long things may take.
type Timeouts struct {
	Dial       time.Duration // TCP; and again TLS with the handshake of AMQP
	Operation  time.Duration // one declaration or binding
	Request    time.Duration // one request to the management API, with its answer
	Close      time.Duration // closing AMQP in good order
	FirstRetry time.Duration // the first wait before another attempt
	LastRetry  time.Duration // the longest
	Settle     time.Duration // from closing a fence until all publishers know
	Leftover   time.Duration // how long a fence of another process must have been seen to count as left behind
	Vanish     time.Duration // how long RabbitMQ may take to delete a queue
	Match      time.Duration // until a queue that is declared shows in the management API, on each node
	Statistics time.Duration // until a connection that is opened does
	Link       time.Duration // for which the first refresh waits for AMQP
	Pace       Pace          // of the readings of a vhost
	LastListen time.Duration // the longest wait before another attempt to hear events
	Binding    time.Duration // from the event that a binding was deleted to that of its queue or exchange
	Marker     time.Duration // from a marker to the next, if no caller asks for one: each is a binding, and voids the ETag of definitions
	Event      time.Duration // from a change to its event; a subscription that takes longer is silent
	Silence    time.Duration // the first wait before another subscription where one was silent
}

// Pace is how fast one refresh may follow another.
type Pace struct {
	// Pause is the least time between their beginnings. Share limits the part of the time that refreshes take: ten is a tenth.
	Pause time.Duration
	Share int
}

// Default are the timeouts outside of tests.
var Default = Timeouts{
	Dial: 10 * time.Second, Operation: 10 * time.Second, Request: 30 * time.Second, Close: time.Second,
	FirstRetry: 250 * time.Millisecond, LastRetry: 30 * time.Second, Settle: 400 * time.Millisecond, Leftover: 20 * time.Second,
	Vanish: 30 * time.Second,
	Match:  3 * time.Second, Statistics: 15 * time.Second, Link: time.Second,
	Pace: Pace{Pause: time.Second, Share: 10}, LastListen: 10 * time.Minute, Binding: 200 * time.Millisecond,
	Marker: 5 * time.Minute, Event: 10 * time.Second,
	Silence: 1200 * time.Millisecond, // a second at least, less the jitter
}

// MinStable is how long an AMQP connection must last to count as a success. A connection that the broker closes
// immediately must not be retried without a pause.
const MinStable = 5 * time.Second
