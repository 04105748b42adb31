package cluster

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/traffic"
)

var _ = Describe("A node that is killed", Serial, func() {
	It("while a hundred ConsumerQueues come, and another while they go, leaves nothing undone and loses nothing", func() {
		w := newWorld(1, 1)
		steady := w.queues("steady", 3, quick)
		w.allReady(3)
		near, far := w.flow(1, steady[0], steady[1]), w.flow(2, steady[1], steady[2])

		By("killing node 2 while they come")
		names := w.queues("orders", 100, patient)
		Eventually(w.readyCount).WithPolling(20 * time.Millisecond).Should(BeNumerically(">", 20))
		nodes.Kill(2)
		w.allReady(103)
		w.expectExactly()
		near.goesOn()
		nodes.Start(2)
		far.goesOn()

		By("killing node 3 while they go, with somebody who publishes to one of them")
		contested := *w.get(names[0])
		w.remove(names...)
		near.publishers = append(near.publishers, traffic.Publish(GinkgoTB(), w.vhost, traffic.Publishing{
			Targets: []traffic.Target{traffic.ToQueue(names[0])}, Every: 20 * time.Millisecond,
		}))
		Eventually(func() int { return len(w.all()) }).WithPolling(20 * time.Millisecond).Should(BeNumerically("<", 100))
		nodes.Kill(3)
		Eventually(w.all).WithTimeout(deadline.For(3 * time.Minute)).Should(HaveLen(3))
		nodes.Start(3)
		var kept []v1alpha1.ConsumerQueue
		if w.hasQueue(contested.Name) {
			kept = append(kept, contested) // all of it, for a message was there first
		}
		w.expectExactly(kept...)
		noneLost(w.vhost, near, far)
	})
})
