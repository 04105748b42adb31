package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
)

// outage is how long the dependency of TestABreakerSavesAttemptsInAnOutage is down. WARREN_OUTAGE=10m is longer.
func outage(tb testing.TB) time.Duration {
	tb.Helper()
	given := os.Getenv("WARREN_OUTAGE")
	if given == "" {
		return 4 * time.Second
	}
	length, err := time.ParseDuration(given)
	if err != nil {
		tb.Fatal(err)
	}
	return length
}

// While a dependency is down and 500 messages arrive each second, only messages that failed before the breaker opened use an attempt.
func TestABreakerSavesAttemptsInAnOutage(t *testing.T) {
	t.Parallel()
	const threshold, prefetch, rate = 5, 20, 500
	for strategy, spec := range map[string]string{"Publish": publish, "Requeue": requeue} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			onEach(t, spec, func(w *world) {
				if strategy == "Requeue" && !strings.HasPrefix(w.Broker.Version, "4.3") {
					return // counts each returned message as delivered
				}
				g := NewWithT(w.tb)
				down, attempts, failed, seen := &atomic.Bool{}, &atomic.Int64{}, &atomic.Int64{}, &handledCounts{}
				down.Store(true)
				running := w.run(w.conn(), func(_ context.Context, m *consumer.Message[string]) error {
					if down.Load() {
						failed.Add(1)
						return errors.New("no database")
					}
					seen.add(m.Body)
					attempts.Add(int64(m.Attempt() - 1))
					return nil
				}, quiet, consumer.WithPrefetch(prefetch), consumer.WithBreaker(threshold, 500*time.Millisecond))
				sent := 0
				ticker := time.NewTicker(time.Second / 10)
				defer ticker.Stop()
				for end := time.Now().Add(outage(w.tb)); time.Now().Before(end); <-ticker.C {
					var next []string
					for range rate / 10 {
						next = append(next, fmt.Sprint(sent+len(next)))
					}
					w.Publish("", "orders", next...)
					sent += len(next)
				}
				g.Eventually(running.Health).Should(SatisfyAll(HaveField("State", consumer.StatePaused), HaveField("Ready", false), HaveField("Live", true)))
				down.Store(false)
				g.Eventually(func() bool { return running.Health().Ready }).WithTimeout(deadline.For(5 * time.Second)).Should(BeTrue())
				g.Eventually(seen.different).WithTimeout(deadline.For(time.Minute)).Should(Equal(sent))
				w.tb.Logf("%d messages: the handler failed %d times, %d attempts were used", sent, failed.Load(), attempts.Load())
				g.Expect(attempts.Load()).To(BeNumerically("<=", threshold+prefetch))
				g.Expect(seen.repeated()).To(BeZero())
				g.Expect(running.Health().Reconnects).To(BeZero())
				g.Consistently(w.Ready).WithArguments("orders.dlq").WithTimeout(500 * time.Millisecond).Should(BeZero())
			})
		})
	}
}

// A quorum queue keeps a cancelled consumer with unsettled messages, which must not count for the next subscription.
func TestABreakerTriesAMessageWhileAnOlderOneIsHandled(t *testing.T) {
	t.Parallel()
	onEach(t, publish, func(w *world) {
		g := NewWithT(w.tb)
		began, release, seen := make(chan string, 10), make(chan struct{}), &handledCounts{}
		running := w.run(w.conn(), func(_ context.Context, m *consumer.Message[string]) error {
			began <- m.Body
			switch {
			case m.Body == "slow":
				<-release
			case m.Body == "fails" && m.Attempt() == 1:
				return errors.New("no database")
			}
			seen.add(m.Body)
			return nil
		}, quiet, consumer.WithConcurrency(2), consumer.WithBreaker(1, 500*time.Millisecond))
		w.Publish("", "orders", "slow")
		g.Eventually(began).WithTimeout(deadline.For(10 * time.Second)).Should(Receive(Equal("slow")))
		w.Publish("", "orders", "fails")
		g.Eventually(began).WithTimeout(deadline.For(10 * time.Second)).Should(Receive(Equal("fails")))
		g.Eventually(running.Health).Should(HaveField("State", consumer.StatePaused))
		w.Publish("", "orders", "next")
		g.Eventually(seen.different).WithTimeout(deadline.For(10 * time.Second)).Should(Equal(2))
		g.Eventually(running.Health).Should(SatisfyAll(HaveField("Active", 1), HaveField("Ready", true), HaveField("Reconnects", 0)))
		close(release)
		g.Eventually(seen.different).WithTimeout(deadline.For(10 * time.Second)).Should(Equal(3))
		g.Expect(seen.repeated()).To(BeZero())
		g.Eventually(w.Ready).WithArguments("orders").Should(BeZero())
	})
}

// Pause returns the messages whose handlers have not begun, and Resume consumes on the same channel.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	const messages = 30
	onEach(t, none, func(w *world) {
		g := NewWithT(w.tb)
		began, release, seen := make(chan string, messages), make(chan struct{}), &handledCounts{}
		running := w.run(w.conn(), func(_ context.Context, m *consumer.Message[string]) error {
			began <- m.Body
			<-release
			seen.add(m.Body)
			return nil
		}, consumer.WithConcurrency(1), consumer.WithPrefetch(10))
		w.Publish("", "orders", bodies(messages)...)
		g.Eventually(began).WithTimeout(deadline.For(10 * time.Second)).Should(Receive())
		running.Pause()
		g.Eventually(w.Ready).WithArguments("orders").WithTimeout(deadline.For(20 * time.Second)).Should(Equal(messages - 1))
		close(release)
		g.Eventually(running.Health).Should(SatisfyAll(HaveField("Active", 0), HaveField("State", consumer.StatePaused)))
		g.Expect(seen.different()).To(Equal(1))
		running.Resume()
		g.Eventually(seen.different).WithTimeout(deadline.For(20 * time.Second)).Should(Equal(messages))
		g.Expect(seen.repeated()).To(BeZero())
		g.Expect(running.Health().Reconnects).To(BeZero())
	})
}

// Only messages of batches that were not settled are handled twice.
func TestBatchesLoseNoMessageWithTheConnection(t *testing.T) {
	t.Parallel()
	const messages, size, cuts = 2000, 50, 3
	broker := brokers.Newest(t)
	w, g := newWorld(t, broker, publish), NewWithT(t)
	w.Publish("", "orders", bodies(messages)...)
	proxy, seen := netfault.NewProxy(t, broker.AMQPURI), &handledCounts{}
	batches, err := consumer.NewBatch(consumer.NewConn(consumer.URI(w.uri(proxy.Address))), w.contract, size, 100*time.Millisecond,
		func(_ context.Context, b *consumer.Batch[string]) error {
			for _, m := range b.Messages {
				if m.Attempt() == 1 && strings.HasSuffix(m.Body, "7") {
					b.SetResult(m, errors.New("no stock"))
					continue
				}
				seen.add(m.Body)
			}
			return nil
		}, quiet)
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- batches.Run(ctx) }()
	for cut := 1; cut <= cuts; cut++ {
		g.Eventually(seen.different).WithTimeout(deadline.For(time.Minute)).WithPolling(time.Millisecond).Should(BeNumerically(">=", messages*cut/(cuts+2)))
		proxy.Cut()
	}
	g.Eventually(seen.different).WithTimeout(deadline.For(time.Minute)).Should(Equal(messages))
	g.Expect(seen.repeated()).To(BeNumerically("<=", cuts*2*size), "at most the prefetch for each cut")
	stop()
	g.Eventually(ended).WithTimeout(deadline.For(10 * time.Second)).Should(Receive(BeNil()))
	g.Eventually(w.Ready).WithArguments("orders.dlq").Should(BeZero())
}
