package facts

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/test/brokers"
)

// At-least-once needs both x-dead-letter-strategy: at-least-once and x-overflow: reject-publish. Without reject-publish, RabbitMQ
// silently falls back to at-most-once. AtMostOnce loses a message that is dead-lettered to a missing exchange.
func TestAtLeastOnceNeedsRejectPublish(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.quorum("both", "x-dead-letter-exchange", "missing", "x-dead-letter-strategy", "at-least-once", "x-overflow", "reject-publish")
		w.quorum("strategy alone", "x-dead-letter-exchange", "missing", "x-dead-letter-strategy", "at-least-once")
		w.quorum("at most once", "x-dead-letter-exchange", "missing")
		for _, queue := range []string{"both", "strategy alone", "at most once"} {
			w.Publish("", queue, "message", "and another")
			c := w.consume(queue)
			w.must(c.next().Reject(false))
			c.close()
		}
		w.counted("both", counts{Messages: 2, Waiting: 1})
		w.counted("strategy alone", counts{Messages: 1})
		w.counted("at most once", counts{Messages: 1})
	})
}

// A DLQ with a maximum length and no overflow drops the oldest dead letters. With x-overflow: reject-publish, which is the
// default of a ConsumerQueue, a full DLQ keeps dead letters waiting in the main queue.
func TestAFullDLQ(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.declare(`{retry: {policy: None}, deadLetter: {queue: {maxLength: 1}}}`)
		w.quorum("bare", "x-max-length", 1)
		w.quorum("source", "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "bare",
			"x-dead-letter-strategy", "at-least-once", "x-overflow", "reject-publish")
		bodies := []string{"oldest", "1", "2", "3", "4", "5", "6", "newest"} // some are accepted before the DLQ is full
		for queue, dlq := range map[string]string{"orders": "orders.dlq", "source": "bare"} {
			w.Publish("", queue, bodies...)
			c := w.consume(queue)
			for range bodies {
				w.must(c.next().Reject(false))
				w.eventually(func() bool { return w.Ready(dlq) > 0 }, "%q holds a dead letter", dlq)
			}
			c.close()
		}
		w.eventually(func() bool {
			waiting := w.counts("orders").Waiting
			return waiting > 0 && waiting+w.Ready("orders.dlq") == len(bodies)
		}, "all dead letters are in the DLQ or wait")
		w.take("orders.dlq", "oldest")
		w.counted("source", counts{})
		w.take("bare", "newest")
	})
}

// A full DLQ refuses published messages, but accepts at-most-once dead letters: it exceeds its length, and no message is lost.
func TestAFullDLQBehindAtMostOnce(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.declare(`{retry: {policy: None}, deadLetterStrategy: AtMostOnce, deadLetter: {queue: {maxLength: 1}}}`)
		channel, err := w.connection.Channel()
		w.must(err)
		w.must(channel.Confirm(false))
		published := 0
		w.eventually(func() bool {
			confirmation, err := channel.PublishWithDeferredConfirm("", "orders.dlq", false, false, amqp.Publishing{})
			w.must(err)
			confirmed, err := confirmation.WaitContext(w.t.Context())
			w.must(err)
			if confirmed {
				published++
			}
			return !confirmed
		}, "the DLQ is full")
		w.must(channel.Close())
		const dead = 50
		for range dead {
			w.Publish("", "orders", "dead letter")
		}
		c := w.consume("orders")
		for range dead {
			w.must(c.next().Reject(false))
		}
		c.close()
		w.holds("orders.dlq", published+dead)
		w.counted("orders", counts{})
	})
}

// A dead letter stays in its queue until the next queue has confirmed it, and counts towards the length of its queue.
func TestAWaitingDeadLetterCountsTowardsTheLength(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.quorum("orders", "x-max-length", 1, "x-dead-letter-exchange", "missing",
			"x-dead-letter-strategy", "at-least-once", "x-overflow", "reject-publish")
		w.Publish("", "orders", "dead letter")
		c := w.consume("orders")
		w.must(c.next().Reject(false))
		c.close()
		channel, err := w.connection.Channel()
		w.must(err)
		w.must(channel.Confirm(false))
		w.eventually(func() bool { // the length is checked with a delay
			confirmation, err := channel.PublishWithDeferredConfirm("", "orders", false, false, amqp.Publishing{Body: []byte("another")})
			w.must(err)
			confirmed, err := confirmation.WaitContext(w.t.Context())
			w.must(err)
			return !confirmed
		}, "the queue is full")
		w.must(channel.Close())
	})
}

// Rejected messages are dropped if dead-lettering is disabled.
func TestWithoutADLXRejectedMessagesAreDropped(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.declare(`{retry: {policy: None}, deadLetter: {policy: Disabled}}`)
		w.Publish("", "orders", "given up", "the next")
		c := w.consume("orders")
		w.must(c.next().Reject(false))
		c.close()
		w.take("orders", "the next")
		w.holds("orders", 0)
	})
}

// A policy can override arguments: overflow drop-head drops pending dead letters, and a broad delivery-limit loses dead letters
// on the next browse.
func TestPoliciesDefeatArguments(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.quorum("pending", "x-dead-letter-exchange", "missing", "x-dead-letter-strategy", "at-least-once", "x-overflow", "reject-publish")
		w.Publish("", "pending", "dead letter")
		c := w.consume("pending")
		w.must(c.next().Reject(false))
		c.close()
		w.counted("pending", counts{Messages: 1, Waiting: 1})
		w.SetPolicy("drop", brokers.Policy{Pattern: "^pending$", ApplyTo: "queues", Definition: map[string]any{"overflow": "drop-head"}})
		w.counted("pending", counts{})

		w.quorum("seen")
		unlimited := []any{"x-dead-letter-exchange", "", "x-dead-letter-routing-key", "seen"} // so that the loss is visible
		if w.is40() {
			unlimited = append(unlimited, "x-delivery-limit", -1)
		}
		w.quorum("graves", unlimited...)
		w.SetPolicy("limits", brokers.Policy{Pattern: "^graves$", ApplyTo: "queues", Definition: map[string]any{"delivery-limit": 5}})
		w.Publish("", "graves", "dead letter")
		const maxDeliveries = 100_000 // a policy takes effect with a delay
		if w.deliveries("graves", reject(true), "seen", maxDeliveries) == maxDeliveries {
			t.Error("the policy has no effect")
		}
	})
}

// A message to a deleted queue gets a positive confirm, although no queue receives it. With mandatory it is returned.
func TestUnroutableMessagesAreConfirmed(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.quorum("tier")
		w.DeleteQueue("tier")
		channel, err := w.connection.Channel()
		w.must(err)
		w.must(channel.Confirm(false))
		returns := channel.NotifyReturn(make(chan amqp.Return, 2))
		for _, mandatory := range []bool{false, true} {
			confirmation, err := channel.PublishWithDeferredConfirm("", "tier", mandatory, false, amqp.Publishing{Body: []byte("message")})
			w.must(err)
			confirmed, err := confirmation.WaitContext(w.t.Context())
			w.must(err)
			w.equal("confirmed", confirmed, true)
			w.equal("returned before it was confirmed", len(returns) == 1, mandatory)
		}
		w.must(channel.Close())
	})
}

// RabbitMQ cannot delete a quorum queue only if it is empty: it refuses if-empty and if-unused.
func TestQuorumQueuesRefuseConditionalDeletion(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.quorum("orders")
		for _, unused := range []bool{true, false} {
			connection, err := w.Connect("deleter") // the refusal closes the channel
			w.must(err)
			channel, err := connection.Channel()
			w.must(err)
			if _, err := channel.QueueDelete("orders", unused, !unused, false); err == nil {
				w.t.Errorf("deleted, if-unused %t, if-empty %t", unused, !unused)
			}
			_ = connection.Close()
		}
		w.holds("orders", 0)
	})
}
