package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
)

// A dependency is down for ten minutes while 500 messages arrive each second.
func TestTheBreakerProtectsMessagesFromAnOutage(t *testing.T) {
	t.Parallel()
	const threshold, interval = 5, 2 * time.Second
	rate := 500
	if testing.Short() {
		rate = 5
	}
	for _, strategy := range []contract.Strategy{contract.StrategyPublish, contract.StrategyRequeue} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				current := contract.Default("orders")
				if current.Strategy = strategy; strategy == contract.StrategyRequeue {
					current.Tiers = nil
				}
				down, failed, calls, handled, attempts := atomic.Bool{}, 0, 0, 0, 0
				b := run(t, current, func(_ context.Context, m *consumer.Message[string]) error {
					calls++
					if down.Load() {
						failed++
						return errors.New("no database")
					}
					handled++
					attempts += m.Attempt() - 1
					return nil
				}, consumer.WithConcurrency(1), consumer.WithPrefetch(20), consumer.WithBreaker(threshold, interval))
				sent := 0
				outage := func(length time.Duration) {
					for end := time.Now().Add(length); time.Now().Before(end); sent += rate {
						for i := range rate {
							b.send(t, fmt.Sprint(sent+i))
						}
						pass(time.Second)
					}
				}
				outage(10 * time.Second)
				equal(t, "handled before", sent, handled)
				down.Store(true)
				outage(10 * time.Minute)
				health := b.consumer.Health()
				equal(t, "state", consumer.StatePaused, health.State)
				equal(t, "ready, live and paused", []bool{false, true, true}, []bool{health.Ready, health.Live, health.Paused})
				probes := int(10 * time.Minute / interval)
				if strategy == contract.StrategyRequeue {
					probes *= 20 // the same messages return first, so up to the prefetch are tried
				}
				if failed > threshold+20+probes {
					t.Errorf("the handler failed %d times", failed)
				}
				down.Store(false)
				pass(5 * time.Second)
				equal(t, "recovered after 5 s", true, b.consumer.Health().Ready)
				pass(2 * time.Hour)
				equal(t, "handled", sent, handled)
				equal(t, "dead letters", 0, len(b.dead()))
				if attempts > threshold+20 {
					t.Errorf("%d attempts were used", attempts)
				}
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

func TestTheBreaker(t *testing.T) {
	t.Parallel()
	failed := errors.New("no database")
	for name, test := range map[string]struct {
		returns []error // the last one is returned for all further messages
		handled int     // after 500 messages and 10 s
		open    bool
	}{
		"opens after three failures in a row":        {[]error{failed, failed, failed}, 3 + 2, true},
		"opens after timeouts":                       {[]error{context.DeadlineExceeded}, 3 + 2, true},
		"opens after RetryAfter":                     {[]error{consumer.RetryAfter(time.Hour, failed)}, 3 + 2, true},
		"stays closed if a success is in between":    {[]error{failed, failed, nil, failed, failed, nil}, 500, false},
		"stays closed for permanent failures":        {[]error{consumer.Permanent(failed)}, 500, false},
		"opens if only other results are in between": {[]error{failed, consumer.Discard(failed), failed, consumer.Defer(time.Hour), failed}, 5 + 2, true},
		"closes after a success":                     {[]error{failed, failed, failed, nil}, 500, false},
		"stays open for a permanent failure":         {[]error{failed, failed, failed, consumer.Permanent(failed)}, 500, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				handled := 0
				b := run(t, contract.Default("orders"), func(ctx context.Context, _ *consumer.Message[string]) error {
					handled++
					returns := test.returns[min(handled, len(test.returns))-1]
					if errors.Is(returns, context.DeadlineExceeded) {
						<-ctx.Done()
					}
					return returns
				}, consumer.WithConcurrency(1), consumer.WithTimeout(time.Millisecond), consumer.WithBreaker(3, 4*time.Second))
				for i := range 500 {
					b.send(t, fmt.Sprint(i))
				}
				pass(10 * time.Second)
				equal(t, "handled", test.handled, handled)
				equal(t, "ready", !test.open, b.consumer.Health().Ready)
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// The only message of a queue is tried again and again, and uses no attempt.
func TestABreakerThatProbesWithOneMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, last := &record{}, 0
		b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
			last = m.Attempt()
			return errors.New("no database")
		}, consumer.WithBreaker(1, time.Second), consumer.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		b.send(t, "a")
		pass(2 * time.Hour)
		equal(t, "last attempt", 2, last)
		equal(t, "dead letters", 0, len(b.dead()))
		const message = "the breaker is open: the handler failed"
		equal(t, "logged once", 1, log.count(message))
		b.consumer.Pause() // also while the breaker is open
		b.Cut()
		pass(time.Hour)
		equal(t, "state", consumer.StatePaused, b.consumer.Health().State)
		equal(t, "Run", nil, b.end())
	})
}

// While the breaker is open, RabbitMQ delivers a deferred message first again.
func TestMessagesThatAlwaysFailDoNotKeepTheBreakerOpen(t *testing.T) {
	t.Parallel()
	for _, strategy := range []contract.Strategy{contract.StrategyRequeue, contract.StrategyNone} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				current := contract.Default("orders")
				current.Strategy, current.Tiers = strategy, nil
				handled := map[string]int{}
				b := run(t, current, func(_ context.Context, m *consumer.Message[string]) error {
					if m.Body == "poison" {
						return errors.New("no such customer")
					}
					handled[m.Body]++
					return nil
				}, consumer.WithConcurrency(1), consumer.WithPrefetch(4), consumer.WithBreaker(2, time.Second))
				b.send(t, "poison", "poison", "poison", "a", "b", "c")
				pass(time.Hour)
				equal(t, "handled", map[string]int{"a": 1, "b": 1, "c": 1}, handled)
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// RabbitMQ delivers a deferred message first again, and under Requeue also a message whose handler panics.
func TestMessagesThatSayNothingDoNotKeepTheBreakerOpen(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		strategy contract.Strategy
		end      func() error
	}{
		"Requeue, deferred": {contract.StrategyRequeue, func() error { return consumer.Defer(24 * time.Hour) }},
		"None, deferred":    {contract.StrategyNone, func() error { return consumer.Defer(24 * time.Hour) }},
		"Requeue, a panic":  {contract.StrategyRequeue, func() error { panic("no such customer") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				current := contract.Default("orders")
				current.Strategy, current.Tiers, current.MaxAttempts = test.strategy, nil, 1000
				handled, down := map[string]int{}, atomic.Bool{}
				down.Store(true)
				b := run(t, current, func(_ context.Context, m *consumer.Message[string]) error {
					switch {
					case m.Body == "silent":
						return test.end()
					case down.Load():
						return errors.New("no database")
					}
					handled[m.Body]++
					return nil
				}, consumer.WithConcurrency(1), consumer.WithPrefetch(4), consumer.WithBreaker(2, time.Minute))
				b.send(t, "silent", "a", "b", "c", "d")
				pass(time.Second)
				equal(t, "ready", false, b.consumer.Health().Ready)
				down.Store(false)
				pass(time.Hour)
				equal(t, "handled c and d", []int{1, 1}, []int{handled["c"], handled["d"]})
				equal(t, "ready in the end", true, b.consumer.Health().Ready)
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// In an outage more messages are tried each interval, but the next outage begins with one.
func TestTheNextOutageBeginsWithOneMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		current := contract.Default("orders")
		current.Strategy, current.Tiers = contract.StrategyRequeue, nil
		down, failed := atomic.Bool{}, atomic.Int64{}
		b := run(t, current, func(context.Context, *consumer.Message[string]) error {
			if down.Load() {
				failed.Add(1)
				return errors.New("no database")
			}
			return nil
		}, consumer.WithConcurrency(1), consumer.WithPrefetch(4), consumer.WithBreaker(2, time.Second))
		for range 2 {
			failed.Store(0)
			down.Store(true)
			b.send(t, "a", "b", "c", "d", "e", "f")
			pass(3500 * time.Millisecond)
			equal(t, "failed until it opens, and in three intervals", 2+1+2+3, int(failed.Load()))
			down.Store(false)
			pass(time.Hour)
			equal(t, "left", 0, b.Unsettled(""))
		}
		equal(t, "Run", nil, b.end())
	})
}

// Messages whose copies the broker refuses stay unsettled in the consumer.
func TestABreakerThatTriesMessagesHoldsFewOfThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
			return errors.New("no database")
		}, consumer.WithConcurrency(1), consumer.WithPrefetch(4), consumer.WithBreaker(1, time.Second))
		b.Refuse("orders.retry.30s", true)
		for i := range 100 {
			b.send(t, fmt.Sprint(i))
		}
		pass(10 * time.Minute)
		equal(t, "waiting in the queue", 100-4, len(b.Messages("orders")))
		equal(t, "Run", nil, b.end())
	})
}

// A success that comes late closes the breaker. When it opens again, a whole interval passes before a message is tried.
func TestABreakerThatClosesLateAndOpensAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		current := contract.Default("orders")
		current.Strategy, current.Tiers, current.MaxAttempts = contract.StrategyRequeue, nil, 1000
		hang, hanging, release, failed := atomic.Bool{}, atomic.Bool{}, make(chan struct{}), atomic.Int64{}
		b := run(t, current, func(_ context.Context, m *consumer.Message[string]) error {
			if m.Body == "hangs" && hang.Load() {
				hanging.Store(true)
				<-release
				return nil
			}
			failed.Add(1)
			return errors.New("no database")
		}, consumer.WithConcurrency(2), consumer.WithPrefetch(2), consumer.WithBreaker(1, 10*time.Second))
		b.send(t, "hangs", "fails")
		pass(15 * time.Second) // the next time, two messages are tried
		hang.Store(true)
		for !hanging.Load() { // the other message may be tried twice first
			pass(10 * time.Second)
		}
		close(release)
		pass(time.Second) // it closed in the middle of the interval and opened again
		before := failed.Load()
		pass(8 * time.Second)
		equal(t, "failures within the interval", before, failed.Load())
		pass(2 * time.Second)
		equal(t, "failures after the interval", before+1, failed.Load())
		equal(t, "Run", nil, b.end())
	})
}

// A handler that began before the breaker opened says nothing about the dependency of now, and its failure uses an attempt.
func TestAHandlerThatBeganBeforeTheBreakerOpened(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		late   error
		failed []any // x-retry-count of the messages in the tier
	}{
		"succeeds late": {nil, []any{int64(1)}},
		"fails late":    {errors.New("too slow"), []any{int64(1), int64(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				slow, hangs, tried := make(chan struct{}), make(chan struct{}), atomic.Bool{}
				b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
					switch m.Body {
					case "slow":
						<-slow
						return test.late
					case "hangs":
						tried.Store(true)
						<-hangs
					}
					return errors.New("no database")
				}, consumer.WithConcurrency(2), consumer.WithBreaker(1, 3*time.Second))
				b.send(t, "slow")
				synctest.Wait()
				b.send(t, "fails")
				pass(time.Second)
				b.send(t, "hangs", "waits")
				pass(3 * time.Second)
				equal(t, "tried while the slow handler runs", true, tried.Load())
				close(slow)
				pass(time.Second)
				equal(t, "ready", false, b.consumer.Health().Ready)
				equal(t, "waiting", 1, len(b.Messages("orders")))
				var failed []any
				for _, m := range b.Messages("orders.retry.30s") {
					failed = append(failed, m.Headers[contract.HeaderRetryCount])
				}
				equal(t, "failed", test.failed, failed)
				close(hangs)
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// The breaker opens while a message waits for the limiter. The message is then tried, like messages that arrive later.
func TestAMessageThatWaitsForTheLimiterWhenTheBreakerOpens(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		result error
		ready  bool
		counts []any // x-retry-count of the messages in the tier
	}{
		"succeeds": {nil, true, []any{int64(1)}},
		"fails":    {io.EOF, false, []any{int64(1), int64(0)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limits, fails := &limiter{tokens: make(chan struct{}, 1)}, make(chan struct{})
				b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
					if m.Body == "waits" {
						return test.result
					}
					<-fails
					return io.EOF
				}, consumer.WithConcurrency(2), consumer.WithLimiter(limits), consumer.WithBreaker(1, time.Second))
				limits.tokens <- struct{}{}
				b.send(t, "first")
				pass(time.Second)
				b.send(t, "waits")
				synctest.Wait()
				close(fails)
				pass(9500 * time.Millisecond)
				limits.tokens <- struct{}{}
				synctest.Wait()
				equal(t, "ready", test.ready, b.consumer.Health().Ready)
				var counts []any
				for _, m := range b.Messages("orders.retry.30s") {
					counts = append(counts, m.Headers[contract.HeaderRetryCount])
				}
				equal(t, "retry counts", test.counts, counts)
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// done is a Store in which each key but one is marked.
type done struct{ but string }

func (s done) Done(_ context.Context, key string) (bool, error) { return key != s.but, nil }

func (done) Mark(context.Context, string) error { return nil }

// Middleware may say something else than the handler.
func TestTheBreakerCountsWhatTheHandlerReturns(t *testing.T) {
	t.Parallel()
	lost := func(consumer.HandleFunc) consumer.HandleFunc {
		return func(context.Context, *consumer.Delivery) error { return errors.New("no database") }
	}
	for name, test := range map[string]struct {
		middleware consumer.Middleware
		after      int // failures
		handled    int // of the messages a, b, c and d, for each of which the handler fails
		open       bool
	}{
		"a duplicate is no success":                 {consumer.Dedupe(done{but: "a"}, consumer.ByMessageID), 1, 1, true},
		"a failure that is acked is a failure":      {consumer.AckAlways, 2, 2, true},
		"an error of middleware is a failure":       {lost, 2, 0, true},
		"duplicates alone leave the breaker closed": {consumer.Dedupe(done{}, consumer.ByMessageID), 1, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				handled := atomic.Int64{}
				b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
					handled.Add(1)
					return errors.New("no database")
				}, consumer.WithConcurrency(1), consumer.WithMiddleware(test.middleware), consumer.WithBreaker(test.after, time.Second))
				b.send(t, "a", "b", "c", "d")
				pass(900 * time.Millisecond)
				equal(t, "handled", test.handled, int(handled.Load()))
				equal(t, "ready", !test.open, b.consumer.Health().Ready)
				pass(5 * time.Second)
				equal(t, "ready after some tries", !test.open, b.consumer.Health().Ready)
				equal(t, "Run", nil, b.end())
			})
		})
	}
}
