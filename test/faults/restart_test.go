package faults

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("A broker", func() {
	It("that is restarted changes nothing for three intervals, and then only necessary writes follow", Extended, Long, func() {
		private := brokers.NewPrivate(GinkgoTB())
		w := newStraightWorld(private.Broker)
		startManager(w)
		names := w.Queues("orders", 5, ordinary)
		w.settled(5)
		flow := w.flow(names[:2]...)
		// Killed within a tenth of a second of a queue's declaration, RabbitMQ 4.3 starts the queue as a new and empty one
		// (name_not_registered in its log).
		flow.hasRetried()
		counts := w.countWrites()

		DeferCleanup(private.Start) // if the test fails before
		stopped := time.Now()
		private.Stop()
		for _, name := range names {
			w.Eventually(name, Unreachable()...)
		}
		Eventually(counts.of).Should(haveWritten(names, 1))
		Expect(counts.first()).To(BeTemporally(">", stopped.Add(3*time.Second)))
		Consistently(counts.of).WithTimeout(3 * time.Second).Should(haveWritten(names, 1))

		private.Start()
		w.AllReady(5)
		w.ExpectExactly()
		Eventually(counts.of).Should(haveWritten(names, 2))
		Consistently(counts.of).WithTimeout(3 * time.Second).Should(haveWritten(names, 2))
		flow.noneLost()
	})
})

// haveWritten matches exactly this number of writes to each ConsumerQueue. The reason for being unreachable changes while a broker boots;
// the BrokerConnection says so, and may be written once per retry of a second and a little.
func haveWritten(names []string, count int) matcher {
	counts := []matcher{HaveKeyWithValue("BrokerConnection/default", BeNumerically("<=", 10)), HaveLen(len(names) + 1)}
	for _, name := range names {
		counts = append(counts, HaveKeyWithValue("ConsumerQueue/"+name, count))
	}
	return SatisfyAll(counts...)
}
