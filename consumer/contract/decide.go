package contract

import (
	"maps"
	"time"
)

// DefaultMaxCrashes is how many deliveries that ended neither in a success nor in a failure are taken for crashes of the consumer, unless
// the consumer has a limit of its own.
const DefaultMaxCrashes = 20

// Facts are what is known of a delivery before it is handled.
type Facts struct {
	// Exchange and RoutingKey are those of the delivery.
	Exchange    string `json:"exchange"`
	RoutingKey  string `json:"routingKey"`
	Redelivered bool   `json:"redelivered,omitempty"`
	// Headers hold tables as map[string]any and arrays as []any.
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
	ResultPermanent   Result = "permanent"   // no attempt can help
	ResultUndecodable Result = "undecodable" // nor can it here; it was not handled
	ResultCrashed     Result = "crashed"     // as ResultUndecodable: the message came back too often, see Progress.Crashes
	ResultDeferred    Result = "deferred"    // not yet, which is not a failure
	ResultDiscarded   Result = "discarded"   // failed, and done with
	ResultReturned    Result = "returned"    // it was not handled, or not to the end
)

// Outcome is how a delivery ended, and what is to be told of it.
type Outcome struct {
	Result Result `json:"result"`
	// Delay is for how long a failed message has to wait at least, or how long it is deferred.
	Delay Duration `json:"delayMilliseconds,omitempty"`
	// Text, Time and Client tell of a failure, CopyID of a copy.
	Text   string    `json:"text,omitempty"`
	Time   time.Time `json:"time,omitzero"`
	Client string    `json:"client,omitempty"`
	CopyID string    `json:"copyId,omitempty"`
}

// Verb is what settles a delivery.
type Verb string

// Verbs.
const (
	// VerbAck is basic.ack.
	VerbAck Verb = "ack"
	// VerbReject is basic.reject without requeue.
	VerbReject Verb = "reject"
	// VerbRequeue is basic.reject with requeue. RabbitMQ 4.3 counts it, and no basic.nack.
	VerbRequeue Verb = "requeue"
	// VerbReturn is basic.nack with requeue: the message goes back as if it had not been delivered, where the broker can tell.
	VerbReturn Verb = "return"
	// VerbPublish publishes a copy, persistent and mandatory, without the properties user-id and expiration. Once the broker has
	// confirmed and not returned it, the original is acked.
	VerbPublish Verb = "publish"
)

// Action is what to do with a delivery.
type Action struct {
	Verb Verb `json:"verb"`
	// Kind is why; empty where nothing failed.
	Kind FailureKind `json:"kind,omitempty"`
	// GivenUp says that there will be no further attempt.
	GivenUp bool `json:"givenUp,omitempty"`
	// Wait is for how long the message is kept in hand before.
	Wait Duration `json:"waitMilliseconds,omitempty"`
	// Route and Headers are those of the copy.
	Route   *Route         `json:"route,omitempty"`
	Headers map[string]any `json:"headers,omitempty"`
	// Otherwise settles a delivery whose copy the broker does not take within 30 s. Without it, the copy is tried for as long as it takes.
	Otherwise Verb `json:"otherwise,omitempty"`
}

// Progress is how far a message has come.
type Progress struct {
	// Attempt is the number of this attempt; the first one is 1.
	Attempt int `json:"attempt"`
	// Crashes are the deliveries that ended neither in a success nor in a failure, as far as the broker counts them.
	Crashes int `json:"crashes,omitempty"`
	// OriginalExchange and OriginalRoutingKey are where the message was published first.
	OriginalExchange   string `json:"originalExchange"`
	OriginalRoutingKey string `json:"originalRoutingKey"`
}

// Progress says how far a message has come. Whatever a producer writes into the headers, a number that cannot be is read as 0.
func (c Contract) Progress(f Facts) Progress {
	retries := 0
	if failed := text(f.Headers[HeaderFailureQueue]); failed == "" || failed == c.Queue { // else another queue counted
		retries = count(f.Headers[HeaderRetryCount])
	}
	rejected, died := rejectedIn(f.Headers, c.Queue)
	deliveries := 0
	if f.Redelivered { // else a client sent the header
		deliveries = count(f.Headers[headerDeliveryCount])
	}
	progress := Progress{Attempt: 1, OriginalExchange: f.Exchange, OriginalRoutingKey: f.RoutingKey}
	switch c.Strategy {
	case StrategyPublish:
		progress.Attempt += retries
	case StrategyReject:
		progress.Attempt += retries + rejected.count
	case StrategyRequeue:
		progress.Attempt += retries + deliveries
	case StrategyNone:
	}
	if c.Strategy != StrategyRequeue { // where deliveries are attempts
		progress.Crashes = max(0, deliveries-rejected.count)
	}
	if died && c.Strategy == StrategyReject {
		progress.OriginalExchange, progress.OriginalRoutingKey = rejected.exchange, rejected.routingKey
	}
	if exchange, set := f.Headers[HeaderOriginalExchange].(string); set {
		progress.OriginalExchange = exchange
	}
	if key, set := f.Headers[HeaderOriginalRoutingKey].(string); set {
		progress.OriginalRoutingKey = key
	}
	return progress
}

// Decide says what to do with a delivery that ended.
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

// retryOrPark gives a failed message another attempt, if there is one left.
func (c Contract) retryOrPark(f Facts, o Outcome, kind FailureKind) Action {
	progress := c.Progress(f)
	if c.Strategy == StrategyRequeue {
		// The broker counts, and gives up at its limit.
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
	headers := c.copyOf(f, o, progress.Attempt)
	maps.Copy(headers, c.failureHeaders(o, kind))
	return Action{Verb: VerbPublish, Kind: kind, Route: &tier.Route, Headers: headers}
}

// attempts is how many attempts a message has.
func (c Contract) attempts() int {
	if c.Strategy == StrategyNone {
		return 1
	}
	return c.MaxAttempts
}

// park leads a message to the dead-letter queue, or drops it where there is none.
func (c Contract) park(f Facts, o Outcome, kind FailureKind) Action {
	if c.Strategy == StrategyRequeue && kind != KindCrashed && c.RejectDeadLetters {
		return Action{Verb: VerbReject, Kind: kind, GivenUp: true}
	}
	if c.Park == nil {
		return Action{Verb: VerbAck, Kind: kind, GivenUp: true}
	}
	failed := c.Progress(f).Attempt
	if kind == KindUndecodable || kind == KindCrashed { // which were not handled
		failed--
	}
	headers := c.copyOf(f, o, failed)
	maps.Copy(headers, c.failureHeaders(o, kind))
	route := *c.Park
	action := Action{Verb: VerbPublish, Kind: kind, GivenUp: true, Route: &route, Headers: headers}
	if c.RejectDeadLetters || c.Strategy == StrategyReject { // under Reject the message waits in the tier, and is parked when it comes back
		action.Otherwise = VerbReject
	}
	return action
}

// maxDeferInHand is for how long a message without a tier is deferred at most.
const maxDeferInHand = Duration(30 * time.Second)

// deferMessage lets a message wait that has not failed.
func (c Contract) deferMessage(f Facts, o Outcome) Action {
	if len(c.Tiers) == 0 {
		return Action{Verb: VerbReturn, Wait: min(max(o.Delay, 0), maxDeferInHand)}
	}
	tier := c.tierFor(o.Delay)
	headers := c.copyOf(f, o, c.Progress(f).Attempt-1)
	headers[HeaderDeferCount] = int64(count(f.Headers[HeaderDeferCount]) + 1)
	return Action{Verb: VerbPublish, Route: &tier.Route, Headers: headers}
}

// tierFor is the tier with the shortest delay that is long enough, or else the longest.
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

// Between two attempts under Requeue the consumer waits, where the broker does not.
const (
	minPause = Duration(100 * time.Millisecond)
	maxPause = Duration(5 * time.Second)
)

func (c Contract) redeliveryPause(attempt int) Duration {
	if c.RedeliveryDelay != nil {
		return 0
	}
	return min(maxPause, minPause*Duration(min(attempt, int(maxPause/minPause))))
}

// copyOf are the headers of a copy of a message of which so many attempts have failed.
func (c Contract) copyOf(f Facts, o Outcome, failed int) map[string]any {
	progress := c.Progress(f)
	headers := CopyHeaders(f.Headers)
	headers[HeaderRetryCount] = int64(failed)
	headers[HeaderOriginalExchange] = progress.OriginalExchange
	headers[HeaderOriginalRoutingKey] = progress.OriginalRoutingKey
	if o.CopyID != "" {
		headers[HeaderCopyID] = o.CopyID
	}
	return headers
}
