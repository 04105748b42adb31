package consumer_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

// A broker without memory blocks publishers. Failed messages wait in the consumer meanwhile, and a drain returns them.
func TestABrokerThatBlocksPublishers(t *testing.T) {
	inTestAll(t)
	t.Parallel()
	for _, scheme := range []string{"amqp", "amqps"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			broker := brokers.NewPrivate(t)
			w := newWorld(t, broker.Broker, publish)
			uri := w.uri("")
			if scheme == "amqps" {
				port := broker.Eval(`[P] = [P || {listener, _, 'amqp/ssl', _, _, P, _} <- rabbit_networking:node_listeners(node())], P.`)
				uri = "amqps" + strings.TrimPrefix(w.uri("127.0.0.1:"+port), "amqp") + "?cacertfile=" + os.Getenv("WARREN_TEST_TLS_DIR") + "/ca.crt"
			}
			consumeWhileTheBrokerBlocksPublishers(w, broker, uri)
		})
	}
}

func consumeWhileTheBrokerBlocksPublishers(w *world, broker *brokers.Private, uri string) {
	const messages = 500
	g := NewWithT(w.tb)
	w.Publish("", "orders", bodies(messages)...)
	broker.Eval(`vm_memory_monitor:set_vm_memory_high_watermark(0.000001).`)
	seen := &handledCounts{}
	handle := func(_ context.Context, m *consumer.Message[string]) error {
		if seen.add(m.Body); m.Attempt() == 1 {
			return errors.New("no stock")
		}
		return nil
	}
	first := w.run(consumer.NewConn(consumer.URI(uri)), handle)
	g.Eventually(first.Health).WithTimeout(deadline.For(30 * time.Second)).Should(SatisfyAll(
		HaveField("Paused", BeTrue()), HaveField("Message", ContainSubstring("blocks publishers"))))
	blocked := seen.different()
	g.Expect(blocked).To(BeNumerically("<=", 20), "no more than the prefetch")
	g.Expect(first.end()).To(Succeed(), "a drain does not wait for the broker")
	g.Eventually(w.Ready).WithArguments("orders").WithTimeout(deadline.For(20 * time.Second)).Should(BeNumerically(">=", messages-blocked))

	second := w.run(consumer.NewConn(consumer.URI(uri)), handle)
	g.Eventually(func() bool { return second.Health().Paused }).WithTimeout(deadline.For(30 * time.Second)).Should(BeTrue())
	broker.Eval(`vm_memory_monitor:set_vm_memory_high_watermark(0.6).`)
	g.Eventually(func() int { return seen.repeated() }).WithTimeout(deadline.For(time.Minute)).Should(BeNumerically(">=", messages))
	g.Expect(seen.different()).To(Equal(messages))
	g.Eventually(w.Ready).WithArguments("orders").WithTimeout(deadline.For(20 * time.Second)).Should(BeZero())
	g.Eventually(w.Ready).WithArguments("orders.dlq").Should(BeZero())
}

// Under Publish the broker keeps a rejected message until the dead-letter queue has room. It retries if a confirm is missing for
// 3 minutes, here 2 s.
func TestAFullDeadLetterQueueKeepsMessages(t *testing.T) {
	inTestAll(t)
	t.Parallel()
	const first, messages = 5, 20
	broker := brokers.NewPrivate(t)
	broker.Eval(`application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, 2000).`)
	w, g := newWorld(t, broker.Broker, publish), NewWithT(t)
	w.SetPolicy("full", fullDeadLetterQueue)
	settled := atomic.Int64{}
	running := w.run(w.conn(), func(context.Context, *consumer.Message[string]) error {
		return consumer.Permanent(errors.New("no such customer"))
	}, quiet, consumer.WithObserver(consumer.Observer{Settled: func(consumer.Settlement) { settled.Add(1) }}))
	w.Publish("", "orders", bodies(first)...) // the channel learns of the policy from these messages
	g.Eventually(w.Ready).WithArguments("orders.dlq").WithTimeout(deadline.For(20 * time.Second)).Should(BeNumerically(">", 0))
	w.Publish("", "orders", bodies(messages)[first:]...)
	g.Eventually(settled.Load).WithTimeout(deadline.For(time.Minute)).Should(BeEquivalentTo(messages))
	g.Expect(running.end()).To(Succeed())
	g.Eventually(w.Ready).WithArguments("orders").Should(BeZero())
	g.Eventually(w.Ready).WithArguments("orders.dlq").Should(BeNumerically("<", messages))
	w.DeletePolicy("full")
	g.Expect(w.deadLetters(messages)).To(HaveLen(messages))
}

// Messages that were not acked when the broker was killed are delivered again.
func TestAKilledBroker(t *testing.T) {
	inTestAll(t)
	t.Parallel()
	const messages, deaths = 400, 3
	broker := brokers.NewPrivate(t)
	w, g := newWorld(t, broker.Broker, publish), NewWithT(t)
	w.Publish("", "orders", bodies(messages)...)
	seen := &handledCounts{}
	w.run(w.conn(), func(ctx context.Context, m *consumer.Message[string]) error {
		timer := time.NewTimer(20 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
		if seen.add(m.Body); m.Attempt() == 1 && m.Body[len(m.Body)-1] == '7' {
			return errors.New("no stock")
		}
		return nil
	})
	for death := 1; death <= deaths; death++ {
		g.Eventually(seen.different).WithTimeout(deadline.For(time.Minute)).WithPolling(5 * time.Millisecond).Should(BeNumerically(">=", messages*death/(deaths+2)))
		broker.Stop()
		broker.Start()
	}
	g.Eventually(seen.different).WithTimeout(deadline.For(2 * time.Minute)).Should(Equal(messages))
	g.Eventually(func() int { return w.Ready("orders") + w.Ready("orders.retry.200ms") }).WithTimeout(deadline.For(time.Minute)).Should(BeZero())
	g.Eventually(w.Ready).WithArguments("orders.dlq").Should(BeZero())
}

// inTestAll skips a test in `make test`, because it needs a private broker.
func inTestAll(t *testing.T) {
	t.Helper()
	deadline.InTestAll(t)
}
