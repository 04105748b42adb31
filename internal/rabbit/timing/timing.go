// Package timing defines the timeouts and waits of a connection, which the packages below package rabbit share. Tests shorten them.
package timing

import "time"

// Timeouts are the time limits and waits of a connection.
type Timeouts struct {
	Dial       time.Duration // TCP; and again TLS with the handshake of AMQP
	Operation  time.Duration // one declaration or binding
	Request    time.Duration // one request to the management API, with its answer
	Close      time.Duration // closing AMQP with its handshake
	FirstRetry time.Duration // the first wait before another attempt to connect or to refresh
	LastRetry  time.Duration // the longest such wait
	Settle     time.Duration // from closing a fence until all publishers know of it
	Leftover   time.Duration // how long a fence of another process must have been seen to count as left behind
	Vanish     time.Duration // how long RabbitMQ may take to delete a queue
	Match      time.Duration // until the management API of each node shows a declared queue
	Statistics time.Duration // until the management API shows an open connection
	Link       time.Duration // how long the first refresh waits for AMQP
	Pace       Pace          // of refreshes
	LastListen time.Duration // the longest wait before another subscription to events
	Binding    time.Duration // from the event of a deleted binding to the event of its deleted queue or exchange
	Marker     time.Duration // from a marker to the next, if no caller asks for one: each is a binding, and voids the ETag of definitions
	Event      time.Duration // from a change to its event; a subscription that takes longer is silent
	Silence    time.Duration // the first wait before another subscription after a silent one
}

// Pace is how fast one refresh may follow another.
type Pace struct {
	// Pause is the minimum time between the beginnings of two refreshes. Share limits how much of the time refreshes take: ten means a
	// tenth. After a slow refresh, Share does not make the pause longer than a minute.
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
