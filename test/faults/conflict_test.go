package faults

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("Somebody else who declares a queue between the look and the declaration", func() {
	It("stalls the ConsumerQueue of that queue, which says so, and breaks nothing else", func() {
		w := newWorld(shared)
		startManager(w)
		w.queue("steady", ordinary)
		w.settled(1)
		flow := w.flow("steady")
		steady := w.get("steady").ResourceVersion

		w.amqp.hold()
		w.queue("orders", ordinary)
		Eventually(w.amqp.holds).Should(BeNumerically(">", 100), "declarations are on their way")
		w.vhost.DeclareQueue("orders.retry.1s", map[string]any{"x-queue-type": "quorum", "x-message-ttl": 5000})
		w.vhost.Publish("", "orders.retry.1s", "somebody's")
		w.amqp.release()

		w.eventually("orders", condition("Ready", metav1.ConditionFalse, "RecreationRequired"),
			condition("Stalled", metav1.ConditionTrue, "RecreationRequired"),
			condition("RecreationRequired", metav1.ConditionTrue, "RecreationRequired"),
			message(SatisfyAll(ContainSubstring(`queue "orders.retry.1s" must be recreated`), ContainSubstring("x-message-ttl"))))
		Expect(w.vhost.Definitions().Queues).To(ContainElement(SatisfyAll(
			HaveField("Name", "orders.retry.1s"), HaveField("Arguments", HaveKeyWithValue("x-message-ttl", 5000.0)))))
		Expect(w.get("steady").ResourceVersion).To(Equal(steady))

		By("becoming Ready by itself when the other queue is gone")
		w.vhost.DeleteQueue("orders.retry.1s")
		w.allReady()
		w.expectExactly()
		flow.noneLost()
	})
})
