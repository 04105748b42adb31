package consumer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/test/deadline"
)

// A quorum queue forgets acks that arrive right before the channel is closed, unless it has processed a basic.cancel after them. Here
// many acks are separate frames, because the message before them is still handled.
func TestADrainWithManyAcksRepeatsNothing(t *testing.T) {
	t.Parallel()
	const messages, rounds = 200, 5
	for name, test := range map[string]struct {
		spec   string
		paused bool
	}{
		"while the consumer consumes": {none, false},
		"of a single active consumer": {`{retry: {policy: None}, queue: {singleActiveConsumer: true}}`, false},
		"during a pause":              {none, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, test.spec, func(w *world) {
				g, all := NewWithT(w.tb), bodies(messages)
				for range rounds {
					w.Publish("", "orders", all...)
					began, others, first := atomic.Int64{}, make(chan struct{}), make(chan struct{})
					settled := atomic.Int64{}
					running := w.run(w.conn(), func(_ context.Context, m *consumer.Message[string]) error {
						began.Add(1)
						if m.Body == all[0] {
							<-first
						} else {
							<-others
						}
						return nil
					}, quiet, consumer.WithConcurrency(messages), consumer.WithPrefetch(messages),
						consumer.WithObserver(consumer.Observer{Settled: func(consumer.Settlement) {
							if settled.Add(1) == messages-1 {
								close(first)
							}
						}}))
					g.Eventually(began.Load).WithTimeout(deadline.For(20 * time.Second)).Should(BeEquivalentTo(messages))
					if test.paused {
						running.Pause()
						g.Eventually(running.Health).Should(HaveField("State", consumer.StatePaused))
					}
					running.stop()
					close(others)
					g.Expect(<-running.ended).To(Succeed())
					g.Consistently(w.Ready).WithArguments("orders").WithTimeout(time.Second).Should(BeZero())
				}
			})
		})
	}
}

// A pause returns the messages whose handlers have not begun. The acks that follow these returns must not be lost.
func TestADrainRightAfterAPauseRepeatsNothing(t *testing.T) {
	t.Parallel()
	const messages, handlers, rounds = 400, 20, 5
	onEach(t, none, func(w *world) {
		g, all := NewWithT(w.tb), bodies(messages)
		w.Publish("", "orders", all...)
		for round := range rounds {
			began, release := atomic.Int64{}, make(chan struct{})
			running := w.run(w.conn(), func(context.Context, *consumer.Message[string]) error {
				began.Add(1)
				<-release
				return nil
			}, quiet, consumer.WithConcurrency(handlers), consumer.WithPrefetch(messages))
			g.Eventually(running.Health).Should(SatisfyAll(HaveField("Active", handlers), HaveField("Prefetched", messages-handlers*(round+1))))
			running.Pause()
			g.Eventually(running.Health).WithPolling(100 * time.Microsecond).Should(HaveField("State", consumer.StatePaused))
			running.stop()
			close(release)
			g.Expect(<-running.ended).To(Succeed())
			g.Expect(began.Load()).To(BeEquivalentTo(handlers))
			g.Eventually(w.Ready).WithArguments("orders").Should(Equal(messages - handlers*(round+1)))
		}
	})
}
