package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/consumer"
)

// Specs with short delays.
const (
	publish = `{retry: {maxAttempts: 3, delayTiers: [{delay: 200ms}, {delay: 300ms}]}}`
	reject  = `{retry: {strategy: Reject, maxAttempts: 3, delayTiers: [{delay: 200ms}]}}`
	requeue = `{retry: {strategy: Requeue, maxAttempts: 3}}`
	none    = `{retry: {policy: None}}`
)

// outcomes handles a message as its body says.
func outcomes(seen *tally) consumer.Handler[string] {
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

func TestEachStrategyKeepsItsContract(t *testing.T) {
	t.Parallel()
	exhausted := func(text string) letter { return letter{Kind: "exhausted", Message: text, Retries: int64(3)} }
	atOnce := func(text string) letter { return letter{Kind: "exhausted", Message: text, Retries: int64(1)} }
	byBroker := letter{}
	for name, test := range map[string]struct {
		spec    string
		handled map[string]int
		dead    map[string]letter
	}{
		"Publish": {publish, map[string]int{"good": 1, "discarded": 1, "fails": 3, "fails once": 2, "permanent": 1, "panics": 3}, map[string]letter{
			"fails": exhausted("no stock"), "panics": exhausted("the handler panicked: nil map"),
			"permanent": {Kind: "permanent", Message: "no such customer", Retries: int64(1)}, "{": {Kind: "undecodable", Message: "unexpected {", Retries: int64(0)},
		}},
		"Reject": {reject, map[string]int{"good": 1, "discarded": 1, "fails": 3, "fails once": 2, "permanent": 1, "panics": 3}, map[string]letter{
			"fails": exhausted("no stock"), "panics": exhausted("the handler panicked: nil map"),
			"permanent": {Kind: "permanent", Message: "no such customer", Retries: int64(1)}, "{": {Kind: "undecodable", Message: "unexpected {", Retries: int64(0)},
		}},
		"Requeue": {requeue, map[string]int{"good": 1, "discarded": 1, "fails": 3, "fails once": 2, "permanent": 1, "panics": 3}, map[string]letter{
			"fails": byBroker, "panics": byBroker, "permanent": byBroker, "{": byBroker,
		}},
		"None": {none, map[string]int{"good": 1, "discarded": 1, "fails": 1, "fails once": 1, "permanent": 1, "panics": 1}, map[string]letter{
			"fails": atOnce("no stock"), "fails once": atOnce("no stock yet"), "panics": atOnce("the handler panicked: nil map"),
			"permanent": {Kind: "permanent", Message: "no such customer", Retries: int64(1)}, "{": {Kind: "undecodable", Message: "unexpected {", Retries: int64(0)},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, test.spec, func(w *world) {
				g := NewWithT(w.tb)
				seen := &tally{}
				running := w.run(w.conn(), outcomes(seen), consumer.WithDecoder(decodeUnlessOdd))
				w.Publish("", "orders", "good", "discarded", "fails", "fails once", "permanent", "panics", "{")
				dead := w.deadLetters(len(test.dead))
				for body, want := range test.dead {
					want.Body = body
					g.Expect(dead).To(HaveKeyWithValue(body, want))
				}
				g.Expect(running.end()).To(Succeed())
				g.Expect(seen.handled).To(Equal(test.handled))
				for _, tier := range w.kept.Tiers {
					g.Expect(w.Ready(tier.RoutingKey)).To(BeZero())
				}
				g.Expect(w.Ready("orders")).To(BeZero())
			})
		})
	}
}

// A drain under load repeats nothing: acks that a quorum queue would forget are followed by basic.cancel.
func TestADrainRepeatsNothing(t *testing.T) {
	t.Parallel()
	const messages, drains = 2000, 5
	for name, spec := range map[string]string{"Publish": publish, "Reject": reject, "Requeue": requeue} {
		t.Run(name, func(t *testing.T) {
			onEach(t, spec, func(w *world) {
				g := NewWithT(w.tb)
				w.Publish("", "orders", bodies(messages)...)
				seen, conn := &tally{}, w.conn()
				handle := func(_ context.Context, m *consumer.Message[string]) error {
					time.Sleep(time.Millisecond)
					seen.add(m.Body)
					return nil
				}
				for drain := 1; drain <= drains; drain++ {
					running := w.run(conn, handle, consumer.WithConcurrency(16), consumer.WithPrefetch(64))
					g.Eventually(seen.different).WithTimeout(time.Minute).WithPolling(time.Millisecond).
						Should(BeNumerically(">=", messages*drain/(drains+1)))
					g.Expect(running.end()).To(Succeed())
				}
				w.run(conn, handle)
				g.Eventually(seen.different).WithTimeout(time.Minute).Should(Equal(messages))
				g.Expect(seen.repeated()).To(BeZero())
				g.Expect(w.Ready("orders.dlq")).To(BeZero())
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
