package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
	"github.com/warren-mq/warren/test/traffic"
)

// deadLetters publishes messages to a main queue and rejects them.
func (w *world) deadLetters(queue string, count int) {
	GinkgoHelper()
	before := w.VHost.Ready(queue + ".dlq")
	publisher := traffic.Publish(GinkgoTB(), w.VHost, traffic.Publishing{Targets: []traffic.Target{traffic.ToQueue(queue)}, Count: count})
	consumer := traffic.Consume(GinkgoTB(), w.VHost, queue, func(traffic.Delivery) traffic.Action { return traffic.Reject })
	publisher.Wait(GinkgoTB(), deadline.For(30*time.Second))
	Eventually(func() int { return w.VHost.Ready(queue + ".dlq") }).Should(Equal(before + count))
	consumer.Stop()
}

// numbered returns messages whose bodies and header n count from zero.
func numbered(count int) []amqp.Publishing {
	messages := make([]amqp.Publishing, count)
	for i := range messages {
		messages[i] = amqp.Publishing{
			DeliveryMode: amqp.Persistent, Headers: amqp.Table{"n": int64(i)}, Body: fmt.Appendf(nil, `{"n": %d}`, i),
		}
	}
	return messages
}

// take removes all messages from a queue and returns them in order.
func (w *world) take(queue string) []amqp.Delivery {
	GinkgoHelper()
	connection, err := w.VHost.Connect("take")
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	Expect(err).NotTo(HaveOccurred())
	var messages []amqp.Delivery
	for {
		message, ok, err := channel.Get(queue, true)
		Expect(err).NotTo(HaveOccurred())
		if !ok {
			return messages
		}
		messages = append(messages, message)
	}
}

// completed waits until a Redrive is complete and returns its counts.
func (w *world) completed(name string) v1alpha1.RedriveStatus {
	GinkgoHelper()
	redrive := w.EventuallyRedrive(name, Condition("Ready", metav1.ConditionTrue, "Completed"))
	Expect(kstatusOf(redrive)).To(Equal(status.CurrentStatus))
	return redrive.Status
}

// incomplete waits until a Redrive has ended without moving all messages and returns its counts.
func (w *world) incomplete(name string) v1alpha1.RedriveStatus {
	GinkgoHelper()
	redrive := w.EventuallyRedrive(name, Condition("Ready", metav1.ConditionFalse, v1alpha1.ReasonIncomplete))
	Expect(kstatusOf(redrive)).To(Equal(status.FailedStatus))
	return redrive.Status
}

var _ = Describe("A Redrive", func() {
	onEachBroker("moves all dead letters back to the main queue, in order and without traces of their death", func(broker brokers.Broker) {
		w := newWorld(broker)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.deadLetters("orders", 20)
		w.Redrive("again", `{consumerQueueRef: {name: orders}, reason: the payment API is back, rate: Unlimited}`)
		found := w.completed("again")
		Expect(found.Source).To(BeEquivalentTo("orders.dlq"))
		Expect(found.Destination).To(BeEquivalentTo("orders"))
		Expect(found.Location.VHost).To(Equal(w.VHost.Name))
		Expect(*found.Total).To(BeEquivalentTo(20))
		Expect(*found.Moved).To(BeEquivalentTo(20))
		Expect(*found.Examined).To(BeEquivalentTo(20))
		Expect(*found.Failed).To(BeZero())
		Expect(found.StartTime).NotTo(BeNil())
		Expect(found.CompletionTime).NotTo(BeNil())
		w.EventuallyMessages("orders.dlq", BeZero())
		messages := w.take("orders")
		Expect(messages).To(HaveLen(20))
		redrive := w.GetRedrive("again")
		for i, message := range messages {
			Expect(message.MessageId).To(HaveSuffix(fmt.Sprintf("%06d", i+1)))
			for _, header := range []string{"x-death", "x-first-death-queue", "x-last-death-queue", "CC"} {
				Expect(message.Headers).NotTo(HaveKey(header))
			}
			Expect(message.Headers["x-delivery-count"]).To(Or(BeNil(), BeZero()))
			Expect(message.Headers).To(SatisfyAll(
				HaveKeyWithValue("x-warren-redrive-id", string(redrive.UID)),
				HaveKeyWithValue("x-warren-redrive-name", w.Namespace+"/again"),
				HaveKeyWithValue("x-warren-redrive-reason", "the payment API is back"),
				HaveKeyWithValue("x-warren-redrive-from", "orders.dlq"),
				HaveKeyWithValue("x-warren-origin-queue", "orders"),
				HaveKeyWithValue("x-warren-origin-reason", "Rejected"),
			))
		}
		w.EventuallyReasons("again", Equal([]string{"Started", "Completed"}))
		w.EventuallyReasons("orders", ContainElement("Redriven"))
	})

	It("moves the selected messages and leaves the others unchanged", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", numbered(50)...)
		const selected = `{consumerQueueRef: {name: orders}, selector: {reasons: [Parked], expression: "headers.n >= 40 && body.n < 45"}, dryRun: %t}`
		w.Redrive("count", fmt.Sprintf(selected, true))
		counted := w.EventuallyRedrive("count", Condition("Ready", metav1.ConditionTrue, "DryRun"))
		Expect(*counted.Status.Moved).To(BeEquivalentTo(5))
		Expect(counted.Status.Skipped).To(Equal(map[string]int64{"NotSelected": 45}))
		w.EventuallyMessages("orders", BeZero())
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(50))

		w.Redrive("go", fmt.Sprintf(selected, false))
		found := w.completed("go")
		Expect(*found.Moved).To(BeEquivalentTo(5))
		Expect(found.Skipped).To(Equal(map[string]int64{"NotSelected": 45}))
		Expect(bodies(w.take("orders"))).To(Equal([]string{`{"n": 40}`, `{"n": 41}`, `{"n": 42}`, `{"n": 43}`, `{"n": 44}`}))
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(45))
		left := w.take("orders.dlq")
		for i := range left {
			number := i
			if i >= 40 {
				number = i + 5
			}
			Expect(string(left[i].Body)).To(Equal(`{"n": ` + strconv.Itoa(number) + `}`))
		}
	})

	It("moves at most maxMessages", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", numbered(20)...)
		w.Redrive("some", `{consumerQueueRef: {name: orders}, maxMessages: 7}`)
		Expect(*w.completed("some").Moved).To(BeEquivalentTo(7))
		Expect(bodies(w.take("orders"))).To(HaveLen(7))
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(13))
	})

	It("moves to a tier, and to another ConsumerQueue", Extended, func() {
		w := newWorld(newest)
		w.Queue("orders", `{retry: {strategy: Reject, delayTiers: [{delay: 1h}]}, bindings: [{exchange: {name: shop, type: topic}, routingKeys: [placed]}]}`)
		w.Queue("quarantine", `{}`)
		w.Ready("orders")
		w.Ready("quarantine")
		tier := string(w.Get("orders").Spec.Retry.DelayTiers[0].QueueName)
		if tier == "" {
			tier = "orders.retry.1h"
		}
		w.VHost.Send("", "orders.dlq", numbered(1)...)
		w.Redrive("tier", `{consumerQueueRef: {name: orders}, destination: {type: Retry}}`)
		Expect(w.completed("tier").Destination).To(BeEquivalentTo(tier))
		w.EventuallyMessages(tier, Equal(1))

		w.VHost.Send("", "orders.dlq", numbered(2)...)
		w.Redrive("aside", `{consumerQueueRef: {name: orders}, destination: {type: ConsumerQueue, consumerQueueRef: {name: quarantine}}}`)
		Expect(w.completed("aside").Destination).To(BeEquivalentTo("quarantine"))
		w.EventuallyMessages("quarantine", Equal(2))

		w.Redrive("nowhere", `{consumerQueueRef: {name: orders}, destination: {type: Retry, delay: 5m}}`)
		w.EventuallyRedrive("nowhere", Condition("Ready", metav1.ConditionFalse, "InvalidDestination"),
			Condition("Stalled", metav1.ConditionTrue, "InvalidDestination"), Message(ContainSubstring(`delay tiers of "1h0m0s"`)))
	})

	It("moves each message to its original exchange, except messages that the user may not publish there", func() {
		w := newWorld(newest)
		w.VHost.DeclareQueue("audit", map[string]any{"x-queue-type": "quorum"})
		w.Queue("orders", `{bindings: [{exchange: {name: shop, type: topic}, routingKeys: [placed]}]}`)
		w.Ready("orders")
		w.VHost.Publish("shop", "placed", "a", "b")
		consumer := traffic.Consume(GinkgoTB(), w.VHost, "orders", func(traffic.Delivery) traffic.Action { return traffic.Reject })
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(2))
		consumer.Stop()
		w.VHost.Bind("shop", "audit", "placed", nil)
		w.VHost.Send("", "orders.dlq",
			amqp.Publishing{Body: []byte("gone"), Headers: amqp.Table{"x-original-exchange": "nowhere", "x-original-routing-key": "placed"}},
			amqp.Publishing{Body: []byte("forbidden"), Headers: amqp.Table{"x-original-exchange": "amq.rabbitmq.trace", "x-original-routing-key": "a"}},
			amqp.Publishing{Body: []byte("unknown")})
		w.Redrive("home", `{consumerQueueRef: {name: orders}, destination: {type: Original}}`)
		found := w.incomplete("home")
		Expect(found).To(SatisfyAll(HaveField("Destination", BeEmpty()), HaveField("Moved", HaveValue(BeEquivalentTo(2))),
			HaveField("Failed", HaveValue(BeEquivalentTo(3))),
			HaveField("Failures", ConsistOf(HaveField("Reason", "Refused"), HaveField("Reason", "Refused"), HaveField("Reason", "NoRoute")))))
		for _, queue := range []string{"orders", "audit"} { // all currently bound queues get a copy
			arrived := w.take(queue)
			// Copies that were unconfirmed when the broker closed the channel because of a refused one may exist twice.
			Expect(slices.Compact(slices.Sorted(slices.Values(bodies(arrived))))).To(Equal([]string{"a", "b"}))
			for _, message := range arrived {
				Expect(message.Exchange).To(Equal("shop"))
				Expect(message.RoutingKey).To(Equal("placed"))
				Expect(message.Headers).NotTo(SatisfyAny(HaveKey("x-death"), HaveKey("CC")))
			}
		}
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(3))
	})

	It("moves no message to a queue that would drop another one", func() {
		w := newWorld(newest)
		w.VHost.DeclareQueue("audit", map[string]any{"x-queue-type": "quorum", "x-max-length": 3})
		w.VHost.DeclareQueue("archive", map[string]any{"x-queue-type": "quorum"})
		w.VHost.SetPolicy("archive", brokers.Policy{
			Pattern: "^archive$", ApplyTo: "queues", Definition: map[string]any{"max-length-bytes": 3000, "overflow": "drop-head"},
		})
		w.Queue("orders", `{bindings: [{exchange: {name: shop, type: topic}, routingKeys: [placed, paid, sent]}]}`)
		w.Ready("orders")
		w.VHost.Bind("shop", "audit", "placed", nil)
		w.VHost.Bind("shop", "archive", "paid", nil)
		w.VHost.Publish("shop", "placed", "a")
		w.VHost.Publish("shop", "paid", "b")
		w.VHost.Publish("shop", "sent", "c")
		consumer := traffic.Consume(GinkgoTB(), w.VHost, "orders", func(traffic.Delivery) traffic.Action { return traffic.Reject })
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(3))
		consumer.Stop()
		for _, queue := range []string{"audit", "archive"} {
			w.take(queue)
			w.VHost.Publish("", queue, "1", "2", "3")
		}
		w.request("orders", "now")
		Eventually(func() string { return w.Get("orders").Status.LastHandledReconcileAt }).Should(Equal("now"))
		w.Redrive("home", `{consumerQueueRef: {name: orders}, destination: {type: Original}}`)
		found := w.incomplete("home")
		Expect(found.Moved).To(HaveValue(BeEquivalentTo(1)))
		Expect(found.Failures).To(ConsistOf(
			SatisfyAll(HaveField("Reason", "NoRoute"), HaveField("Message", HavePrefix(`queue "audit" has x-max-length 3: `))),
			SatisfyAll(HaveField("Reason", "NoRoute"),
				HaveField("Message", HavePrefix(`policy "archive" sets max-length-bytes 3000 for queue "archive": `)))))
		Expect(bodies(w.take("orders"))).To(Equal([]string{"c"}))
		for _, queue := range []string{"audit", "archive"} {
			Expect(bodies(w.take(queue))).To(Equal([]string{"1", "2", "3"}))
		}
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(2))
	})

	onEachBroker("does not browse messages that a delivery limit may delete, but moves all of them", func(broker brokers.Broker) {
		w := newWorld(broker)
		w.Queue("orders", `{deadLetter: {queue: {deliveryLimit: 5}}}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", numbered(10)...)
		w.Redrive("count", `{consumerQueueRef: {name: orders}, dryRun: true}`)
		w.Redrive("some", `{consumerQueueRef: {name: orders}, selector: {reasons: [Parked]}}`)
		for _, name := range []string{"count", "some"} {
			stalled := w.EventuallyRedrive(name, Condition("Ready", metav1.ConditionFalse, "DeliveryLimited"),
				Condition("Stalled", metav1.ConditionTrue, "DeliveryLimited"))
			Expect(kstatusOf(stalled)).To(Equal(status.FailedStatus))
		}
		w.Redrive("all", `{consumerQueueRef: {name: orders}}`)
		Expect(*w.completed("all").Moved).To(BeEquivalentTo(10))
		w.EventuallyMessages("orders", Equal(10))
	})

	It("moves only its ConsumerQueue's dead letters from a shared queue", func() {
		w := newWorld(newest)
		for _, name := range []string{"orders", "invoices"} {
			w.Queue(name, `{deadLetter: {queue: {name: shop.dlq}}}`)
			w.Ready(name)
		}
		for _, name := range []string{"orders", "invoices"} {
			before := w.VHost.Ready("shop.dlq")
			w.VHost.Publish("", name, "a", "b", "c")
			consumer := traffic.Consume(GinkgoTB(), w.VHost, name, func(traffic.Delivery) traffic.Action { return traffic.Reject })
			Eventually(func() int { return w.VHost.Ready("shop.dlq") }).Should(Equal(before + 3))
			consumer.Stop()
		}
		w.VHost.Send("", "shop.dlq", numbered(1)...)
		w.Redrive("mine", `{consumerQueueRef: {name: orders}}`)
		found := w.completed("mine")
		Expect(*found.Moved).To(BeEquivalentTo(3))
		Expect(found.Skipped).To(Equal(map[string]int64{"OtherOrigin": 3, "NoOrigin": 1}))
		w.EventuallyMessages("orders", Equal(3))
	})

	It("waits while its destination is missing, full or busy", Extended, func() {
		w := newWorld(newest)
		w.Queue("orders", `{queue: {maxLength: 5}}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", numbered(20)...)
		w.Redrive("full", `{consumerQueueRef: {name: orders}, rate: Unlimited}`)
		w.EventuallyRedrive("full", Condition("Ready", metav1.ConditionUnknown, "DestinationFull"),
			Condition("Reconciling", metav1.ConditionTrue, "DestinationFull"))
		consumer := traffic.Consume(GinkgoTB(), w.VHost, "orders", nil)
		Expect(*w.completed("full").Moved).To(BeEquivalentTo(20))
		Eventually(func() int { return consumer.Deliveries() }).Should(Equal(20))
		consumer.Stop()
		w.EventuallyReasons("full", ContainElement("Waiting"))

		w.Queue("invoices", `{}`)
		w.Ready("invoices")
		w.VHost.Send("", "invoices.dlq", numbered(20)...)
		w.Redrive("busy", `{consumerQueueRef: {name: invoices}, rate: Unlimited, maxDestinationDepth: 5}`)
		w.EventuallyRedrive("busy", Condition("Ready", metav1.ConditionUnknown, "DestinationBusy"))
		Consistently(w.VHost.Ready).WithArguments("invoices").WithTimeout(time.Second).Should(BeNumerically("<=", 5))
		traffic.Consume(GinkgoTB(), w.VHost, "invoices", nil)
		Expect(*w.completed("busy").Moved).To(BeEquivalentTo(20))
	})

	It("moves a message once, and no more than maxRedrives times in all Redrives", func() {
		w := newWorld(newest)
		w.Queue("orders", `{retry: {delayTiers: [{delay: 1s}]}}`)
		w.Ready("orders")
		w.deadLetters("orders", 10)
		traffic.Consume(GinkgoTB(), w.VHost, "orders", func(d traffic.Delivery) traffic.Action {
			if d.Attempt == 1 {
				return traffic.Retry(traffic.ToQueue("orders.retry.1s"))
			}
			return traffic.Reject
		})
		for i := range 5 {
			name := fmt.Sprintf("again-%d", i)
			w.Redrive(name, `{consumerQueueRef: {name: orders}, rate: 5, maxRedrives: 2}`) // the first messages return while it moves the last
			moved := 10
			if i >= 2 {
				moved = 0
			}
			Expect(*w.completed(name).Moved).To(BeEquivalentTo(moved), name)
			Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(10))
		}
	})
})

// bodies returns the bodies of messages.
func bodies(messages []amqp.Delivery) []string {
	found := make([]string, len(messages))
	for i, message := range messages {
		found[i] = string(message.Body)
	}
	return found
}
