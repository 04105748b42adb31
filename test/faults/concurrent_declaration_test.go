package faults

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("A queue that others declare between refresh and declaration", func() {
	It("makes its ConsumerQueue Stalled, and no other", func() {
		w := newWorld(shared)
		w.Connect(unhurried)
		startManager(w)
		w.Queue("steady", ordinary)
		w.settled(1)
		flow := w.flow("steady")
		steady := w.Get("steady").ResourceVersion

		w.amqp.Hold()
		w.Queue("orders", ordinary)
		Eventually(w.amqp.Held).Should(BeNumerically(">", 100), "declarations are on their way")
		w.VHost.DeclareQueue("orders.retry.1s", map[string]any{"x-queue-type": "quorum", "x-message-ttl": 5000})
		w.VHost.Publish("", "orders.retry.1s", "somebody's")
		w.amqp.Release()

		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"),
			Condition("Stalled", metav1.ConditionTrue, "RecreationRequired"),
			Condition("RecreationRequired", metav1.ConditionTrue, "RecreationRequired"),
			Message(SatisfyAll(ContainSubstring(`queue "orders.retry.1s" must be recreated`), ContainSubstring("x-message-ttl"))))
		Expect(w.VHost.Definitions().Queues).To(ContainElement(SatisfyAll(
			HaveField("Name", "orders.retry.1s"), HaveField("Arguments", HaveKeyWithValue("x-message-ttl", 5000.0)))))
		Expect(w.Get("steady").ResourceVersion).To(Equal(steady))

		By("becoming Ready when the other queue is deleted")
		w.VHost.DeleteQueue("orders.retry.1s")
		w.AllReady(2)
		w.ExpectExactly()
		flow.noneLost()
	})
})
