package cluster

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/warren-mq/warren/api/v1alpha1"
)

var _ = Describe("Message counts", func() {
	// The broker's listing omits a queue whose leader is down. The queue is not empty.
	It("keep their last values while a queue is unavailable, and continue when it is back", func() {
		w := newWorld(1, 1)
		w.VHost.Through(nodes.Node(3)).DeclareQueue("orders.dlq", map[string]any{
			"x-queue-type": "quorum", "x-quorum-initial-group-size": 1, "x-delivery-limit": -1,
		})
		w.Queue("orders", `{retry: {policy: None}, deadLetter: {queue: {initialGroupSize: 1}}}`)
		w.Queue("invoices", `{retry: {policy: None}}`)
		w.Counted("orders")
		w.Counted("invoices")
		w.VHost.Publish("", "orders.dlq", "a message")
		w.Eventually("orders", dead(1))

		nodes.Kill(3)
		By("counting other queues: their numbers show that a count was made after the kill")
		w.VHost.Publish("", "invoices.dlq", make([]string, 1)...)
		w.Eventually("invoices", dead(1))
		w.VHost.Publish("", "invoices.dlq", make([]string, 9)...)
		w.Eventually("invoices", dead(10))
		Consistently(func() *v1alpha1.ConsumerQueue { return w.Get("orders") }).Should(dead(1))

		nodes.Start(3)
		w.Eventually("orders", dead(1))
		w.VHost.Purge("orders.dlq")
		w.Eventually("orders", dead(0))
	})
})

var _ = Describe("Dead letters", func() {
	It("are stuck while the dead-letter queue has no quorum", func() {
		w := newWorld(1, 1)
		w.VHost.Through(nodes.Node(3)).DeclareQueue("orders.dlq", map[string]any{
			"x-queue-type": "quorum", "x-quorum-initial-group-size": 1, "x-delivery-limit": -1,
		})
		w.Queue("orders", `{queue: {messageTTL: 1s}, retry: {policy: None}, deadLetter: {queue: {initialGroupSize: 1}}}`)
		w.Counted("orders")

		nodes.Kill(3)
		w.VHost.Publish("", "orders", "expires", "expires, too")
		w.Eventually("orders", HaveField("Status.Messages.Stuck", HaveValue(BeEquivalentTo(2))))

		nodes.Start(3)
		w.Eventually("orders", dead(2), HaveField("Status.Messages.Stuck", BeNil()))
	})
})

// dead matches a ConsumerQueue by the number of dead letters in its status.
func dead(count int) types.GomegaMatcher {
	return HaveField("Status.Messages.DeadLettered", HaveValue(BeEquivalentTo(count)))
}
