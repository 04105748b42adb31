package consumer_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

// settlements records how deliveries were settled.
type settlements struct {
	mu  sync.Mutex
	all []string
}

func (s *settlements) observe() consumer.Option {
	return consumer.WithObserver(consumer.Observer{Settled: func(end consumer.Settlement) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, fmt.Sprintf("%d %s %s", end.Delivery.Attempt(), end.Delivery.ID(), end.Result))
	}})
}

// list returns the delivery, the attempt and the result of each settlement, by attempt.
func (s *settlements) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.all))
}

// The broker would take back all messages of the channel at the consumer timeout.
func TestAMessageWhoseHandlerIgnoresItsTimeout(t *testing.T) {
	t.Parallel()
	publish, reject, requeue := withConsumerTimeout(20*time.Minute), withConsumerTimeout(20*time.Minute), withConsumerTimeout(20*time.Minute)
	reject.Strategy, reject.Tiers, reject.RejectDeadLetters = contract.StrategyReject, reject.Tiers[:1], false
	requeue.Strategy, requeue.Tiers = contract.StrategyRequeue, nil
	for name, current := range map[string]contract.Contract{"Publish": publish, "Reject": reject, "Requeue": requeue} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release, log, ends := make(chan struct{}), &record{}, &settlements{}
				b := run(t, current, func(_ context.Context, m *consumer.Message[string]) error {
					equal(t, "the change of an earlier attempt", nil, m.Raw.Headers["changed"])
					if m.Attempt() == 1 {
						m.Raw.Headers["changed"] = true
						hang(release)
						m.Raw.Headers["changed"] = false
					}
					return nil
				}, consumer.WithConcurrency(2), ends.observe(), consumer.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
				b.send(t, "a")
				pass(19*time.Minute - time.Second)
				equal(t, "settled before 95 % of the consumer timeout", 0, len(ends.list()))
				pass(2 * time.Minute)
				equal(t, "settled", []string{"1 a timedOut", "2 a succeeded"}, ends.list())
				equal(t, "unsettled", 0, b.Unsettled(""))
				equal(t, "stuck", 1, b.consumer.Health().Stuck)
				equal(t, "active", 1, b.consumer.Health().Active)
				close(release)
				pass(time.Second)
				equal(t, "settled after the handler has returned", 2, len(ends.list()))
				equal(t, "logged", 1, log.count("The handler returned after its message was settled as timed out"))
				equal(t, "stuck", 0, b.consumer.Health().Stuck)
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

func TestABatchWhoseHandlerIgnoresItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release, ends := make(chan struct{}), &settlements{}
		current := withConsumerTimeout(20 * time.Minute)
		b := startWith(t, current, func(*memory.Broker) {},
			func(conn *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
				return consumer.NewBatch(conn, source, 2, time.Second, func(_ context.Context, batch *consumer.Batch[string]) error {
					if batch.Messages[0].Attempt() == 1 {
						hang(release)
					}
					return nil
				}, options...)
			}, consumer.WithConcurrency(2), ends.observe())
		b.send(t, "8", "9")
		pass(21 * time.Minute)
		equal(t, "settled", []string{"1 8 timedOut", "1 9 timedOut", "2 8 succeeded", "2 9 succeeded"}, ends.list())
		close(release)
		pass(time.Second)
		equal(t, "settled after the handler has returned", 4, len(ends.list()))
		equal(t, "Run", nil, b.end())
	})
}

// A drain does not wait for a handler whose message is settled.
func TestADrainWithAHandlerThatIgnoresItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		b := run(t, withConsumerTimeout(20*time.Minute), func(_ context.Context, m *consumer.Message[string]) error {
			if m.Attempt() == 1 {
				hang(release)
			}
			return nil
		})
		b.send(t, "a")
		pass(20 * time.Minute)
		began := time.Now()
		equal(t, "Run", nil, b.end())
		equal(t, "the drain took", time.Duration(0), time.Since(began))
	})
}

// A handler may return at the moment at which its message is settled without it.
func TestAMessageIsSettledOnceIfItsHandlerReturnsLate(t *testing.T) {
	t.Parallel()
	const count = 200
	synctest.Test(t, func(t *testing.T) {
		ends := &settlements{}
		b := run(t, withConsumerTimeout(20*time.Minute), func(_ context.Context, m *consumer.Message[int]) error {
			if m.Attempt() == 1 {
				time.Sleep(19*time.Minute + time.Duration(m.Body%3)*time.Second)
			}
			return nil
		}, consumer.WithConcurrency(count), consumer.WithPrefetch(count), ends.observe())
		for i := range count {
			b.send(t, strconv.Itoa(i))
		}
		pass(time.Hour)
		equal(t, "unsettled", 0, b.Unsettled(""))
		first := map[string]int{}
		for _, end := range ends.list() {
			first[end]++
		}
		for end, times := range first {
			if times != 1 {
				t.Errorf("%s: settled %d times", end, times)
			}
		}
		equal(t, "states", []string{"Connecting", "DeclaringQoS", "Consuming", "Delivering"}, b.states)
		equal(t, "Run", nil, b.end())
	})
}
