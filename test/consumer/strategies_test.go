package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/consumertest"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

// The specs have short delays.
const (
	publish = `{retry: {maxAttempts: 3, delayTiers: [{delay: 200ms}, {delay: 300ms}]}}`
	reject  = `{retry: {strategy: Reject, maxAttempts: 3, delayTiers: [{delay: 200ms}]}}`
	requeue = `{retry: {strategy: Requeue, maxAttempts: 3}}`
	none    = `{retry: {policy: None}}`
)

// outcomes handles a message according to its body.
func outcomes(seen *handledCounts) consumer.Handler[string] {
	return func(_ context.Context, m *consumer.Message[string]) error {
		attempt := seen.add(m.Body)
		if attempt != m.Attempt() {
			return consumer.Permanent(fmt.Errorf("attempt %d calls itself %d", attempt, m.Attempt()))
		}
		switch {
		case m.Body == "fails":
			return errors.New("no stock")
		case m.Body == "fails once" && attempt == 1:
			return errors.New("no stock yet")
		case m.Body == "permanent":
			return consumer.Permanent(errors.New("no such customer"))
		case m.Body == "panics":
			panic("nil map")
		case m.Body == "discarded":
			return consumer.Discard(errors.New("too old"))
		}
		return nil
	}
}

func decodeUnlessOdd(d *consumer.Delivery) (string, error) {
	if strings.HasPrefix(string(d.Raw.Body), "{") {
		return "", errors.New("unexpected {")
	}
	return string(d.Raw.Body), nil
}

// decoded is consumer.Decode for run, which accepts handlers of strings.
func decoded(decode func(*consumer.Delivery) (string, error), handle consumer.Handler[string]) consumer.Handler[string] {
	handleBytes := consumer.Decode(decode, handle)
	return func(ctx context.Context, m *consumer.Message[string]) error {
		return handleBytes(ctx, &consumer.Message[[]byte]{Delivery: m.Delivery, Body: m.Raw.Body})
	}
}

// strategyCase is how often each message is handled under a strategy, and which dead letters result.
type strategyCase struct {
	spec    string
	handled map[string]int
	dead    map[string]deadLetter
}

func strategyCases() map[string]strategyCase {
	exhausted := func(text string, attempts int64) deadLetter {
		return deadLetter{Kind: "exhausted", Message: text, Retries: attempts}
	}
	byBroker := deadLetter{} // dead-lettered by the broker, without failure headers
	permanent := deadLetter{Kind: "permanent", Message: "no such customer", Retries: int64(1)}
	undecodable := deadLetter{Kind: "undecodable", Message: "unexpected {", Retries: int64(0)}
	threeTimes := map[string]int{"good": 1, "discarded": 1, "fails": 3, "fails once": 2, "permanent": 1, "panics": 3}
	parked := map[string]deadLetter{
		"fails": exhausted("no stock", 3), "panics": exhausted("the handler panicked: nil map", 3), "permanent": permanent, "{": undecodable,
	}
	return map[string]strategyCase{
		"Publish": {publish, threeTimes, parked},
		"Reject":  {reject, threeTimes, parked},
		"Requeue": {requeue, threeTimes, map[string]deadLetter{"fails": byBroker, "panics": byBroker, "permanent": byBroker, "{": byBroker}},
		"None": {
			none,
			map[string]int{"good": 1, "discarded": 1, "fails": 1, "fails once": 1, "permanent": 1, "panics": 1},
			map[string]deadLetter{
				"fails": exhausted("no stock", 1), "fails once": exhausted("no stock yet", 1),
				"panics": exhausted("the handler panicked: nil map", 1), "permanent": permanent, "{": undecodable,
			},
		},
	}
}

// counts returns how often each message was handled.
func (c *handledCounts) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.handled)
}

// allMessages returns the messages of a strategyCase.
func allMessages() []string {
	return []string{"good", "discarded", "fails", "fails once", "permanent", "panics", "{"}
}

func TestEachStrategyFollowsItsContract(t *testing.T) {
	t.Parallel()
	for name, test := range strategyCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEach(t, test.spec, func(w *world) {
				g := NewWithT(w.tb)
				seen := &handledCounts{}
				running := w.run(w.conn(), decoded(decodeUnlessOdd, outcomes(seen)))
				w.Publish("", "orders", allMessages()...)
				dead := w.deadLetters(len(test.dead))
				g.Eventually(seen.counts).WithTimeout(deadline.For(time.Minute)).Should(Equal(test.handled))
				g.Expect(running.end()).To(Succeed())
				topologytest.Equal(w.tb, "dead letters", test.dead, dead)
				topologytest.Equal(w.tb, "handled", test.handled, seen.handled)
				for _, tier := range w.contract.Tiers {
					g.Eventually(w.Ready).WithArguments(tier.RoutingKey).Should(BeZero())
				}
				g.Eventually(w.Ready).WithArguments("orders").Should(BeZero())
			})
		})
	}
}

// The in-memory broker behaves like real brokers.
func TestTheInMemoryBrokerBehavesLikeRabbitMQ(t *testing.T) {
	t.Parallel()
	for name, test := range strategyCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			current, err := topology.ContractOf(topologytest.ConsumerQueue(t, test.spec), "/", topologytest.V43)
			topologytest.Equal(t, "error", nil, err)
			synctest.Test(t, func(t *testing.T) {
				seen := &handledCounts{}
				b := consumertest.New(t, current, consumer.Decode(decodeUnlessOdd, outcomes(seen)))
				for _, body := range allMessages() {
					b.Publish(consumer.Publishing{Body: []byte(body)})
				}
				b.Wait(time.Hour)
				topologytest.Equal(t, "Run", nil, b.Stop())
				dead := map[string]deadLetter{}
				for _, message := range b.DeadLetters() {
					dead[string(message.Body)] = deadLetterOf(message)
				}
				topologytest.Equal(t, "dead letters", test.dead, dead)
				topologytest.Equal(t, "handled", test.handled, seen.handled)
			})
		})
	}
}

// The topology of consumertest.DeclareTopology behaves like the operator's.
func TestDeclareTopology(t *testing.T) {
	t.Parallel()
	for name, test := range strategyCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			current, err := topology.ContractOf(topologytest.ConsumerQueue(t, test.spec), "/", topologytest.V43)
			topologytest.Equal(t, "error", nil, err)
			w := &world{VHost: brokers.Newest(t).NewVHost(t), tb: t, contract: current}
			seen := &handledCounts{}
			running := w.run(consumertest.DeclareTopology(t, w.uri(""), current), decoded(decodeUnlessOdd, outcomes(seen)))
			w.Publish("", "orders", allMessages()...)
			dead := w.deadLetters(len(test.dead))
			NewWithT(t).Eventually(seen.counts).WithTimeout(deadline.For(time.Minute)).Should(Equal(test.handled))
			topologytest.Equal(t, "Run", nil, running.end())
			topologytest.Equal(t, "dead letters", test.dead, dead)
			topologytest.Equal(t, "handled", test.handled, seen.handled)
		})
	}
}

// A drain under load repeats nothing, because basic.cancel follows the acks, which a quorum queue would lose otherwise.
func TestADrainRepeatsNothing(t *testing.T) {
	t.Parallel()
	const messages, drains = 2000, 5
	for name, spec := range map[string]string{"Publish": publish, "Reject": reject, "Requeue": requeue} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "Publish" {
				deadline.InTestAll(t)
			}
			onEach(t, spec, func(w *world) {
				g := NewWithT(w.tb)
				w.Publish("", "orders", bodies(messages)...)
				seen, conn := &handledCounts{}, w.conn()
				handle := func(_ context.Context, m *consumer.Message[string]) error {
					time.Sleep(time.Millisecond)
					seen.add(m.Body)
					return nil
				}
				for drain := 1; drain <= drains; drain++ {
					running := w.run(conn, handle, consumer.WithConcurrency(16), consumer.WithPrefetch(64))
					g.Eventually(seen.different).WithTimeout(deadline.For(time.Minute)).WithPolling(time.Millisecond).
						Should(BeNumerically(">=", messages*drain/(drains+1)))
					g.Expect(running.end()).To(Succeed())
				}
				w.run(conn, handle)
				g.Eventually(seen.different).WithTimeout(deadline.For(time.Minute)).Should(Equal(messages))
				g.Expect(seen.repeated()).To(BeZero())
				g.Eventually(w.Ready).WithArguments("orders.dlq").Should(BeZero())
			})
		})
	}
}

func bodies(count int) []string {
	all := make([]string, count)
	for i := range all {
		all[i] = fmt.Sprintf("message %d", i)
	}
	return all
}
