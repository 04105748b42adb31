package facts

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/test/brokers"
)

// retry.redeliveryDelay: RabbitMQ 4.3 waits min × the number of deliveries, at most max.
func TestRedeliveryDelayIsMinTimesDeliveriesAtMostMax(t *testing.T) {
	onEachBroker(t, func(w *world) {
		if !w.is43() {
			return // topology.Desired refuses it: UnsupportedByBroker
		}
		w.declare(`{retry: {strategy: Requeue, maxAttempts: 5, redeliveryDelay: {min: 400ms, max: 1s}}}`)
		w.Publish("", "orders", "poison")
		c := w.consume("orders")
		delivery := c.next()
		for _, least := range []time.Duration{400, 800, 1000, 1000} {
			returned := time.Now()
			w.must(delivery.Reject(true))
			delivery = c.next()
			if waited := time.Since(returned); waited < (least-50)*time.Millisecond {
				t.Errorf("redelivered after %s, want %dms", waited, least)
			}
		}
	})
}

// A policy overrides x-delayed-retry-type: with delayed-retry-type disabled, requeued messages are redelivered immediately. The
// lower of both delays applies. A policy needs RabbitMQ 4.3.1.
func TestAPolicyWinsOverTheRedeliveryDelay(t *testing.T) {
	onEachBroker(t, func(w *world) {
		if !w.is43() {
			return // see above
		}
		w.declare(`{retry: {strategy: Requeue, maxAttempts: 100, redeliveryDelay: {min: 10m, max: 10m}}}`)
		w.SetPolicy("hot", brokers.Policy{Pattern: "^orders$", ApplyTo: "queues", Definition: map[string]any{"delayed-retry-type": "disabled"}})
		w.eventually(func() bool { return w.delayedRetry("orders") == "disabled" }, "the policy holds")
		w.Publish("", "orders", "poison")
		deliveries := w.deliveries("orders", reject(true), "orders.dlq", 20)
		w.equal("deliveries without a delay", deliveries, 20)
	})
}

// A policy that delays returned messages hides a dead letter that a closed channel returned.
func TestAPolicyHidesDeadLettersAfterABrowse(t *testing.T) {
	onEachBroker(t, func(w *world) {
		if !w.is43() {
			return // see above
		}
		w.quorum("dlq", "x-delivery-limit", -1)
		w.SetPolicy("slow", brokers.Policy{Pattern: "^dlq$", ApplyTo: "queues", Definition: map[string]any{
			"delayed-retry-type": "all", "delayed-retry-min": 600000,
		}})
		w.Publish("", "dlq", "dead letter")
		w.eventually(func() bool {
			c := w.consume("dlq")
			select {
			case <-c.deliveries:
			case <-time.After(100 * time.Millisecond):
			}
			c.close()
			return w.counts("dlq") == counts{Messages: 1} && w.Ready("dlq") == 0
		}, "the dead letter is hidden, and still in the queue")
	})
}

// delayedRetry is the management API's view of the delay of returned messages.
func (w *world) delayedRetry(queue string) string {
	w.t.Helper()
	var found struct {
		DelayedRetry any `json:"delayed_retry"`
	}
	w.get("/api/queues/"+url.PathEscape(w.Name)+"/"+url.PathEscape(queue), &found)
	return fmt.Sprint(found.DelayedRetry)
}

// Under Publish, the tier dead-letters the message to the main queue through the default exchange after the delay, so its routing
// key becomes the name of the main queue. From 4.0 on, RabbitMQ ignores an x-death that a client sends. On 3.10 the cycle rule
// drops a copy with one.
func TestACopyReturnsFromItsTier(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.declare(`{retry: {delayTiers: [{delay: 300ms}]}}`)
		w.Publish("", "orders.retry.300ms", "copy")
		returned := w.take("orders", "copy")
		w.equal("exchange and key", returned.Exchange+"→"+returned.RoutingKey, "→orders")

		w.publishWith(amqp.Table{"x-death": []any{amqp.Table{
			"queue": "orders", "reason": "expired", "count": int64(1), "exchange": "", "routing-keys": []any{"orders"}, "time": time.Now(),
		}}}, "orders.retry.300ms", "copy with x-death")
		w.Publish("", "orders.retry.300ms", "the next")
		if w.is40() {
			w.take("orders", "copy with x-death")
		}
		w.take("orders", "the next")
	})
}

func (w *world) publishWith(headers amqp.Table, queue, body string) {
	w.t.Helper()
	channel, err := w.connection.Channel()
	w.must(err)
	w.must(channel.Confirm(false))
	confirmation, err := channel.PublishWithDeferredConfirm("", queue, true, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Headers: headers, Body: []byte(body)})
	w.must(err)
	confirmed, err := confirmation.WaitContext(w.t.Context())
	w.must(err)
	w.equal("confirmed", confirmed, true)
	w.must(channel.Close())
}

// Under Reject, the broker moves the message to the tier and back after the delay, and counts in the header x-death. From
// RabbitMQ 4.0 on it routes by reason: rejected goes to the tier; delivery_limit, expired and maxlen go to the DLQ.
func TestRejectRoutesByReason(t *testing.T) {
	for _, reason := range []struct {
		name, spec string
		die        func(w *world)
	}{
		{"delivery_limit", `{queue: {deliveryLimit: 2}, retry: {strategy: Reject, delayTiers: [{delay: 300ms}]}}`, func(w *world) {
			w.deliveries("orders", reject(true), "orders.dlq", 10)
		}},
		{"expired", `{queue: {messageTTL: 2s}, retry: {strategy: Reject, delayTiers: [{delay: 300ms}]}}`, func(*world) {}},
		{
			"maxlen", `{deadLetterStrategy: AtMostOnce, queue: {maxLength: 1, overflow: DropHead}, retry: {strategy: Reject, delayTiers: [{delay: 300ms}]}}`,
			func(w *world) { w.Publish("", "orders", "one more") },
		},
	} {
		t.Run(reason.name, func(t *testing.T) {
			onEachBroker(t, func(w *world) {
				if !w.is40() {
					return // straight, see below
				}
				w.declare(reason.spec)
				c := w.consume("orders") // before the message, which expires while it is ready
				w.Publish("", "orders", "message")
				for attempt := range int64(3) {
					delivery := c.next()
					w.equal("rejections in x-death", rejections(delivery), attempt)
					if attempt < 2 {
						w.must(delivery.Reject(false))
					} else {
						c.close() // returns the message to the queue
					}
				}
				reason.die(w)
				dead := w.take("orders.dlq", "message")
				w.equal("x-last-death-reason", dead.Headers["x-last-death-reason"], reason.name)
			})
		})
	}
}

// rejections returns how often a message was rejected, from its header x-death.
func rejections(delivery amqp.Delivery) int64 {
	deaths, _ := delivery.Headers["x-death"].([]any)
	for _, death := range deaths {
		if death, ok := death.(amqp.Table); ok && death["reason"] == "rejected" {
			count, _ := death["count"].(int64)
			return count
		}
	}
	return 0
}

// The cycle rule: main --rejected--> tier --expired--> main works on every version. With another death than rejected, main
// --delivery_limit--> tier --expired--> main loses the message. So straight Reject, which dead-letters every message of the main
// queue to the tier, has no delivery limit.
func TestCycleRule(t *testing.T) {
	onEachBroker(t, func(w *world) {
		tier := func(ttl int) {
			w.quorum("tier", "x-message-ttl", ttl, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "main")
		}
		tier(300)
		w.quorum("main", "x-delivery-limit", 1, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "tier")
		w.Publish("", "main", "message")
		c := w.consume("main")
		for range 4 {
			w.must(c.next().Reject(false))
		}
		w.must(c.next().Ack(false))
		c.close()

		w.DeleteQueue("tier")
		tier(10_000) // long enough to see the message there
		w.Publish("", "main", "lost")
		c = w.consume("main")
		w.must(c.next().Reject(true))
		w.must(c.next().Reject(true))
		c.close()
		w.holds("tier", 1)
		w.Publish("", "tier", "the next") // expires after the first message
		w.take("main", "the next")
		w.holds("tier", 0)
		w.holds("main", 0)
	})
}

// With at-least-once dead-lettering the cycle rule does not drop the message, which stays in its queue forever.
func TestCycleRuleAtLeastOnce(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.quorum("tier", "x-message-ttl", 300, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "main",
			"x-dead-letter-strategy", "at-least-once", "x-overflow", "reject-publish")
		w.quorum("main", "x-delivery-limit", 0, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "tier")
		w.Publish("", "main", "stuck")
		c := w.consume("main")
		w.must(c.next().Reject(true))
		c.close()
		w.counted("tier", counts{Messages: 1, Waiting: 1})
		w.Publish("", "tier", "the next")
		w.take("main", "the next")
		w.counted("tier", counts{Messages: 1, Waiting: 1})
	})
}
