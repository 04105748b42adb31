package consumer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

// WithBreaker makes the consumer pause after the handler failed n times in a row, for example because a database is down. Each
// interval, the consumer tries one message. When the handler succeeds, the consumer continues as before. Until then it is live but
// not ready, and the messages wait in the queue. The default, also for 0, is no breaker.
//
// An error, RetryAfter and a timeout of the handler are failures, even if middleware such as AckAlways hides them. An error that
// middleware returns is also a failure. Permanent, Discard, Defer, a panic, an undecodable body and a message that Dedupe drops say
// nothing about a dependency, so they neither open nor close the breaker.
//
// A message that fails while it is tried uses no attempt: it is deferred, as by Defer. RabbitMQ before 4.3 counts that as a delivery
// under Requeue and None. Without delay tiers the broker delivers a deferred message first again. So that this message does not keep
// the breaker open, the consumer tries one more message in each interval, up to the prefetch.
func WithBreaker(n int, interval time.Duration) Option {
	return func(s *settings) { s.breakAfter, s.probeInterval = n, interval }
}

// breakerState is the state of a breaker. Its zero value is breakerClosed.
type breakerState int32

const (
	breakerClosed  breakerState = iota // messages are consumed
	breakerOpen                        // no message is consumed
	breakerProbing                     // some messages are tried
)

// breaker counts how often the handler failed in a row. The zero value is closed.
type breaker struct {
	state atomic.Int32 // a breakerState; changed with mu held
	extra atomic.Int32 // how many messages besides one are tried in each interval; changed with mu held

	mu       sync.Mutex
	failures int // in a row
	tried    int // messages that failed in this interval, while messages are tried
	probe    *time.Timer
}

func (b *breaker) is(state breakerState) bool { return breakerState(b.state.Load()) == state }

// err returns why the breaker is not closed, or nil. It leaves out the handler's error, because Health is served without authentication.
func (b *breaker) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.is(breakerClosed) {
		return nil
	}
	return fmt.Errorf("the breaker is open: the handler failed %d times in a row; the log has its errors", b.failures)
}

// record records how a call of the handler ended, and reports whether the state changed. changed is called when messages may be tried.
func (b *breaker) record(ends []ending, given *settings, changed func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := breakerState(b.state.Load())
	if before != breakerClosed && !ends[0].delivery.probe { // the call began before the breaker opened
		return false
	}
	switch resultOf(ends) {
	case contract.ResultSucceeded:
		b.failures = 0
		b.extra.Store(0)
		b.state.Store(int32(breakerClosed))
		return before != breakerClosed
	case contract.ResultFailed:
		b.failures++
	default: // says nothing about the dependency, but may keep other messages from being tried
		if before != breakerProbing || !comeFirstAgain(ends) {
			return false
		}
	}
	switch before {
	case breakerOpen:
		return false
	case breakerClosed:
		if b.failures < given.breakAfter {
			return false
		}
	case breakerProbing:
		extra := int(b.extra.Load())
		if b.tried += len(ends); b.tried <= extra {
			return false
		}
		if comeFirstAgain(ends) && extra+1 < given.prefetch {
			b.extra.Add(1)
		}
	}
	b.open(given, changed)
	return true
}

// open opens the breaker and starts the timer. The caller holds mu.
func (b *breaker) open(given *settings, changed func()) {
	b.tried = 0
	b.state.Store(int32(breakerOpen))
	b.stopTimer() // a late success may have closed the breaker within its interval
	b.probe = time.AfterFunc(given.probeInterval, func() {
		if b.state.CompareAndSwap(int32(breakerOpen), int32(breakerProbing)) {
			changed()
		}
	})
}

func (b *breaker) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopTimer()
}

// stopTimer stops the timer. The caller holds mu.
func (b *breaker) stopTimer() {
	if b.probe != nil {
		b.probe.Stop()
	}
}

// ending is how the handling of one message ended.
type ending struct {
	delivery *Delivery
	outcome  contract.Outcome
	failure  error
}

// isFailure reports whether a result suggests that a dependency is down.
func isFailure(result contract.Result) bool {
	return result == contract.ResultFailed || result == contract.ResultTimedOut
}

// conclude settles the messages of one call of the handler, unless settleStuck has settled them.
func (s *session) conclude(h *handlerContext, ends ...ending) {
	if !h.claim() {
		s.consumer.logLate(ends)
		return
	}
	s.settleEnded(h, ends)
}

func (s *session) settleEnded(h *handlerContext, ends []ending) {
	if s.settings.breakAfter > 0 {
		s.followBreaker(ends)
	}
	s.settleAll(h.began, ends)
}

// settleAll settles at least one message. If settle ends the goroutine, the deferred call settles the other messages.
func (s *session) settleAll(began time.Time, ends []ending) {
	if len(ends) > 1 {
		defer s.settleAll(began, ends[1:])
	}
	s.settle(ends[0].delivery, ends[0].outcome, ends[0].failure, began)
}

// followBreaker passes the results of a handler call to the breaker. If a message that the breaker tries has failed, followBreaker
// changes its outcome to Deferred. If the breaker opens, followBreaker cancels the subscription before these messages are settled:
// the broker sends new messages for settled ones.
func (s *session) followBreaker(ends []ending) {
	c := s.consumer
	changed := c.breaker.record(ends, s.settings, func() { notify(c.pauseChanges) })
	for i := range ends {
		if ends[i].delivery.probe && isFailure(ends[i].outcome.Result) {
			ends[i].outcome = contract.Outcome{Result: contract.ResultDeferred}
		}
	}
	if !changed {
		return
	}
	if c.breaker.is(breakerOpen) {
		_ = s.adjust() // fails with the session
	}
	notify(c.pauseChanges)
}

// comeFirstAgain reports whether the broker will deliver these tried messages first again. Without delay tiers, it does.
func comeFirstAgain(ends []ending) bool {
	return len(ends[0].delivery.contract.Tiers) == 0 && slices.ContainsFunc(ends, func(e ending) bool {
		return isFailure(e.outcome.Result) || e.outcome.Result == contract.ResultDeferred || e.outcome.Result == contract.ResultPanicked
	})
}

// resultOf returns ResultSucceeded if handler and middleware succeeded for any message. Otherwise it returns ResultFailed if one of them
// failed for any message, and "" if neither did.
func resultOf(ends []ending) contract.Result {
	succeeded := func(e ending) bool {
		return e.outcome.Result == contract.ResultSucceeded && e.delivery.handled.Load() == handlerSucceeded
	}
	failed := func(e ending) bool { return isFailure(e.outcome.Result) || e.delivery.handled.Load() == handlerFailed }
	switch {
	case slices.ContainsFunc(ends, succeeded):
		return contract.ResultSucceeded
	case slices.ContainsFunc(ends, failed):
		return contract.ResultFailed
	}
	return ""
}

// The ends of the application's handler for a message. The middleware may return another result.
const (
	handlerUnknown   = int32(iota) // the handler was not called, or its end says nothing about a dependency
	handlerSucceeded               // the handler returned nil
	handlerFailed                  // the handler failed
)

// recordingEnd returns a handler that records on the delivery how handle ended.
func recordingEnd(handle HandleFunc) HandleFunc {
	return func(ctx context.Context, d *Delivery) error {
		err := handle(ctx, d)
		end := handlerUnknown
		switch result, _ := resultOfHandler(ctx, err); {
		case result == contract.ResultSucceeded:
			end = handlerSucceeded
		case isFailure(result):
			end = handlerFailed
		}
		d.handled.Store(end)
		return err
	}
}
