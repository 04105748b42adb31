package faults

import (
	"fmt"
	"math/rand/v2"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
)

var _ = Describe("A manager that is killed", func() {
	It("at ten moments while 200 ConsumerQueues come, leaves nothing undone and loses nothing", func() {
		moments := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 0)) // they can be repeated by the seed of the run
		w := newWorld(shared)
		running := startManager(w)
		steady := w.queues("steady", 3, ordinary)
		w.settled(3)
		flow := w.flow(steady...)
		for round := range 10 {
			made := w.queues(fmt.Sprintf("round-%d", round), 20, ordinary)
			w.wait(made, moments.IntN(len(made)))
			running.kill()
			running = startManager(w)
		}
		w.settled(203)
		w.expectExactly()
		Expect(flow.noneLost().SentinelsLeft).To(BeZero())
	})
})

// wait waits until some of the ConsumerQueues are Ready, no matter which: others are being worked at by then.
func (w *world) wait(names []string, count int) {
	GinkgoHelper()
	Eventually(func() int {
		ready := 0
		for _, name := range names {
			if meta.IsStatusConditionTrue(w.get(name).Status.Conditions, "Ready") {
				ready++
			}
		}
		return ready
	}).WithPolling(5 * time.Millisecond).Should(BeNumerically(">=", count))
}
