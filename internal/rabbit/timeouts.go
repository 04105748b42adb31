package rabbit

import (
	"time"

	"github.com/warren-mq/warren/internal/rabbit/safedelete"
)

// timeouts limit how long things may take.
type timeouts struct {
	dial       time.Duration // TCP; and again TLS with the handshake of AMQP
	operation  time.Duration // one declaration or binding
	request    time.Duration // one request to the management API, with its answer
	close      time.Duration // closing AMQP in good order
	firstRetry time.Duration // the first wait before another attempt
	lastRetry  time.Duration // the longest
	settle     time.Duration // from closing a fence until all publishers know
	leftover   time.Duration // how long a fence of another process must have been seen to count as left behind
	vanish     time.Duration // how long RabbitMQ may take to delete a queue
	match      time.Duration // until a queue that is declared shows in the management API, on each node
	statistics time.Duration // until a connection that is opened does
	link       time.Duration // for which the first refresh waits for AMQP
	pace       pace          // of the readings of a vhost
	lastListen time.Duration // the longest wait before another attempt to hear events
	binding    time.Duration // from the event that a binding was deleted to that of its queue or exchange
	marker     time.Duration // from a marker to the next, if nobody asks for one: each is a binding, and voids the ETag of definitions
	event      time.Duration // from a change to its event; a subscription that takes longer is silent
	silence    time.Duration // the first wait before another subscription where one was silent
}

// ofDeletions are the timeouts of deletions and recreations.
func (t timeouts) ofDeletions() safedelete.Times {
	return safedelete.Times{Settle: t.settle, Stray: t.leftover, Vanish: t.vanish, Operation: t.operation, Close: t.close}
}

// pace is how fast one refresh may follow another.
type pace struct {
	// pause is the least time between their beginnings. share limits the part of the time that refreshes take: ten is a tenth.
	pause time.Duration
	share int
}

var defaultTimeouts = timeouts{
	dial: 10 * time.Second, operation: 10 * time.Second, request: 30 * time.Second, close: time.Second,
	firstRetry: 250 * time.Millisecond, lastRetry: 30 * time.Second, settle: 400 * time.Millisecond, leftover: 20 * time.Second,
	vanish: 30 * time.Second,
	match:  3 * time.Second, statistics: 15 * time.Second, link: time.Second,
	pace: pace{time.Second, 10}, lastListen: 10 * time.Minute, binding: 200 * time.Millisecond,
	marker: 5 * time.Minute, event: 10 * time.Second,
	silence: 1200 * time.Millisecond, // a second at least, less the jitter
}

const (
	// minStableDuration is how long an AMQP connection must last to count as a success. A connection that the broker closes
	// immediately must not be retried without a pause.
	minStableDuration = 5 * time.Second
	// drainTimeout is how long Close waits for deletions to undo what they have begun. The next connection finishes the rest; see
	// safedelete/recovery.go.
	drainTimeout = 4 * time.Second
)
