package consumer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

// runBatches runs a consumer that handles batches of 3 messages, or those of the first second.
func runBatches[T any](t *testing.T, handle consumer.BatchHandler[T], options ...consumer.Option) *fixture {
	t.Helper()
	return startWith(t, contract.Default("orders"), func(*memory.Broker) {},
		func(conn *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
			return consumer.NewBatch(conn, source, 3, time.Second, handle, options...)
		}, options...)
}

// batches records the bodies of each batch.
type batches struct {
	mu  sync.Mutex
	all []string
}

func (r *batches) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

func (r *batches) sizes() (all []int) {
	for _, bodies := range r.list() {
		all = append(all, len(strings.Fields(bodies)))
	}
	return all
}

func (r *batches) add(b *consumer.Batch[string]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, m := range b.Messages {
		all = append(all, m.Body)
	}
	r.all = append(r.all, strings.Join(all, " "))
}

func TestABatchHasTheSizeOrTheMessagesOfTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := &batches{}
		b := runBatches(t, func(_ context.Context, b *consumer.Batch[string]) error {
			seen.add(b)
			time.Sleep(10 * time.Millisecond)
			return nil
		})
		b.send(t, "a", "b", "c", "d", "e", "f", "g")
		pass(999 * time.Millisecond)
		equal(t, "full batches", []string{"a b c", "d e f"}, seen.list())
		pass(time.Second)
		equal(t, "with the messages of the wait", []string{"a b c", "d e f", "g"}, seen.list())
		equal(t, "unsettled", 0, b.Unsettled(""))
		equal(t, "Run", nil, b.end())
	})
}

// The wait of a message begins when it arrives, also while the worker handles another batch.
func TestABatchCountsTheWaitFromTheArrival(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := &batches{}
		b := runBatches(t, func(_ context.Context, b *consumer.Batch[string]) error {
			seen.add(b)
			time.Sleep(900 * time.Millisecond)
			return nil
		})
		b.send(t, "a", "b", "c", "d")
		pass(950 * time.Millisecond)
		b.send(t, "e")
		pass(100 * time.Millisecond)
		equal(t, "batches", []string{"a b c", "d e"}, seen.list())
		pass(800 * time.Millisecond)
		b.send(t, "f", "g")
		pass(200 * time.Millisecond)
		equal(t, "before the end of the wait", 2, len(seen.list()))
		equal(t, "Run", nil, b.end())
	})
}

func TestEachMessageOfABatchHasAResult(t *testing.T) {
	t.Parallel()
	panicking := func(next consumer.HandleFunc) consumer.HandleFunc {
		return func(ctx context.Context, d *consumer.Delivery) error {
			if d.ID() == "c" {
				panic("a nil map")
			}
			return next(ctx, d)
		}
	}
	for name, test := range map[string]struct {
		handle     func(b *consumer.Batch[string]) error
		middleware consumer.Middleware
		handled    []string
		dead       []string // of "a", "b" and "c"
		waits      []string
	}{
		"nil acks all": {handle: func(*consumer.Batch[string]) error { return nil }, handled: []string{"a b c"}},
		"an error fails all": {
			handle: func(*consumer.Batch[string]) error { return io.EOF }, handled: []string{"a b c"}, waits: []string{"a failed", "b failed", "c failed"},
		},
		"SetResult fails one": {
			handle: func(b *consumer.Batch[string]) error {
				b.SetResult(b.Messages[1], consumer.Permanent(io.EOF))
				return nil
			}, handled: []string{"a b c"}, dead: []string{"b permanent 1"},
		},
		"SetResult acks one": {
			handle: func(b *consumer.Batch[string]) error {
				b.SetResult(b.Messages[0], nil)
				return io.EOF
			}, handled: []string{"a b c"}, waits: []string{"b failed", "c failed"},
		},
		"a panic fails all": {
			handle: func(*consumer.Batch[string]) error { panic("no stock") }, handled: []string{"a b c"},
			waits: []string{"a panic", "b panic", "c panic"},
		},
		"an ended goroutine fails all": {
			handle: func(*consumer.Batch[string]) error { goexit(); return nil }, handled: []string{"a b c"},
			waits: []string{"a panic", "b panic", "c panic"},
		},
		"middleware sees each result": {
			handle: func(*consumer.Batch[string]) error { return io.EOF }, middleware: consumer.AckAlways, handled: []string{"a b c"},
		},
		"middleware that panics fails one": {
			handle: func(*consumer.Batch[string]) error { return nil }, middleware: panicking, handled: []string{"a b"},
			waits: []string{"c panic"},
		},
		"middleware that ends its goroutine fails one": {
			handle: func(*consumer.Batch[string]) error { return nil }, handled: []string{"a b"}, waits: []string{"c panic"},
			middleware: func(next consumer.HandleFunc) consumer.HandleFunc {
				return func(ctx context.Context, d *consumer.Delivery) error {
					if d.ID() == "c" {
						goexit()
					}
					return next(ctx, d)
				}
			},
		},
		"middleware that times out fails all": {
			handle: func(*consumer.Batch[string]) error { return nil }, waits: []string{"a timeout", "b timeout", "c timeout"},
			middleware: func(next consumer.HandleFunc) consumer.HandleFunc {
				return func(ctx context.Context, d *consumer.Delivery) error {
					if d.ID() == "c" {
						<-ctx.Done()
						return ctx.Err()
					}
					return next(ctx, d)
				}
			},
		},
		"middleware that handles one itself": {
			handle: func(*consumer.Batch[string]) error { return nil }, handled: []string{"a b"},
			middleware: func(next consumer.HandleFunc) consumer.HandleFunc {
				return func(ctx context.Context, d *consumer.Delivery) error {
					if d.ID() == "c" {
						return nil
					}
					return next(ctx, d)
				}
			},
		},
		"middleware that tries one again": {
			handle: func(b *consumer.Batch[string]) error {
				if len(b.Messages) > 1 {
					b.SetResult(b.Messages[1], io.EOF)
				}
				return nil
			}, handled: []string{"a b c", "b"},
			middleware: func(next consumer.HandleFunc) consumer.HandleFunc {
				return func(ctx context.Context, d *consumer.Delivery) error {
					if next(ctx, d) == nil {
						return nil
					}
					return next(ctx, d)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				seen := &batches{}
				options := []consumer.Option{consumer.WithTimeout(time.Second)}
				if test.middleware != nil {
					options = append(options, consumer.WithMiddleware(test.middleware))
				}
				b := runBatches(t, func(_ context.Context, b *consumer.Batch[string]) error {
					seen.add(b)
					return test.handle(b)
				}, options...)
				b.send(t, "a", "b", "c")
				pass(5 * time.Second)
				equal(t, "handled", test.handled, seen.list())
				equal(t, "dead letters", test.dead, b.dead())
				var waits []string
				for _, m := range b.Messages("orders.retry.30s") {
					waits = append(waits, fmt.Sprintf("%s %v", m.Body, m.Headers["x-failure-kind"]))
				}
				slices.Sort(waits)
				equal(t, "waiting", test.waits, waits)
				equal(t, "unsettled", len(waits), b.Unsettled(b.contract.DeadLetterQueue))
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// Middleware tries each message of a batch again, but the concurrency is one batch.
func TestMessagesThatAreTriedAgainOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		running, together := atomic.Int64{}, atomic.Int64{}
		again := func(next consumer.HandleFunc) consumer.HandleFunc {
			return func(ctx context.Context, d *consumer.Delivery) error { return cmp.Or(next(ctx, d), next(ctx, d)) }
		}
		b := runBatches(t, func(context.Context, *consumer.Batch[string]) error {
			together.Store(max(together.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			return nil
		}, consumer.WithMiddleware(again))
		b.send(t, "a", "b", "c")
		pass(time.Minute)
		equal(t, "handlers at the same time", 1, int(together.Load()))
		equal(t, "Run", nil, b.end())
	})
}

func TestAnUndecodableBodyIsNotInTheBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []int
		b := runBatches(t, func(_ context.Context, b *consumer.Batch[int]) error {
			for _, m := range b.Messages {
				got = append(got, m.Body)
			}
			return nil
		})
		b.send(t, "1", "{", "3")
		pass(time.Second)
		equal(t, "handled", []int{1, 3}, got)
		equal(t, "dead letters", []string{"{ undecodable 0"}, b.dead())
		equal(t, "Run", nil, b.end())
	})
}

// The worker continues, and settles the other messages.
func TestAnObserverThatEndsTheGoroutineOfABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := runBatches(t, func(context.Context, *consumer.Batch[string]) error { return nil },
			consumer.WithObserver(consumer.Observer{Settled: func(consumer.Settlement) { goexit() }}))
		b.send(t, "a", "b", "c", "d", "e")
		synctest.Wait()
		b.consumer.Pause()
		pass(time.Minute)
		equal(t, "returned before they were handled", 2, len(b.Messages("orders")))
		b.consumer.Resume()
		pass(time.Minute)
		equal(t, "unsettled", 0, b.Unsettled(""))
		began := time.Now()
		equal(t, "Run", nil, b.end())
		equal(t, "the drain took", time.Duration(0), time.Since(began))
	})
}

// A drain returns a batch that is not full, waits for the handler, and interrupts it after the drain timeout.
func TestADrainOfBatches(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bodies []string
		took   time.Duration // by the handler
		drain  time.Duration
		left   int
		cause  error
	}{
		"returns a batch that is not full": {[]string{"a", "b"}, time.Second, 0, 2, nil},
		"waits for the handler":            {[]string{"a", "b", "c", "d"}, 10 * time.Second, 10 * time.Second, 1, nil},
		"interrupts a slow handler":        {[]string{"a", "b", "c"}, time.Hour, 20 * time.Second, 3, consumer.ErrDraining},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var cause error
				b := runBatches(t, func(ctx context.Context, _ *consumer.Batch[string]) error {
					select {
					case <-ctx.Done():
						cause = context.Cause(ctx)
						return cause
					case <-time.After(test.took):
						return nil
					}
				}, consumer.WithTimeout(11*time.Minute))
				b.send(t, test.bodies...)
				synctest.Wait()
				began := time.Now()
				equal(t, "Run", nil, b.end())
				equal(t, "the drain took", test.drain, time.Since(began))
				equal(t, "left in the queue", test.left, len(b.Messages("orders")))
				equal(t, "cause", test.cause, cause)
			})
		})
	}
}

func TestADrainNamesAllMessagesOfABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := runBatches(t, func(context.Context, *consumer.Batch[string]) error {
			hang(release)
			return nil
		})
		b.send(t, "a", "b", "c")
		synctest.Wait()
		abandoned := &consumer.DrainError{}
		if err := b.end(); !errors.As(err, &abandoned) {
			t.Fatalf("Run returned %v", err)
		}
		equal(t, "abandoned", []string{"a", "b", "c"}, abandoned.Abandoned)
		close(release)
	})
}

// The limiter and the breaker count batches.
func TestALimiterAndABreakerOfBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits, seen, down := &limiter{tokens: make(chan struct{}, 10)}, &batches{}, atomic.Bool{}
		down.Store(true)
		b := runBatches(t, func(_ context.Context, b *consumer.Batch[string]) error {
			seen.add(b)
			if down.Load() {
				return io.EOF
			}
			return nil
		}, consumer.WithLimiter(limits), consumer.WithBreaker(2, 2*time.Second))
		for range cap(limits.tokens) {
			limits.tokens <- struct{}{}
		}
		b.send(t, "a", "b", "c", "d", "e", "f", "g", "h", "i")
		pass(4 * time.Second)
		equal(t, "two failures in a row, and one message every two seconds", []int{3, 3, 1, 1}, seen.sizes())
		equal(t, "permissions in use", 0, limits.inUse())
		down.Store(false)
		pass(10 * time.Second)
		equal(t, "after the outage", []int{1}, seen.sizes()[4:])
		equal(t, "Run", nil, b.end())
	})
}

func TestNewBatchRefusesWrongArguments(t *testing.T) {
	t.Parallel()
	conn := consumer.NewConn(nil)
	handle := func(context.Context, *consumer.Batch[string]) error { return nil }
	for name, test := range map[string]struct {
		size   int
		wait   time.Duration
		handle consumer.BatchHandler[string]
		want   string
	}{
		"no handler":       {3, time.Second, nil, "needs a Conn, a contract and a handler"},
		"no message":       {0, time.Second, handle, "NewBatch with a size of 0"},
		"no wait":          {3, 0, handle, "a wait of 0s"},
		"a long wait":      {3, time.Hour, handle, "a wait of at most 8m15s"},
		"too many at once": {40_000, time.Second, handle, "WithPrefetch(80000) must be between"},
	} {
		_, err := consumer.NewBatch(conn, contract.Default("orders"), test.size, test.wait, test.handle)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: want %q, got %v", name, test.want, err)
		}
	}
}
