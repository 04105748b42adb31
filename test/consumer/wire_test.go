package consumer_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
)

// connThrough returns a Conn through a proxy that lets a test decide about frames.
func (w *world) connThrough(decide func(netfault.Frame) netfault.Verdict) *consumer.Conn {
	w.tb.Helper()
	return consumer.NewConn(consumer.URI(w.uri(netfault.NewFrameProxy(w.tb, w.Broker.AMQPURI, decide).Address)))
}

// transitions records state changes of a consumer.
type transitions struct {
	mu  sync.Mutex
	all []consumer.Transition
}

func (o *transitions) option() consumer.Option {
	return consumer.WithObserver(consumer.Observer{State: func(to consumer.Transition) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.all = append(o.all, to)
	}})
}

// losses returns the errors of lost connections.
func (o *transitions) losses() (texts []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, to := range o.all {
		if to.To == consumer.StateReconnecting {
			texts = append(texts, to.Err.Error())
		}
	}
	return texts
}

// amqp091-go waits for a response as long as heartbeats arrive (#225).
func TestARequestWithoutAnswerEndsTheConnection(t *testing.T) {
	t.Parallel()
	onEach(t, none, func(w *world) {
		g := NewWithT(w.tb)
		silent := atomic.Bool{}
		silent.Store(true)
		seen, began := &handledCounts{}, time.Now()
		running := w.run(w.connThrough(func(f netfault.Frame) netfault.Verdict {
			if f.Method == amqpmethod.ChannelOpenOK && silent.Load() {
				return netfault.Drop
			}
			return netfault.Pass
		}), func(_ context.Context, m *consumer.Message[string]) error {
			seen.add(m.Body)
			return nil
		})
		g.Eventually(func() int { return running.Health().Reconnects }).WithTimeout(deadline.For(time.Minute)).Should(Equal(1))
		g.Expect(time.Since(began)).To(BeNumerically(">=", 29*time.Second))
		silent.Store(false)
		w.Publish("", "orders", "after")
		g.Eventually(seen.different).WithTimeout(deadline.For(time.Minute)).Should(Equal(1))
	})
}

// If a confirm never arrives, the outcome is unknown, and the copy is published once more on another connection.
func TestAMissingConfirmIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	onEach(t, publish, func(w *world) {
		g := NewWithT(w.tb)
		silent := atomic.Bool{}
		silent.Store(true)
		var mu sync.Mutex
		outcomes, copies := []error{}, map[string]int{}
		w.run(w.connThrough(func(f netfault.Frame) netfault.Verdict {
			if f.FromBroker && f.Method == amqpmethod.BasicAck && silent.Load() {
				return netfault.Drop
			}
			return netfault.Pass
		}), func(_ context.Context, m *consumer.Message[string]) error {
			if m.Attempt() == 1 {
				return errors.New("no stock")
			}
			mu.Lock()
			defer mu.Unlock()
			copies[consumer.ByCopyID(m.Delivery)]++
			return nil
		}, consumer.WithObserver(consumer.Observer{Published: func(p consumer.Publication) {
			mu.Lock()
			defer mu.Unlock()
			outcomes = append(outcomes, p.Err)
			silent.Store(false)
		}}))
		w.Publish("", "orders", "a")
		g.Eventually(func() []error {
			mu.Lock()
			defer mu.Unlock()
			return append([]error(nil), outcomes...)
		}).WithTimeout(deadline.For(time.Minute)).Should(HaveExactElements(BeAssignableToTypeOf(&consumer.UnknownOutcomeError{}), BeNil()))
		g.Eventually(func() []int {
			mu.Lock()
			defer mu.Unlock()
			times := []int{}
			for _, count := range copies {
				times = append(times, count)
			}
			return times
		}).WithTimeout(deadline.For(10*time.Second)).Should(HaveExactElements(2), "two copies with one ID")
		g.Eventually(w.Ready).WithArguments("orders").Should(BeZero())
	})
}

// The broker closes a channel that acks a tag twice. The returned messages are handled again, and nothing else of the session is
// settled.
func TestAnAckThatTheBrokerRefusesEndsTheSession(t *testing.T) {
	t.Parallel()
	onEach(t, none, func(w *world) {
		g := NewWithT(w.tb)
		repeated, seen, states := atomic.Bool{}, &handledCounts{}, &transitions{}
		w.run(w.connThrough(func(f netfault.Frame) netfault.Verdict {
			if !f.FromBroker && f.Method == amqpmethod.BasicAck && repeated.CompareAndSwap(false, true) {
				return netfault.Repeat
			}
			return netfault.Pass
		}), func(_ context.Context, m *consumer.Message[string]) error {
			seen.add(m.Body)
			return nil
		}, states.option())
		w.Publish("", "orders", bodies(100)...)
		g.Eventually(seen.different).WithTimeout(deadline.For(20 * time.Second)).Should(Equal(100))
		g.Eventually(states.losses).Should(ContainElement(ContainSubstring("PRECONDITION_FAILED - unknown delivery tag")))
		g.Eventually(w.Ready).WithArguments("orders").Should(BeZero())
		g.Expect(seen.repeated()).To(BeNumerically("<=", 20), "no more than the prefetch")
	})
}

// If a consumer crashes between the confirm of a copy and the ack of the original, both messages remain.
func TestACrashBetweenConfirmAndAckLeavesOneDuplicate(t *testing.T) {
	t.Parallel()
	onEach(t, publish, func(w *world) {
		g := NewWithT(w.tb)
		confirmed, cut := atomic.Bool{}, atomic.Bool{}
		var mu sync.Mutex
		attempts := map[int]int{}
		w.run(w.connThrough(func(f netfault.Frame) netfault.Verdict {
			switch {
			case f.Method != amqpmethod.BasicAck:
			case f.FromBroker:
				confirmed.Store(true)
			case confirmed.Load() && cut.CompareAndSwap(false, true):
				return netfault.Cut
			}
			return netfault.Pass
		}), func(_ context.Context, m *consumer.Message[string]) error {
			mu.Lock()
			defer mu.Unlock()
			attempts[m.Attempt()]++
			if m.Attempt() == 1 {
				return errors.New("no stock")
			}
			return nil
		})
		w.Publish("", "orders", "a")
		g.Eventually(func() map[int]int {
			mu.Lock()
			defer mu.Unlock()
			return map[int]int{1: attempts[1], 2: attempts[2]}
		}).WithTimeout(deadline.For(20 * time.Second)).Should(Equal(map[int]int{1: 2, 2: 2}))
		g.Eventually(w.Ready).WithArguments("orders").Should(BeZero())
		g.Eventually(w.Ready).WithArguments("orders.dlq").Should(BeZero())
	})
}

// Delivery tags of a channel begin with 1. The result of a handler of a lost session must not settle a message of the next one.
func TestALateResultSettlesNoOtherMessage(t *testing.T) {
	t.Parallel()
	onEach(t, none, func(w *world) {
		g := NewWithT(w.tb)
		proxy := netfault.NewProxy(w.tb, w.Broker.AMQPURI)
		started, release, stale := make(chan string, 10), make(chan struct{}), make(chan string, 10)
		seen := &handledCounts{}
		running := w.run(consumer.NewConn(consumer.URI(w.uri(proxy.Address))), func(_ context.Context, m *consumer.Message[string]) error {
			seen.add(m.Body)
			started <- m.Body
			<-release
			return nil
		}, consumer.WithConcurrency(2), consumer.WithPrefetch(2), consumer.WithObserver(consumer.Observer{Settled: func(end consumer.Settlement) {
			if end.Stale {
				stale <- end.Delivery.ID()
			}
		}}))
		w.Publish("", "orders", "a", "b")
		g.Eventually(started).WithTimeout(deadline.For(10 * time.Second)).Should(Receive())
		g.Eventually(started).WithTimeout(deadline.For(10 * time.Second)).Should(Receive())
		proxy.Cut()
		// Ready would be false once both handlers have ignored the end of their contexts for 2 s.
		g.Eventually(running.Health).WithTimeout(deadline.For(20 * time.Second)).
			Should(SatisfyAll(HaveField("Reconnects", BeNumerically(">=", 1)), HaveField("State", consumer.StateDelivering)))
		release <- struct{}{} // a handler of the old session returns while the new session handles a delivery with the same tag
		g.Eventually(stale).WithTimeout(deadline.For(10 * time.Second)).Should(Receive())
		g.Eventually(started).WithTimeout(deadline.For(10 * time.Second)).Should(Receive())
		seen.forget()
		proxy.Cut() // acked messages are not delivered again
		close(release)
		g.Eventually(seen.different).WithTimeout(deadline.For(30 * time.Second)).Should(Equal(2))
		g.Eventually(w.Ready).WithArguments("orders").Should(BeZero())
	})
}

// A copy is published again once for each lost connection, and never while the connection lives.
func TestCopiesMultiplyOnlyByLostConnections(t *testing.T) {
	t.Parallel()
	const messages, cuts = 300, 20
	onEach(t, publish, func(w *world) {
		g := NewWithT(w.tb)
		proxy := netfault.NewProxy(w.tb, w.Broker.AMQPURI)
		failures, unknown := atomic.Int64{}, atomic.Int64{}
		w.run(w.connPublishingThrough(proxy), func(context.Context, *consumer.Message[string]) error {
			failures.Add(1)
			return errors.New("no stock")
		}, consumer.WithConcurrency(16), consumer.WithPrefetch(64), consumer.WithObserver(consumer.Observer{Published: func(p consumer.Publication) {
			if errors.As(p.Err, new(*consumer.UnknownOutcomeError)) {
				unknown.Add(1)
			}
		}}))
		w.Publish("", "orders", bodies(messages)...)
		for cut := 1; cut <= cuts; cut++ {
			g.Eventually(failures.Load).WithTimeout(deadline.For(time.Minute)).WithPolling(time.Millisecond).
				Should(BeNumerically(">=", 3*messages*cut/(cuts+2)))
			proxy.Cut()
		}
		g.Eventually(w.Ready).WithArguments("orders.dlq").WithTimeout(deadline.For(time.Minute)).Should(BeNumerically(">=", messages))
		g.Eventually(func() int { return w.Ready("orders") + w.Ready("orders.retry.200ms") + w.Ready("orders.retry.300ms") }).
			WithTimeout(deadline.For(time.Minute)).Should(BeZero())
		w.tb.Logf("%d cuts, %d unknown: %d failures, %d dead letters", cuts, unknown.Load(), failures.Load(), w.Ready("orders.dlq"))
		g.Eventually(func() int { return w.Ready("orders.dlq") }).Should(BeNumerically("<=", messages+int(unknown.Load())))
	})
}

// Except for an UnknownOutcomeError, an error of Publish means that the broker does not have the message, and nil that it does.
func TestPublishReturnsOnlyCertainErrors(t *testing.T) {
	t.Parallel()
	const publishers, each, cuts = 100, 40, 20
	onEach(t, none, func(w *world) {
		g := NewWithT(w.tb)
		proxy := netfault.NewProxy(w.tb, w.Broker.AMQPURI)
		conn := consumer.NewConn(consumer.URI(w.uri(proxy.Address)))
		defer conn.Close()
		taken, unknown, done := atomic.Int64{}, atomic.Int64{}, atomic.Int64{}
		var publishing sync.WaitGroup
		for range publishers {
			publishing.Go(func() {
				for range each {
					err := conn.Publish(w.tb.Context(), "", "orders", consumer.Publishing{Body: []byte("a")})
					switch {
					case err == nil:
						taken.Add(1)
					case errors.As(err, new(*consumer.UnknownOutcomeError)):
						unknown.Add(1)
					}
					done.Add(1)
				}
			})
		}
		for cut := 1; cut <= cuts; cut++ {
			g.Eventually(done.Load).WithTimeout(deadline.For(time.Minute)).WithPolling(time.Millisecond).
				Should(BeNumerically(">=", publishers*each*cut/(cuts+2)))
			proxy.Cut()
		}
		publishing.Wait()
		w.tb.Logf("%d cuts: %d taken, %d unknown", cuts, taken.Load(), unknown.Load())
		g.Expect(taken.Load()).To(BeNumerically(">", 0))
		g.Expect(unknown.Load()).To(BeNumerically("<=", publishers*cuts), "each publisher has one message under way when a connection is cut")
		g.Eventually(w.Ready).WithArguments("orders").Should(BeNumerically(">=", taken.Load()))
		g.Eventually(w.Ready).WithArguments("orders").Should(BeNumerically("<=", taken.Load()+unknown.Load()))
	})
}

// Run returns soon after ctx ends while the consumer connects, consumes or reconnects.
func TestRunReturnsSoonAfterCancellation(t *testing.T) {
	t.Parallel()
	const rounds = 60
	onEach(t, none, func(w *world) {
		g := NewWithT(w.tb)
		proxy := netfault.NewProxy(w.tb, w.Broker.AMQPURI)
		for round := range rounds {
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			made, err := consumer.New(consumer.NewConn(consumer.URI(w.uri(proxy.Address))), w.contract, func(context.Context, *consumer.Message[string]) error {
				return nil
			}, quiet)
			g.Expect(err).NotTo(HaveOccurred())
			go func() { ended <- made.Run(ctx) }()
			moment := time.NewTimer(time.Duration(round) * time.Millisecond)
			<-moment.C
			if round%3 == 0 {
				proxy.Cut()
			}
			cancel()
			g.Eventually(ended).WithTimeout(deadline.For(4*time.Second)).Should(Receive(BeNil()), "ended after %d ms", round)
		}
	})
}

// An observer that never returns does not delay the consumer.
func TestABlockedObserverDelaysNothing(t *testing.T) {
	t.Parallel()
	onEach(t, none, func(w *world) {
		g := NewWithT(w.tb)
		release, seen := make(chan struct{}), &handledCounts{}
		running := w.run(w.conn(), func(_ context.Context, m *consumer.Message[string]) error {
			seen.add(m.Body)
			return nil
		}, consumer.WithObserver(consumer.Observer{State: func(consumer.Transition) { <-release }}))
		w.Publish("", "orders", "a")
		g.Eventually(seen.different).WithTimeout(deadline.For(20 * time.Second)).Should(Equal(1))
		began := time.Now()
		g.Expect(running.end()).To(Succeed())
		g.Expect(time.Since(began)).To(BeNumerically("<", deadline.For(5*time.Second)))
		close(release)
	})
}

// There is one consumer at a time, and the broker never sends more messages than the prefetch.
func TestAReconnectLeavesOneConsumer(t *testing.T) {
	t.Parallel()
	const messages, prefetch = 50, 4
	onEach(t, none, func(w *world) {
		g := NewWithT(w.tb)
		w.Publish("", "orders", bodies(messages)...)
		proxy := netfault.NewProxy(w.tb, w.Broker.AMQPURI)
		release := make(chan struct{})
		running := w.run(consumer.NewConn(consumer.URI(w.uri(proxy.Address))), func(ctx context.Context, _ *consumer.Message[string]) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, consumer.WithConcurrency(2), consumer.WithPrefetch(prefetch))
		connection, err := w.Connect("counts consumers")
		g.Expect(err).NotTo(HaveOccurred())
		defer connection.Close()
		channel, err := connection.Channel()
		g.Expect(err).NotTo(HaveOccurred())
		before := -1
		for range 4 {
			g.Eventually(func() bool { h := running.Health(); return h.Ready && h.Reconnects > before }).WithTimeout(deadline.For(20 * time.Second)).
				WithPolling(5 * time.Millisecond).Should(BeTrue())
			g.Eventually(func() int { return w.Ready("orders") }).WithTimeout(deadline.For(20 * time.Second)).Should(Equal(messages - prefetch))
			g.Eventually(func() (int, error) {
				queue, err := channel.QueueDeclarePassive("orders", true, false, false, false, nil)
				return queue.Consumers, err
			}).Should(Equal(1))
			before = running.Health().Reconnects
			proxy.Cut()
		}
		close(release)
		g.Eventually(w.Ready).WithArguments("orders").WithTimeout(deadline.For(20 * time.Second)).Should(BeZero())
	})
}
