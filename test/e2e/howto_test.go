package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

// declareByHand makes what docs/how-to/adopt-what-exists.md begins with, with a message in each queue.
func declareByHand(w *world) {
	GinkgoHelper()
	w.VHost.DeclareExchange("shop", "topic", nil)
	w.VHost.DeclareExchange("orders.dlx", "fanout", nil)
	w.VHost.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum", "x-dead-letter-exchange": "orders.dlx"})
	w.VHost.DeclareQueue("orders.dlq", map[string]any{"x-queue-type": "quorum"})
	w.VHost.Bind("shop", "orders", "order.placed", nil)
	w.VHost.Bind("orders.dlx", "orders.dlq", "", nil)
	w.VHost.Publish("shop", "order.placed", "waits")
	w.VHost.Publish("orders.dlx", "", "dead")
}

var _ = Describe("The how-to", func() {
	It("on adoption takes over queues with their messages, and declares only what is missing", func() {
		w := newWorld(matrix[0])
		declareByHand(w)
		before := w.holds()
		page := w.follow("adopt-what-exists.md", "Step by step")

		By("reporting what differs")
		Expect(page.step()).To(SatisfyAll(
			ContainSubstring("Recreate\torders\tx-dead-letter-strategy is not set, should be at-least-once"),
			ContainSubstring("Recreate\torders\tx-overflow is not set, should be reject-publish"),
			ContainSubstring("Recreate\torders.dlq\tx-delivery-limit is not set, should be -1"),
			ContainSubstring("Declare\torders.retry.30s\tqueue \"orders.retry.30s\" is missing")))
		Expect(w.holds()).To(equalState(before))

		By("reporting what is missing, once the spec says what is there")
		Expect(page.step()).To(SatisfyAll(ContainSubstring("Declare\torders.retry.30s"), Not(ContainSubstring("Recreate"))))
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "Drifted"), HaveField("Status.Changes", HaveLen(1)))
		Expect(w.holds()).To(equalState(before))

		By("declaring what is missing")
		Expect(page.step()).To(SatisfyAll(ContainSubstring("Exchange orders.dlx: Adopted\n"), ContainSubstring("Queue orders: Adopted\n"),
			ContainSubstring("Queue orders.retry.30s: Declared\n"), ContainSubstring("Queue orders.dlq: Adopted\n")))
		page.end()
		after := w.holds()
		Expect(after.Queues).To(HaveLen(len(before.Queues) + 1))
		for _, queue := range before.Queues {
			Expect(after.Queues).To(ContainElement(queue), "with the arguments it had")
		}
		Expect([]int{w.VHost.Ready("orders"), w.VHost.Ready("orders.dlq")}).To(Equal([]int{1, 1}))
		Expect(w.Ready("orders").Status.Topology).To(HaveEach(HaveField("State", v1alpha1.StateInSync)))
	})
})

