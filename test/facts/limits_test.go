package facts

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// From RabbitMQ 4.0 on, every quorum queue has a delivery limit of 20 by default; 3.10 has none.
func TestDeliveryLimitByDefault(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.quorum("dead")
		w.quorum("orders", "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead")
		w.Publish("", "orders", "poison")
		want := 30 // no limit
		if w.is40() {
			want = 21
		}
		w.equal("deliveries", w.deliveries("orders", reject(true), "dead", 30), want)
	})
}

// x-delivery-limit -1 means no limit from RabbitMQ 4.0 on; 3.10 drops the message at its first redelivery.
func TestDeliveryLimitMinusOne(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.quorum("dead")
		w.quorum("orders", "x-delivery-limit", -1, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead")
		w.Publish("", "orders", "poison")
		want := 1
		if w.is40() {
			want = 30
		}
		w.equal("deliveries", w.deliveries("orders", reject(true), "dead", 30), want)
	})
}

// basic.nack with requeue=true counts for the delivery limit on RabbitMQ 3.10 and 4.0. On 4.3 it does not count, and RabbitMQ
// redelivers a poison message forever. basic.reject with requeue=true counts on all versions.
func TestNackWithRequeueCountsUntil43(t *testing.T) {
	onEachBroker(t, func(w *world) {
		for queue, settle := range map[string]func(amqp.Delivery) error{"rejected": reject(true), "nacked": nack} {
			dead := "dead." + queue
			w.quorum(dead)
			w.quorum(queue, "x-delivery-limit", 2, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead)
			w.Publish("", queue, "poison")
			want := 3
			if w.is43() && queue == "nacked" {
				want = 10
			}
			w.equal(queue, w.deliveries(queue, settle, dead, 10), want)
		}
	})
}

// A crashed consumer counts as well: closing a channel or losing a connection returns its messages.
func TestClosedChannelsAndLostConnectionsCount(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.quorum("dead")
		w.quorum("orders", "x-delivery-limit", 1, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "dead")
		w.Publish("", "orders", "poison")
		c := w.consume("orders")
		c.next()
		c.close()
		lost, err := w.Connect("lost")
		w.must(err)
		there := *w
		there.connection = lost
		there.consume("orders").next()
		w.must(lost.Close())
		w.holds("dead", 1)
		w.holds("orders", 0)
	})
}

// From RabbitMQ 4.0 on, the 21st browse deletes a dead letter unless the DLQ has deliveryLimit Unlimited. The DLQ of a
// ConsumerQueue has it, so browsing loses nothing.
func TestBrowsingADeadLetter21Times(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.declare(`{retry: {policy: None}}`)
		w.quorum("bare")
		w.Publish("", "orders.dlq", "dead letter")
		w.Publish("", "bare", "dead letter")
		browse := func(queue string, times int) {
			c := w.consume(queue)
			for range times {
				w.must(c.next().Reject(true))
			}
			c.close()
		}
		browse("orders.dlq", 25)
		w.take("orders.dlq", "dead letter")

		browse("bare", 21)
		w.Publish("", "bare", "the next")
		if w.is40() {
			w.take("bare", "the next")
			w.holds("bare", 0)
		} else {
			w.holds("bare", 2)
		}
	})
}

// From RabbitMQ 4.3 on, a dead-lettered message keeps the number of its rejects. In a DLQ with the default limit, the first
// browse deletes a message that was rejected more often before.
func TestTheFirstBrowseCanDeleteFrom43On(t *testing.T) {
	onEachBroker(t, func(w *world) {
		unlimited := []any{}
		if w.is40() {
			unlimited = []any{"x-delivery-limit", -1}
		}
		w.quorum("orders", append(unlimited, "x-dead-letter-exchange", "", "x-dead-letter-routing-key", "bare")...)
		w.quorum("bare")
		w.Publish("", "orders", "rejected often")
		c := w.consume("orders")
		for range 21 {
			w.must(c.next().Reject(true))
		}
		w.must(c.next().Reject(false))
		c.close()
		w.holds("bare", 1)
		browse := w.consume("bare")
		browse.next()
		browse.close()
		if w.is43() {
			w.counted("bare", counts{})
		} else {
			w.take("bare", "rejected often")
		}
	})
}

// Under Requeue the limit counts returns to the queue, so there are maxAttempts deliveries before the broker dead-letters the
// message.
func TestRequeueHasMaxAttemptsDeliveries(t *testing.T) {
	onEachBroker(t, func(w *world) {
		w.declare(`{retry: {strategy: Requeue, maxAttempts: 3}}`)
		w.Publish("", "orders", "poison")
		w.equal("deliveries", w.deliveries("orders", reject(true), "orders.dlq", 10), 3)
		w.take("orders.dlq", "poison")
	})
}
