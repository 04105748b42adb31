package contract

import (
	"maps"
	"math"
	"time"
)

// DefaultMaxCrashes is the number of deliveries without success or failure after which a message is parked, because it probably
// crashes the consumer. A consumer may have its own limit.
const DefaultMaxCrashes = 20

// Facts are the properties of a delivery before it is handled.
type Facts struct {
	// Exchange and RoutingKey are those of the delivery.
	Exchange    string `json:"exchange"`
	RoutingKey  string `json:"routingKey"`
	Redelivered bool   `json:"redelivered,omitempty"`
	// Headers contains tables as map[string]any and arrays as []any.
	Headers map[string]any `json:"headers,omitempty"`
}

// Result is how a delivery ended.
type Result string

// Results of a delivery.
const (
	ResultSucceeded   Result = "succeeded"
	ResultFailed      Result = "failed"
	ResultPanicked    Result = "panicked"
	ResultTimedOut    Result = "timedOut"
	ResultPermanent   Result = "permanent"   // another attempt cannot succeed
	ResultUndecodable Result = "undecodable" // the body could not be decoded, so the message was not handled
	ResultCrashed     Result = "crashed"     // not handled because of too many crashes, see Progress.Crashes
	ResultDeferred    Result = "deferred"    // too early; not a failure
	ResultDiscarded   Result = "discarded"   // failed, but needs no further attempt
	ResultReturned    Result = "returned"    // not handled, or not completely
)

// Outcome is how a delivery ended, with the details for the headers of a copy.
type Outcome struct {
	Result Result `json:"result"`
	// Delay is the minimum delay of a failed message, or the delay of a deferred one.
	Delay Duration `json:"delayMilliseconds,omitempty"`
	// Text, Time and Client describe a failure. CopyID identifies the copy.
	Text   string    `json:"text,omitempty"`
	Time   time.Time `json:"time,omitzero"`
	Client string    `json:"client,omitempty"`
	CopyID string    `json:"copyId,omitempty"`
}

// Verb is how a delivery is settled.
type Verb string

// The verbs.
const (
	// VerbAck is basic.ack.
	VerbAck Verb = "ack"
	// VerbReject is basic.reject without requeue.
	VerbReject Verb = "reject"
	// VerbRequeue is basic.reject with requeue. RabbitMQ 4.3 counts it as a delivery, unlike basic.nack.
	VerbRequeue Verb = "requeue"
	// VerbReturn is basic.nack with requeue: the message returns to the queue without being counted as a delivery, if the broker
	// supports that.
	VerbReturn Verb = "return"
	// VerbPublish publishes a copy, persistent and mandatory, without the properties user-id and expiration. Once the broker has
	// confirmed the copy and has not returned it, the original is acked.
	VerbPublish Verb = "publish"
)

// Action is how to settle a delivery.
type Action struct {
	Verb Verb `json:"verb"`
	// Kind is the kind of failure; empty if nothing failed.
	Kind FailureKind `json:"kind,omitempty"`
	// GivenUp reports whether this was the last attempt.
	GivenUp bool `json:"givenUp,omitempty"`
	// Wait is how long the consumer holds the message before it settles it.
	Wait Duration `json:"waitMilliseconds,omitempty"`
	// Route and Headers belong to the copy.
	Route   *Route         `json:"route,omitempty"`
	Headers map[string]any `json:"headers,omitempty"`
	// Otherwise settles the delivery if the broker still refuses the copy after 30 s. If it is empty, publishing is retried
	// without a limit.
	Otherwise Verb `json:"otherwise,omitempty"`
}

// Progress is the number of attempts of a message and its origin.
type Progress struct {
	// Attempt is the number of this attempt, beginning with 1.
	Attempt int `json:"attempt"`
	// Crashes is the number of deliveries that ended without success or failure. The broker counts them; older versions count
	// other deliveries, too.
	Crashes int `json:"crashes,omitempty"`
	// OriginalExchange and OriginalRoutingKey are where the producer published the message.
	OriginalExchange   string `json:"originalExchange"`
	OriginalRoutingKey string `json:"originalRoutingKey"`
}

// Progress reads the progress of a message from its headers. Numbers that are not valid count as 0, whatever the producer sends.
func (c Contract) Progress(f Facts) Progress {
	retries := 0
	if !c.failedElsewhere(f.Headers) { // otherwise the count belongs to another queue
		retries = count(f.Headers[HeaderRetryCount])
	}
	rejects, published := rejectedIn(f.Headers, c.Queue)
	deliveries := 0
	if f.Redelivered { // otherwise a client set the header
		deliveries = count(f.Headers[headerDeliveryCount])
	}
	progress := Progress{Attempt: 1, OriginalExchange: f.Exchange, OriginalRoutingKey: f.RoutingKey}
	switch c.Strategy {
	case StrategyPublish:
		progress.Attempt = sum(1, retries)
	case StrategyReject:
		progress.Attempt = sum(1, retries, rejects)
	case StrategyRequeue:
		progress.Attempt = sum(1, retries, deliveries)
	case StrategyNone:
	}
	if c.Strategy != StrategyRequeue { // under Requeue, deliveries are attempts
		progress.Crashes = max(0, deliveries-rejects)
	}
	if published != nil && c.Strategy == StrategyReject {
		progress.OriginalExchange, progress.OriginalRoutingKey = published.Exchange, published.RoutingKey
	}
	if exchange, set := f.Headers[HeaderOriginalExchange].(string); set {
		progress.OriginalExchange = exchange
	}
	if key, set := f.Headers[HeaderOriginalRoutingKey].(string); set {
		progress.OriginalRoutingKey = key
	}
	return progress
}

// sum adds numbers that are not negative. It returns the highest int if their sum is higher, because a producer can set the headers.
func sum(numbers ...int) int {
	total := 0
	for _, number := range numbers {
		total += min(number, math.MaxInt-total)
	}
	return total
}

// Decide returns how to settle a delivery with this outcome.
func (c Contract) Decide(f Facts, o Outcome) Action {
	switch o.Result {
	case ResultSucceeded, ResultDiscarded:
		return Action{Verb: VerbAck}
	case ResultReturned:
		return Action{Verb: VerbReturn}
	case ResultDeferred:
		return c.deferMessage(f, o)
	case ResultPermanent:
		return c.park(f, o, KindPermanent)
	case ResultUndecodable:
		return c.park(f, o, KindUndecodable)
	case ResultCrashed:
		return c.park(f, o, KindCrashed)
	case ResultPanicked:
		return c.retryOrPark(f, o, KindPanic)
	case ResultTimedOut:
		return c.retryOrPark(f, o, KindTimeout)
	case ResultFailed:
	}
	return c.retryOrPark(f, o, KindFailed)
}

// retryOrPark returns the action for a failed message: another attempt if there is one left, else parking.
func (c Contract) retryOrPark(f Facts, o Outcome, kind FailureKind) Action {
	progress := c.Progress(f)
	if c.Strategy == StrategyRequeue {
		// The broker counts deliveries and dead-letters the message at its limit.
		return Action{Verb: VerbRequeue, Kind: kind, Wait: c.redeliveryPause(progress.Attempt), GivenUp: progress.Attempt >= c.MaxAttempts}
	}
	if progress.Attempt >= c.attempts() {
		return c.park(f, o, KindExhausted)
	}
	if c.Strategy == StrategyReject {
		return Action{Verb: VerbReject, Kind: kind}
	}
	tier := c.Tiers[min(progress.Attempt, len(c.Tiers))-1]
	if o.Delay > 0 {
		tier = c.tierFor(o.Delay)
	}
	return Action{Verb: VerbPublish, Kind: kind, Route: &tier.Route, Headers: c.failedCopyOf(f, o, progress.Attempt, kind)}
}

func (c Contract) attempts() int {
	if c.Strategy == StrategyNone {
		return 1
	}
	return c.MaxAttempts
}

// park returns the action that moves a message to the dead-letter queue, or drops it if there is none.
func (c Contract) park(f Facts, o Outcome, kind FailureKind) Action {
	if c.Strategy == StrategyRequeue && kind != KindCrashed && c.RejectDeadLetters {
		return Action{Verb: VerbReject, Kind: kind, GivenUp: true}
	}
	if c.Park == nil {
		return Action{Verb: VerbAck, Kind: kind, GivenUp: true}
	}
	failed := c.Progress(f).Attempt
	if kind == KindUndecodable || kind == KindCrashed { // the message was not handled
		failed--
	}
	route := *c.Park
	action := Action{Verb: VerbPublish, Kind: kind, GivenUp: true, Route: &route, Headers: c.failedCopyOf(f, o, failed, kind)}
	// Under Reject the message waits in the tier. Then it is handled again, as an attempt above MaxAttempts, and parked if that fails.
	if c.RejectDeadLetters || c.Strategy == StrategyReject {
		action.Otherwise = VerbReject
	}
	return action
}

// maxDeferInHand limits how long a consumer holds a deferred message if there is no tier.
const maxDeferInHand = Duration(30 * time.Second)

// deferMessage returns the action for a message that was deferred.
func (c Contract) deferMessage(f Facts, o Outcome) Action {
	if len(c.Tiers) == 0 {
		return Action{Verb: VerbReturn, Wait: min(max(o.Delay, 0), maxDeferInHand)}
	}
	tier := c.tierFor(o.Delay)
	headers := c.copyOf(f, o, c.Progress(f).Attempt-1)
	headers[HeaderDeferCount] = int64(count(f.Headers[HeaderDeferCount])) + 1
	return Action{Verb: VerbPublish, Route: &tier.Route, Headers: headers}
}

// tierFor returns the tier with the shortest delay that is at least delay, or else the longest tier.
func (c Contract) tierFor(delay Duration) Tier {
	best := c.Tiers[0]
	for _, tier := range c.Tiers[1:] {
		longer, enough := tier.Delay > best.Delay, best.Delay >= delay
		if longer && !enough || !longer && tier.Delay >= delay {
			best = tier
		}
	}
	return best
}

// Under Requeue without a redelivery delay, the consumer waits before it returns a failed message.
const (
	minPause = Duration(100 * time.Millisecond)
	maxPause = Duration(5 * time.Second)
)

func (c Contract) redeliveryPause(attempt int) Duration {
	if c.RedeliveryDelay != nil {
		return 0
	}
	return min(maxPause, minPause*Duration(attempt))
}

// failedCopyOf returns the headers of a copy after a failure. It keeps no header of an earlier failure, because the new failure may have
// fewer headers.
func (c Contract) failedCopyOf(f Facts, o Outcome, failed int, kind FailureKind) map[string]any {
	headers := c.copyOf(f, o, failed)
	deleteFailure(headers)
	maps.Copy(headers, c.failureHeaders(o, kind))
	return headers
}

// copyOf returns the headers of a copy after the given number of failed attempts. If the last failure was in another queue, the copy
// does not get its headers: otherwise x-retry-count would belong to the other queue.
func (c Contract) copyOf(f Facts, o Outcome, failed int) map[string]any {
	progress := c.Progress(f)
	headers := CopyHeaders(f.Headers)
	if c.failedElsewhere(f.Headers) {
		deleteFailure(headers)
	}
	headers[HeaderRetryCount] = int64(failed)
	headers[HeaderOriginalExchange] = progress.OriginalExchange
	headers[HeaderOriginalRoutingKey] = progress.OriginalRoutingKey
	if o.CopyID != "" {
		headers[HeaderCopyID] = o.CopyID
	}
	return headers
}
