package cluster

import (
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/traffic"
)

var _ = Describe("Killing a node", func() {
	It("while a hundred ConsumerQueues are created, and another one while they are deleted, loses no message and leaves no object", func() {
		w := newWorld(1, 1)
		steady := w.Queues("steady", 3, quick)
		w.AllReady(3)
		near, far := w.flow(1, steady[0], steady[1]), w.flow(2, steady[1], steady[2])

		By("killing node 2 during the creation")
		names := w.Queues("orders", 100, patient)
		Eventually(w.readyCount).WithPolling(100 * time.Millisecond).Should(BeNumerically(">", 20))
		nodes.Kill(2)
		w.AllReady(103)
		w.ExpectExactly()
		expectGoesOn(near)
		nodes.Start(2)
		expectGoesOn(far)

		By("killing node 3 during the deletion, while messages are published to one queue")
		w.Delete(names...)
		near.Publishers = append(near.Publishers, traffic.Publish(GinkgoTB(), w.VHost, traffic.Publishing{
			Targets: []traffic.Target{traffic.ToQueue(names[0])}, Every: 50 * time.Millisecond,
		}))
		Eventually(func() int { return len(w.All()) }).WithPolling(100 * time.Millisecond).Should(BeNumerically("<", 100))
		nodes.Kill(3)
		Eventually(w.All).WithTimeout(deadline.For(3 * time.Minute)).WithPolling(time.Second).Should(HaveLen(3))
		nodes.Start(3)
		w.expectExactlyButRetained()
		noneLost(w.VHost, near, far)
	})
})

// retainedNames returns the deleted ConsumerQueues with a Retained Event. Their queues had a message, or Warren could not prove on a
// busy machine within a minute that they had none.
func (w *world) retainedNames() []string {
	GinkgoHelper()
	var names []string
	for _, event := range w.EventsSoFar() {
		if event.Reason == "Retained" {
			names = append(names, event.Regarding.Name)
		}
	}
	return names
}

// expectExactlyButRetained waits until the vhost contains the topologies of the ConsumerQueues and the retained objects,
// and nothing else.
func (w *world) expectExactlyButRetained() {
	GinkgoHelper()
	var retained []string
	Eventually(func() []string {
		retained = w.retainedNames()
		return slices.DeleteFunc(w.Differences(), func(difference string) bool {
			return strings.HasSuffix(difference, "is unexpected") &&
				slices.ContainsFunc(retained, func(name string) bool { return strings.Contains(difference, name) })
		})
	}).WithPolling(time.Second).Should(BeEmpty())
	AddReportEntry("left at the broker, and said so", len(retained))
	Eventually(w.VHost.Policies).WithTimeout(deadline.For(2*time.Minute)).Should(BeEmpty(), "no fence is left")
}
