package cluster

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

var _ = Describe("A cluster", Serial, func() {
	It("whose node that Warren is connected to is stopped and started, is unknown meanwhile and mended afterwards", func() {
		w := newWorld(2, 1)
		names := w.queues("orders", 3, quick)
		leaving := w.queues("leaving", 1, patient)[0]
		w.allReady(4)
		first, third := w.flow(1, names[:2]...), w.flow(3, names[1:]...)

		nodes.Stop(2)
		for _, name := range append(names, leaving) {
			w.eventually(name, unreachable()...)
		}
		w.vhost.DeleteQueue(names[0] + ".dlq")
		late := w.queues("late", 1, quick)
		first.goesOn()
		third.goesOn()
		gone := w.whole(leaving)
		w.remove(leaving)
		w.eventually(late[0], condition("Reconciling", metav1.ConditionTrue, "BrokerUnreachable"))
		w.eventually(leaving, condition("Ready", metav1.ConditionFalse, "Terminating"))

		nodes.Start(2)
		w.allReady(4)
		w.expectExactly(gone()...)
		noneLost(w.vhost, first, third)
	})

	It("without a majority of its nodes is unknown, nothing of it is missing or deleted, and all is well when they are back", func() {
		w := newWorld(1, 1)
		names := w.queues("orders", 3, quick)
		leaving := w.queues("leaving", 1, patient)[0]
		w.allReady(4)
		w.expectExactly()
		before := w.holds()
		flow := w.flow(1, names...)
		flow.goesOn()

		nodes.Kill(2)
		nodes.Kill(3)
		Eventually(w.connection).Should(SatisfyAll(
			condition("Ready", metav1.ConditionFalse, "BrokerUnreachable"),
			message(ContainSubstring("2 of 3 nodes of the cluster are down")),
		))
		for _, name := range append(names, leaving) {
			w.eventually(name, unreachable()...)
		}
		late := w.queues("late", 1, quick)
		gone := w.whole(leaving)
		w.remove(leaving)
		w.eventually(late[0], condition("Reconciling", metav1.ConditionTrue, "BrokerUnreachable"))
		w.eventually(leaving, condition("Ready", metav1.ConditionFalse, "Terminating"))
		Consistently(func() []v1alpha1.TopologyEntry {
			var entries []v1alpha1.TopologyEntry
			for _, cq := range w.all() {
				entries = append(entries, cq.Status.Topology...)
			}
			return entries
		}).WithTimeout(4 * time.Second).Should(HaveEach(HaveField("State", v1alpha1.StateUnknown)))
		Expect(w.holds()).To(ConsistOf(before))

		nodes.StartAll()
		w.allReady(4)
		w.expectExactly(gone()...)
		noneLost(w.vhost, flow)
	})
})

// whole says, later, what is left of a ConsumerQueue that is deleted now: nothing or, where it could not be shown to be empty
// in time, all of it.
func (w *world) whole(name string) func() []v1alpha1.ConsumerQueue {
	GinkgoHelper()
	cq := *w.get(name)
	return func() []v1alpha1.ConsumerQueue {
		GinkgoHelper()
		if w.hasQueue(cq.QueueName()) {
			return []v1alpha1.ConsumerQueue{cq}
		}
		return nil
	}
}
