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

// The manager has 30 seconds to end: its exit status says that it took longer, and a kubelet would kill it.
var _ = Describe("A manager that is stopped while ConsumerQueues are deleted at ten brokers, beside ten brokers that hang", Extended, Long, func() {
	It("ends in time, and leaves no fence at the brokers that answer", func() {
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
			w.amqp.Hold()
			w.management.Hold()
			DeferCleanup(w.amqp.Release)
			DeferCleanup(w.management.Release)
		}

		for _, w := range answering {
			Expect(kube.DeleteAllOf(ctx(), &v1alpha1.ConsumerQueue{}, client.InNamespace(w.Namespace))).To(Succeed())
		}
		hasFence := func(w *world) bool { return len(w.VHost.Policies()) > 0 }
		Eventually(func() bool { return slices.ContainsFunc(answering, hasFence) }).WithTimeout(deadline.For(time.Minute)).
			WithPolling(10 * time.Millisecond).Should(BeTrue())
		m.Stop()
		for _, w := range answering {
			Expect(w.VHost.Policies()).To(BeEmpty())
		}
	})
})
