package consumer

import (
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
// An error, RetryAfter and a timeout are failures. Permanent, Discard, Defer, a panic and an undecodable body tell nothing about a
// dependency, so they neither open nor close the breaker. A message that fails while it is tried uses no attempt: it is deferred,
// as by Defer. RabbitMQ before 4.3 counts that as a delivery under Requeue and None.
func WithBreaker(n int, interval time.Duration) Option {
	return func(s *settings) { s.breakAfter, s.probeInterval = n, interval }
}

// breakerState is the state of a breaker. Its zero value is breakerClosed.
type breakerState int32

const (
	breakerClosed  breakerState = iota // messages are consumed
	breakerOpen                        // no message is consumed
	breakerProbing                     // one message at a time is consumed
)

// breaker counts how often the handler failed in a row. The zero value is closed.
type breaker struct {
	state atomic.Int32 // a breakerState; changed with mu held

	mu       sync.Mutex
	failures int // in a row
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

// record records how a call of the handler ended, and returns the state before. changed is called when a message may be tried.
func (b *breaker) record(ended contract.Result, given *settings, changed func()) (before breakerState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before = breakerState(b.state.Load())
	switch ended {
	case contract.ResultSucceeded:
		if before == breakerOpen { // the call began before the breaker opened
			break
		}
		b.failures = 0
		b.state.Store(int32(breakerClosed))
	case contract.ResultFailed:
		b.failures++
		if before == breakerOpen || before == breakerClosed && b.failures < given.breakAfter {
			break
		}
		b.state.Store(int32(breakerOpen))
		b.probe = time.AfterFunc(given.probeInterval, func() {
			if b.state.CompareAndSwap(int32(breakerOpen), int32(breakerProbing)) {
				changed()
			}
		})
	}
	return before
}

// stop stops the timer.
func (b *breaker) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probe != nil {
		b.probe.Stop()
	}
}

// ending is how the handler ended for one message.
type ending struct {
	delivery *Delivery
	outcome  contract.Outcome
	failure  error
}

func (e ending) isFailure() bool {
	return e.outcome.Result == contract.ResultFailed || e.outcome.Result == contract.ResultTimedOut
}

// conclude settles the messages of one call of the handler.
func (s *session) conclude(began time.Time, ends ...ending) {
	if s.settings.breakAfter > 0 {
		s.followBreaker(ends)
	}
	for _, end := range ends {
		s.settle(end.delivery, end.outcome, end.failure, began)
	}
}

// followBreaker records the end of a call of the handler. It defers a message that failed while it was tried. If the breaker opens, it
// cancels the subscription before the messages are settled, because the broker would then send others.
func (s *session) followBreaker(ends []ending) {
	c, ended := s.consumer, resultOf(ends)
	before := c.breaker.record(ended, s.settings, func() { notify(c.pauseChanges) })
	if before == breakerProbing && ended == contract.ResultFailed {
		for i := range ends {
			if ends[i].isFailure() {
				ends[i].outcome = contract.Outcome{Result: contract.ResultDeferred}
			}
		}
	}
	if c.breaker.is(before) {
		return
	}
	if c.breaker.is(breakerOpen) {
		_ = s.adjust() // fails with the session
	}
	notify(c.pauseChanges)
}

// resultOf returns ResultSucceeded if the handler succeeded for a message, ResultFailed if it failed, and "" if neither.
func resultOf(ends []ending) contract.Result {
	switch {
	case slices.ContainsFunc(ends, func(e ending) bool { return e.outcome.Result == contract.ResultSucceeded }):
		return contract.ResultSucceeded
	case slices.ContainsFunc(ends, ending.isFailure):
		return contract.ResultFailed
	}
	return ""
}
