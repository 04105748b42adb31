package consumer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
)

// Only unacked messages are handled twice.
func TestLostConnectionsLoseNoMessage(t *testing.T) {
	t.Parallel()
	const messages, cuts = 3000, 5
	for name, spec := range map[string]string{"Publish": publish, "Reject": reject, "Requeue": `{retry: {strategy: Requeue, maxAttempts: 20}}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "Publish" {
				deadline.InTestAll(t)
			}
			onEach(t, spec, func(w *world) {
				g := NewWithT(w.tb)
				w.Publish("", "orders", bodies(messages)...)
				proxy := netfault.NewProxy(w.tb, w.Broker.AMQPURI)
				seen := &handledCounts{}
				w.run(consumer.NewConn(consumer.URI(w.uri(proxy.Address))), func(_ context.Context, m *consumer.Message[string]) error {
					if m.Body[len(m.Body)-1] == '7' && m.Attempt() == 1 {
						return errors.New("no stock")
					}
					time.Sleep(time.Millisecond)
					seen.add(m.Body)
					return nil
				}, consumer.WithConcurrency(16), consumer.WithPrefetch(64))
				for cut := 1; cut <= cuts; cut++ {
					g.Eventually(seen.different).WithTimeout(deadline.For(time.Minute)).WithPolling(time.Millisecond).
						Should(BeNumerically(">=", messages*cut/(cuts+2)))
					proxy.Cut()
				}
				g.Eventually(seen.different).WithTimeout(deadline.For(time.Minute)).Should(Equal(messages))
				w.tb.Logf("%d messages, %d cuts: %d handled twice", messages, cuts, seen.repeated())
				g.Expect(seen.repeated()).To(BeNumerically("<=", cuts*2*64))
				g.Eventually(w.Ready).WithArguments("orders.dlq").Should(BeZero())
			})
		})
	}
}

func TestAMissingTierKeepsTheOriginal(t *testing.T) {
	t.Parallel()
	onEach(t, publish, func(w *world) {
		g := NewWithT(w.tb)
		w.DeleteQueue("orders.retry.200ms")
		seen := &handledCounts{}
		running := w.run(w.conn(), func(_ context.Context, m *consumer.Message[string]) error {
			if seen.add(m.Body) == 1 {
				return errors.New("no stock")
			}
			return nil
		})
		w.Publish("", "orders", "a", "b", "c")
		g.Eventually(running.Health).Should(SatisfyAll(
			HaveField("Message", ContainSubstring(`"orders.retry.200ms"`)), HaveField("Ready", BeFalse())))
		w.DeclareQueue("orders.retry.200ms", map[string]any{
			"x-queue-type": "quorum", "x-message-ttl": 200, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders",
		})
		g.Eventually(func() int { return seen.repeated() }).WithTimeout(deadline.For(30 * time.Second)).Should(Equal(3))
		g.Expect(seen.different()).To(Equal(3))
		g.Eventually(func() bool { return running.Health().Ready }).Should(BeTrue())
	})
}

func TestARecreatedQueueIsConsumed(t *testing.T) {
	t.Parallel()
	onEach(t, none, func(w *world) {
		g := NewWithT(w.tb)
		seen := &handledCounts{}
		running := w.run(w.conn(), func(_ context.Context, m *consumer.Message[string]) error {
			seen.add(m.Body)
			return nil
		})
		w.Publish("", "orders", "before")
		g.Eventually(seen.different).WithTimeout(deadline.For(10 * time.Second)).Should(Equal(1))
		w.DeleteQueue("orders")
		g.Eventually(func() string { return running.Health().Message }).WithTimeout(deadline.For(10 * time.Second)).
			Should(ContainSubstring(`queue "orders" does not exist`))
		w.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		w.Publish("", "orders", "after")
		g.Eventually(seen.different).WithTimeout(deadline.For(30 * time.Second)).Should(Equal(2))
	})
}

// A stalled connection is closed, even if it stalls while its channel is opened.
func TestAStalledConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	onEach(t, none, func(w *world) {
		g := NewWithT(w.tb)
		proxy := netfault.NewSlowAMQP(w.tb, w.Broker.AMQPURI)
		seen := &handledCounts{}
		running := w.run(consumer.NewConn(consumer.URI(w.uri(strings.TrimPrefix(proxy.URI, "amqp://")))),
			func(_ context.Context, m *consumer.Message[string]) error {
				seen.add(m.Body)
				return nil
			})
		g.Eventually(func() bool { return running.Health().Ready }).WithTimeout(deadline.For(10 * time.Second)).Should(BeTrue())
		proxy.Pause(time.Hour)
		w.Publish("", "orders", "stalled")
		g.Eventually(func() bool { return running.Health().Ready }).WithTimeout(deadline.For(40 * time.Second)).Should(BeFalse())
		proxy.Pause(0)
		g.Eventually(seen.different).WithTimeout(deadline.For(time.Minute)).Should(Equal(1))
	})
}

func TestASingleActiveConsumerHandsOverInOrder(t *testing.T) {
	t.Parallel()
	onEach(t, `{retry: {policy: None}, queue: {singleActiveConsumer: true}}`, func(w *world) {
		g := NewWithT(w.tb)
		order := make(chan string, 100)
		handle := func(_ context.Context, m *consumer.Message[string]) error {
			time.Sleep(5 * time.Millisecond)
			order <- m.Body
			return nil
		}
		first := w.run(w.conn(), handle)
		g.Eventually(func() bool { return first.Health().Ready }).WithTimeout(deadline.For(10 * time.Second)).Should(BeTrue())
		w.run(w.conn(), handle)
		all := bodies(60)
		w.Publish("", "orders", all...)
		g.Eventually(func() int { return len(order) }).WithTimeout(deadline.For(10 * time.Second)).Should(BeNumerically(">", 10))
		g.Expect(first.end()).To(Succeed())
		g.Eventually(func() int { return len(order) }).WithTimeout(deadline.For(20 * time.Second)).Should(Equal(len(all)))
		for _, want := range all {
			g.Expect(<-order).To(Equal(want))
		}
	})
}

func TestCredentialsAreReadAtEachConnect(t *testing.T) {
	t.Parallel()
	onEach(t, none, func(w *world) {
		g := NewWithT(w.tb)
		credentials := &changing{uri: w.uri("")[:len("amqp://")] + "nobody:wrong@" + w.uri("")[len("amqp://guest:guest@"):]}
		seen := &handledCounts{}
		running := w.run(consumer.NewConn(credentials), func(_ context.Context, m *consumer.Message[string]) error {
			seen.add(m.Body)
			return nil
		})
		g.Eventually(func() string { return running.Health().Message }).WithTimeout(deadline.For(10 * time.Second)).Should(ContainSubstring("403"))
		g.Expect(running.Health().Live).To(BeTrue())
		credentials.set(w.uri(""))
		w.Publish("", "orders", "after")
		g.Eventually(seen.different).WithTimeout(deadline.For(30 * time.Second)).Should(Equal(1))
	})
}
