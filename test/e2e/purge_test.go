package e2e

import (
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
	"github.com/warren-mq/warren/test/traffic"
)

// numbersBut returns the bodies of numbered messages except the ones from first to last.
func numbersBut(count, first, last int) []string {
	var left []string
	for i := range count {
		if i < first || i > last {
			left = append(left, `{"n": `+strconv.Itoa(i)+`}`)
		}
	}
	return left
}

// purged waits until a Purge is complete and returns its counts.
func (w *world) purged(name string) v1alpha1.PurgeStatus {
	GinkgoHelper()
	purge := w.EventuallyPurge(name, Condition("Ready", metav1.ConditionTrue, "Completed"))
	Expect(kstatusOf(purge)).To(Equal(status.CurrentStatus))
	return purge.Status
}

// left waits until the dead-letter queue of orders has count messages and returns their bodies.
func (w *world) left(count int) []string {
	GinkgoHelper()
	Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(count))
	return bodies(w.take("orders.dlq"))
}

const someParked = `consumerQueueRef: {name: orders}, selector: {reasons: [Parked], expression: "headers.n >= 40 && body.n < 45"}`

var _ = Describe("A Purge", func() {
	It("deletes the selected messages and keeps the order of the others", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", numbered(50)...)
		w.Purge("count", `{`+someParked+`, expectedAtMost: 5, dryRun: true}`)
		counted := w.EventuallyPurge("count", Condition("Ready", metav1.ConditionTrue, "DryRun"),
			Message(Equal("5 of 50 messages would be deleted, 45 skipped (NotSelected)")))
		Expect(*counted.Status.Matched).To(BeEquivalentTo(5))
		Expect(*counted.Status.Deleted).To(BeZero())
		Eventually(func() int { return w.VHost.Ready("orders.dlq") }).Should(Equal(50))

		w.Purge("go", `{`+someParked+`, expectedAtMost: 5, reason: they were mended by hand}`)
		found := w.purged("go")
		Expect(found.Source).To(BeEquivalentTo("orders.dlq"))
		Expect(found.Location.VHost).To(Equal(w.VHost.Name))
		Expect(*found.Total).To(BeEquivalentTo(50))
		Expect(*found.Examined).To(BeEquivalentTo(50))
		Expect(*found.Matched).To(BeEquivalentTo(5))
		Expect(*found.Deleted).To(BeEquivalentTo(5))
		Expect(found.AtMost).To(BeNil())
		Expect(found.Skipped).To(Equal(map[string]int64{"NotSelected": 45}))
		Expect(found.StartTime).NotTo(BeNil())
		Expect(found.CompletionTime).NotTo(BeNil())
		w.EventuallyMessages("orders", BeZero())
		Expect(w.left(45)).To(Equal(numbersBut(50, 40, 44)))
		w.EventuallyReasons("go", Equal([]string{"Started", "Completed"}))
		w.EventuallyReasons("orders", ContainElement("Purged"))
	})

	It("deletes nothing if more messages match than expectedAtMost", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", numbered(50)...)
		w.Purge("few", `{`+someParked+`, expectedAtMost: 4}`)
		few := w.EventuallyPurge("few", Condition("Ready", metav1.ConditionFalse, "MoreThanExpected"),
			Condition("Stalled", metav1.ConditionTrue, "MoreThanExpected"),
			Message(ContainSubstring("5 messages match, and spec.expectedAtMost is 4: no message was deleted")))
		Expect(kstatusOf(few)).To(Equal(status.FailedStatus))
		Expect(few.Status.CompletionTime).NotTo(BeNil())
		Expect(*few.Status.Matched).To(BeEquivalentTo(5))
		Expect(*few.Status.Deleted).To(BeZero())
		w.EventuallyReasons("few", Equal([]string{"Started", "Failed"}))
		Expect(w.left(50)).To(Equal(numbersBut(50, 50, 50)))
	})

	It("deletes all messages that were there at its start, and no later ones", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", numbered(40)...)
		w.Purge("all", `{consumerQueueRef: {name: orders}, expectedAtMost: 40, rate: 2}`)
		w.EventuallyPurge("all", Condition("Ready", metav1.ConditionUnknown, "Deleting"), Condition("Reconciling", metav1.ConditionTrue, "Deleting"),
			HaveField("Status.AtMost", Not(BeNil())))
		w.VHost.Send("", "orders.dlq", numbered(45)[40:]...)
		w.EditPurge("all", func(spec *v1alpha1.PurgeSpec) { spec.Rate.IntVal = 1000 })
		Expect(*w.purged("all").Deleted).To(BeEquivalentTo(40))
		Expect(w.left(5)).To(Equal(numbersBut(45, 0, 39)))
	})

	It("does not browse messages that a delivery limit may delete, with any selector", func() {
		w := newWorld(newest)
		w.Queue("orders", `{deadLetter: {queue: {deliveryLimit: 5}}}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", numbered(10)...)
		w.Purge("count", `{consumerQueueRef: {name: orders}, expectedAtMost: 10, dryRun: true}`)
		w.Purge("all", `{consumerQueueRef: {name: orders}, expectedAtMost: 10}`)
		for _, name := range []string{"count", "all"} {
			stalled := w.EventuallyPurge(name, Condition("Ready", metav1.ConditionFalse, "DeliveryLimited"),
				Condition("Stalled", metav1.ConditionTrue, "DeliveryLimited"))
			Expect(kstatusOf(stalled)).To(Equal(status.FailedStatus))
			Expect(stalled.Status.Total).To(BeNil())
		}
		messages := w.take("orders.dlq")
		Expect(messages).To(HaveLen(10))
		for _, message := range messages {
			Expect(message.Redelivered).To(BeFalse())
		}
	})

	It("deletes only its ConsumerQueue's dead letters from a shared queue", Extended, func() {
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
		w.Purge("mine", `{consumerQueueRef: {name: orders}, expectedAtMost: 3}`)
		found := w.purged("mine")
		Expect(*found.Deleted).To(BeEquivalentTo(3))
		Expect(found.Skipped).To(Equal(map[string]int64{"OtherOrigin": 3, "NoOrigin": 1}))
		Eventually(func() int { return w.VHost.Ready("shop.dlq") }).Should(Equal(4))

		w.Purge("parked", `{consumerQueueRef: {name: orders}, expectedAtMost: 3, selector: {unknownOrigin: true, reasons: [Parked]}}`)
		parked := w.purged("parked")
		Expect(*parked.Deleted).To(BeEquivalentTo(1))
		Expect(*parked.UnknownOrigin).To(BeEquivalentTo(1))
		Eventually(func() int { return w.VHost.Ready("shop.dlq") }).Should(Equal(3))
	})
})
