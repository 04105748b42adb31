package faults

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

// maxStopping is two thirds of the time that a kubelet allows. One broker after the other took 25 s, all at the same time take 6 s.
const maxStopping = 20 * time.Second

var _ = Describe("A manager that is stopped while ConsumerQueues are deleted at twenty brokers, ten of which hang", Extended, Long, func() {
	It("exits in time and leaves no fence at the responding brokers", func() {
		const count, queues = 10, 6
		answering, hanging := make([]*world, count), make([]*world, count)
		for i := range count {
			answering[i], hanging[i] = newWorld(shared), newWorld(shared)
		}
		m := startManager(slices.Concat(answering, hanging)...)
		for _, w := range slices.Concat(answering, hanging) {
			w.Queues("orders", queues, patient)
		}
		for _, w := range slices.Concat(answering, hanging) {
			w.AllReady(queues)
		}
		for _, w := range hanging {
			w.deleteUntilFence()
			w.amqp.Hold()
			w.management.Hold()
			DeferCleanup(w.amqp.Release)
			DeferCleanup(w.management.Release)
		}
		for _, w := range answering[1:] {
			w.deleteQueues()
		}
		answering[0].deleteUntilFence()
		began := time.Now()
		m.Stop()
		Expect(time.Since(began)).To(BeNumerically("<", maxStopping))
		for _, w := range answering {
			Expect(w.VHost.Policies()).To(BeEmpty())
		}
	})
})

func (w *world) deleteQueues() {
	GinkgoHelper()
	Expect(kube.DeleteAllOf(ctx(), &v1alpha1.ConsumerQueue{}, client.InNamespace(w.Namespace))).To(Succeed())
}

// deleteUntilFence deletes all ConsumerQueues and returns when a fence exists.
func (w *world) deleteUntilFence() {
	GinkgoHelper()
	w.deleteQueues()
	Eventually(w.VHost.Policies).WithTimeout(deadline.For(time.Minute)).WithPolling(5 * time.Millisecond).ShouldNot(BeEmpty())
}
