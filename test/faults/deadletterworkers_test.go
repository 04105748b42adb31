package faults

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("A broker whose supervisor of dead-letter workers has terminated", Extended, func() {
	It("is reported only by a ConsumerQueue that needs a new queue", func() {
		private := brokers.NewPrivate(GinkgoTB())
		w := newStraightWorld(private.Broker)
		startManager(w)
		w.Queue("before", ordinary)
		w.settled(1)
		private.Eval("supervisor:terminate_child(rabbit_sup, rabbit_fifo_dlx_sup).")

		w.Queue("orders", ordinary)
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "QueueNotStarted"), Condition("Reconciling", metav1.ConditionTrue, "QueueNotStarted"))
		Expect(cq.Status.Conditions).To(ContainElement(SatisfyAll(HaveField("Type", "Ready"),
			HaveField("Message", SatisfyAll(ContainSubstring(`declare queue "orders`), ContainSubstring("restart that node"))))))
		w.Ready("before")

		private.Stop()
		private.Start()
		w.AllReady(2)
	})
})

// Otherwise a test could end the dead-letter workers of all other tests.
var _ = It("A test broker keeps its supervisor of dead-letter workers when the queue of a worker does not exist", Extended, func() {
	private := brokers.NewPrivate(GinkgoTB())
	findSupervisor := func() string { return private.Eval("pid_to_list(whereis(rabbit_fifo_dlx_sup)).") }
	supervisor := findSupervisor()
	private.Eval(`supervisor:start_child(rabbit_fifo_dlx_sup, [{resource, <<"/">>, queue, <<"gone">>}]).`)
	Consistently(findSupervisor).WithTimeout(3 * time.Second).Should(Equal(supervisor))
})
