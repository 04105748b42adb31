package consumer_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
)

// withConsumerTimeout returns the default contract with a consumer timeout.
func withConsumerTimeout(limit time.Duration) contract.Contract {
	current, timeout := contract.Default("orders"), contract.Duration(limit)
	current.ConsumerTimeout = &timeout
	return current
}

// If a limiter grants nothing for hours, the messages wait in the queue, and each returns there only once.
func TestAConsumerReturnsMessagesIfTheLimiterGrantsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits, returned, handled := &limiter{tokens: make(chan struct{}, 100)}, atomic.Int64{}, atomic.Int64{}
		b := run(t, withConsumerTimeout(10*time.Minute), func(context.Context, *consumer.Message[string]) error {
			handled.Add(1)
			return nil
		}, consumer.WithLimiter(limits), consumer.WithConcurrency(2), consumer.WithObserver(consumer.Observer{Settled: func(end consumer.Settlement) {
			if end.Result == contract.ResultReturned {
				returned.Add(1)
			}
		}}))
		b.send(t, "a", "b", "c", "d", "e", "f")
		pass(10 * time.Minute)
		equal(t, "in the queue before the consumer timeout", 6, len(b.Messages("orders")))
		pass(3 * time.Hour)
		equal(t, "returned by workers", int64(2), returned.Load())
		health := b.consumer.Health()
		equal(t, "paused", true, health.Paused)
		equal(t, "ready", true, health.Ready)
		for range cap(limits.tokens) {
			limits.tokens <- struct{}{}
		}
		pass(time.Second)
		equal(t, "handled", int64(6), handled.Load())
		equal(t, "permissions in use", 0, limits.inUse())
		equal(t, "Run", nil, b.end())
	})
}

func TestADrainEndsAPauseOfTheLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, withConsumerTimeout(10*time.Minute), func(context.Context, *consumer.Message[string]) error { return nil },
			consumer.WithLimiter(&limiter{}))
		b.send(t, "a", "b")
		pass(time.Hour)
		equal(t, "in the queue", 2, len(b.Messages("orders")))
		began := time.Now()
		equal(t, "Run", nil, b.end())
		equal(t, "the drain took", time.Duration(0), time.Since(began))
		equal(t, "in the queue", 2, len(b.Messages("orders")))
	})
}

// Before the consumer timeout, the consumer returns a message whose copy the broker does not accept, a message that waits for a
// worker, and a deferred message that it holds.
func TestMessagesAreReturnedBeforeTheConsumerTimeout(t *testing.T) {
	t.Parallel()
	t.Run("a copy", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			attempts := make(chan int, 10)
			b := run(t, withConsumerTimeout(20*time.Minute), func(_ context.Context, m *consumer.Message[string]) error {
				attempts <- m.Attempt()
				return io.EOF
			})
			b.Delete("orders.retry.30s")
			b.send(t, "a")
			pass(18 * time.Minute)
			equal(t, "handled", 1, len(attempts))
			pass(2 * time.Minute)
			equal(t, "handled after the consumer timeout", 2, len(attempts))
			equal(t, "attempts", []int{1, 1}, []int{<-attempts, <-attempts})
			b.Declare(b.contract)
			pass(15 * time.Second)
			equal(t, "in the tier", 1, len(b.Messages("orders.retry.30s")))
			equal(t, "Run", nil, b.end())
		})
	})
	t.Run("a copy, while publishers are blocked", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			handled := 0
			b := run(t, withConsumerTimeout(20*time.Minute), func(context.Context, *consumer.Message[string]) error {
				handled++
				return io.EOF
			})
			pass(time.Second)
			b.Block(true)
			b.send(t, "a")
			pass(21 * time.Minute)
			equal(t, "handled", 2, handled)
			b.Block(false)
			equal(t, "Run", nil, b.end())
		})
	})
	t.Run("a message that waits for a worker", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			returned, handled := 0, 0
			b := run(t, withConsumerTimeout(10*time.Minute), func(context.Context, *consumer.Message[string]) error {
				handled++
				time.Sleep(8 * time.Minute)
				return nil
			}, consumer.WithConcurrency(1), consumer.WithPrefetch(2), consumer.WithTimeout(8*time.Minute), consumer.WithObserver(consumer.Observer{
				Settled: func(end consumer.Settlement) {
					if end.Result == contract.ResultReturned {
						returned++
					}
				},
			}))
			b.send(t, "a", "b")
			pass(20 * time.Minute)
			equal(t, "returned", 1, returned)
			equal(t, "handled", 2, handled)
			equal(t, "unsettled", 0, b.Unsettled(""))
			equal(t, "Run", nil, b.end())
		})
	})
	t.Run("a deferred message", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			current, handled := withConsumerTimeout(20*time.Second), 0
			current.Strategy, current.Tiers = contract.StrategyRequeue, nil
			b := run(t, current, func(context.Context, *consumer.Message[string]) error {
				handled++
				return consumer.Defer(time.Hour)
			})
			b.send(t, "a")
			pass(20 * time.Second)
			equal(t, "handled", 2, handled)
			equal(t, "Run", nil, b.end())
		})
	})
}

// A handler that ignores its context may return shortly before its message is settled without it, at 28m30s. Its failure counts even then.
func TestALateFailureUsesItsAttempt(t *testing.T) {
	t.Parallel()
	retried, parked := contract.Default("orders"), contract.Default("orders")
	parked.Strategy, parked.Tiers, parked.MaxAttempts = contract.StrategyNone, nil, 1
	for name, test := range map[string]struct {
		contract contract.Contract
		failure  error
		want     int
	}{
		"an error":                    {retried, io.EOF, retried.MaxAttempts},
		"Permanent":                   {retried, consumer.Permanent(io.EOF), 1},
		"an error, the strategy None": {parked, io.EOF, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				handled := 0
				b := run(t, test.contract, func(context.Context, *consumer.Message[string]) error {
					handled++
					time.Sleep(28*time.Minute + 29*time.Second)
					return test.failure
				})
				b.send(t, "a")
				pass(10 * time.Hour)
				equal(t, "handled", test.want, handled)
				equal(t, "dead letters", 1, len(b.dead()))
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// record collects log lines.
type record struct{ lines atomic.Pointer[[]string] }

func (r *record) Write(line []byte) (int, error) {
	lines := []string{string(line)}
	if before := r.lines.Load(); before != nil {
		lines = append(*before, lines...)
	}
	r.lines.Store(&lines)
	return len(line), nil
}

// count returns how many lines contain a text.
func (r *record) count(text string) (count int) {
	if lines := r.lines.Load(); lines != nil {
		for _, line := range *lines {
			if strings.Contains(line, text) {
				count++
			}
		}
	}
	return count
}

func hang(release chan struct{}) { <-release }

// Handlers that ignore the end of their context are reported. If all slots are stuck, the consumer is not live.
func TestStuckHandlersAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release, log, reported := make(chan struct{}), &record{}, []string{}
		b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
			if strings.HasPrefix(m.Body, "hangs") {
				hang(release)
			}
			return nil
		}, consumer.WithConcurrency(2), consumer.WithTimeout(time.Second), consumer.WithLogger(slog.New(slog.NewTextHandler(log, nil))),
			consumer.WithObserver(consumer.Observer{Stuck: func(s consumer.StuckHandler) {
				reported = append(reported, s.Delivery.ID()+" "+s.Took.Truncate(time.Second).String())
			}}))
		b.send(t, "hangs 1", "good")
		pass(time.Minute)
		health := b.consumer.Health()
		equal(t, "stuck", 1, health.Stuck)
		equal(t, "active", 1, health.Active)
		equal(t, "live", true, health.Live)
		equal(t, "reported", []string{"hangs 1 4s"}, reported)
		equal(t, "logged with the stack of the handler", 1, log.count("consumer_test.hang("))
		b.Cut() // a new session has the same slots
		b.send(t, "hangs 2")
		pass(time.Minute)
		health = b.consumer.Health()
		equal(t, "stuck", 2, health.Stuck)
		equal(t, "live without a slot", false, health.Live)
		equal(t, "ready without a slot", false, health.Ready)
		close(release)
		pass(time.Second)
		equal(t, "live again", true, b.consumer.Health().Live)
		equal(t, "Run", nil, b.end())
	})
}

// A lost connection ends the contexts of handlers long before their timeout. The consumer has no slot then, but a restart of the pod
// would not bring the broker back.
func TestAHandlerThatIgnoresALostConnectionIsStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
			hang(release)
			return nil
		}, consumer.WithConcurrency(1), consumer.WithTimeout(10*time.Minute))
		b.send(t, "a")
		pass(time.Second)
		b.Cut()
		pass(5 * time.Second)
		health := b.consumer.Health()
		equal(t, "stuck", 1, health.Stuck)
		equal(t, "ready without a slot", false, health.Ready)
		equal(t, "live before the timeout", true, health.Live)
		pass(10 * time.Minute)
		equal(t, "live after the timeout", false, b.consumer.Health().Live)
		close(release)
		equal(t, "Run", nil, b.end())
	})
}

// Messages that a worker handles one after the other have separate contexts.
func TestEachMessageHasItsOwnContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var contexts []context.Context
		var ends []error
		b := run(t, contract.Default("orders"), func(ctx context.Context, m *consumer.Message[string]) error {
			contexts = append(contexts, ctx)
			limit, has := ctx.Deadline()
			equal(t, "has a deadline", true, has)
			equal(t, "deadline", time.Minute, time.Until(limit))
			if m.Body == "slow" {
				<-ctx.Done()
				ends = append(ends, ctx.Err(), context.Cause(ctx))
			}
			return nil
		}, consumer.WithConcurrency(1), consumer.WithTimeout(time.Minute))
		b.send(t, "a", "slow")
		pass(2 * time.Minute)
		equal(t, "the context of a message that was handled", context.Canceled, contexts[0].Err())
		equal(t, "its cause", context.Canceled, context.Cause(contexts[0]))
		equal(t, "the context of a slow message", []error{context.DeadlineExceeded, consumer.ErrTimeout}, ends)
		child, cancel := context.WithTimeout(contexts[1], time.Hour)
		defer cancel()
		equal(t, "the cause of a child", consumer.ErrTimeout, context.Cause(child))
		equal(t, "Run", nil, b.end())
	})
}

func TestTheDefaultTimeoutLeavesTimeForThePrefetch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options []consumer.Option
		want    time.Duration
	}{
		"the defaults":                  {nil, 12 * time.Minute},
		"a prefetch of the concurrency": {[]consumer.Option{consumer.WithPrefetch(10)}, 24 * time.Minute},
		"a prefetch of 100":             {[]consumer.Option{consumer.WithPrefetch(100)}, 144 * time.Second},
		"a timeout of its own":          {[]consumer.Option{consumer.WithTimeout(time.Second)}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var timeout time.Duration
				b := run(t, contract.Default("orders"), func(ctx context.Context, _ *consumer.Message[string]) error {
					limit, _ := ctx.Deadline()
					timeout = time.Until(limit)
					return nil
				}, test.options...)
				b.send(t, "a")
				synctest.Wait()
				equal(t, "timeout", test.want, timeout)
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// A drain of several minutes does not make the consumer fail its liveness probe.
func TestALongDrainStaysLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, contract.Default("orders"), func(ctx context.Context, _ *consumer.Message[string]) error {
			<-ctx.Done()
			return errors.New("not done")
		}, consumer.WithDrainTimeout(10*time.Minute), consumer.WithTimeout(10*time.Minute))
		b.send(t, "a")
		pass(time.Second)
		b.stop()
		pass(9 * time.Minute)
		equal(t, "live", true, b.consumer.Health().Live)
		equal(t, "Run", nil, <-b.ended)
	})
}
