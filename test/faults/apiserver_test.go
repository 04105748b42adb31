package faults

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("An API server that is stopped and started again", func() {
	It("makes the manager wait. Afterwards the manager corrects the drift of the outage, and writes and declares nothing else", Extended, func() {
		useOwnAPIServer()
		server := kube.Environment.ControlPlane.GetAPIServer()
		w := newWorld(shared)
		running := startManager(w)
		names := w.Queues("orders", 5, ordinary)
		w.settled(5)
		flow := w.flow(names[:2]...)
		before := w.versions()
		holds := w.VHost.Definitions()

		stopped := true
		DeferCleanup(func() {
			if stopped { // a second start would leave the first process running after the suite
				Expect(server.Start()).To(Succeed())
			}
		})
		Expect(server.Stop()).To(Or(Succeed(), MatchError(ContainSubstring("to stop"))), "it is killed if it takes its time")
		w.VHost.DeleteQueue(names[4] + ".dlq")
		Consistently(running.HasEnded).WithTimeout(3 * time.Second).Should(BeFalse())
		Expect(server.Start()).To(Succeed())
		stopped = false

		Eventually(w.VHost.Definitions).Should(Equal(holds))
		w.AllReady(5)
		w.Queue("later", ordinary)
		w.settled(6)
		after := w.versions()
		for _, name := range names[:4] {
			Expect(after[name]).To(Equal(before[name]), name)
		}
		w.ExpectExactly()
		flow.noneLost()
	})
})

// versions returns the resource versions of all ConsumerQueues.
func (w *world) versions() map[string]string {
	GinkgoHelper()
	versions := map[string]string{}
	for _, cq := range w.All() {
		versions[cq.Name] = cq.ResourceVersion
	}
	return versions
}
