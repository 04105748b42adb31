package cluster

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("A cluster", func() {
	It("is Unknown while Warren's node is stopped, and its drift is corrected afterwards", func() {
		w := newWorld(2, 1)
		names := w.Queues("orders", 3, quick)
		leaving := w.Queues("leaving", 1, patient)[0]
		w.AllReady(4)
		first, third := w.flow(1, names[:2]...), w.flow(3, names[1:]...)

		nodes.Stop(2)
		for _, name := range append(names, leaving) {
			w.Eventually(name, Unreachable()...)
		}
		w.VHost.DeleteQueue(names[0] + ".dlq")
		late := w.Queues("late", 1, quick)
		expectGoesOn(first)
		expectGoesOn(third)
		gone := w.whole(leaving)
		w.Delete(leaving)
		w.Eventually(late[0], Condition("Reconciling", metav1.ConditionTrue, "BrokerUnreachable"))
		w.EventuallyDeleting(leaving)

		nodes.Start(2)
		w.AllReady(4)
		w.ExpectExactly(gone()...)
		noneLost(w.VHost, first, third)
	})

	It("is Unknown without a majority of its nodes: no object is Missing or deleted, and all are Ready when the nodes are back", func() {
		w := newWorld(1, 1)
		names := w.Queues("orders", 3, quick)
		leaving := w.Queues("leaving", 1, patient)[0]
		w.AllReady(4)
		w.ExpectExactly()
		before := Observed(w.VHost)
		flow := w.flow(1, names...)
		expectGoesOn(flow)

		nodes.Kill(2)
		nodes.Kill(3)
		Eventually(w.Connection).Should(SatisfyAll(
			Condition("Ready", metav1.ConditionFalse, "BrokerUnreachable"),
			Message(ContainSubstring("2 of 3 nodes of the cluster are down")),
		))
		for _, name := range append(names, leaving) {
			w.Eventually(name, Unreachable()...)
		}
		late := w.Queues("late", 1, quick)
		gone := w.whole(leaving)
		w.Delete(leaving)
		w.Eventually(late[0], Condition("Reconciling", metav1.ConditionTrue, "BrokerUnreachable"))
		w.EventuallyDeleting(leaving)
		Consistently(func() []v1alpha1.TopologyEntry {
			var entries []v1alpha1.TopologyEntry
			for _, cq := range w.All() {
				entries = append(entries, cq.Status.Topology...)
			}
			return entries
		}).WithTimeout(4 * time.Second).Should(HaveEach(HaveField("State", v1alpha1.StateUnknown)))
		Expect(Observed(w.VHost)).To(Equal(before))

		nodes.StartAll()
		w.AllReady(4)
		w.ExpectExactly(gone()...)
		noneLost(w.VHost, flow)
	})
})

// whole returns a function to call after the deletion of a ConsumerQueue. The function returns the ConsumerQueue if its topology was
// retained, because Warren could not prove in time that it was empty.
func (w *world) whole(name string) func() []v1alpha1.ConsumerQueue {
	GinkgoHelper()
	cq := *w.Get(name)
	return func() []v1alpha1.ConsumerQueue {
		GinkgoHelper()
		if Observed(w.VHost).HasQueue(cq.QueueName()) {
			return []v1alpha1.ConsumerQueue{cq}
		}
		return nil
	}
}
