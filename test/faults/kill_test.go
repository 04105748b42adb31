package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
	"github.com/warren-mq/warren/test/traffic"
)

// patient has a delay that is longer than a restart. With a shorter one, a sentinel that a killed manager left in the tier could
// expire to the fenced main queue, where it arrives minutes later. Until then the tier cannot be proven empty.
const patient = `{retry: {delayTiers: [{delay: 30s}]}}`

var _ = Describe("A manager that is killed", Extended, Long, func() {
	It("ten times while 150 ConsumerQueues are created and 50 deleted completes all work and loses no message", func() {
		moments := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 0)) // reproducible with the seed of the run
		w := newWorld(shared)
		running := startManager(w)
		steady := w.Queues("steady", 3, ordinary)
		w.settled(3)
		flow := w.flow(steady...)
		contests := &contests{world: w}
		var before []string
		for round := range 10 {
			made := w.Queues(fmt.Sprintf("round-%d", round), 15, patient)
			switch {
			case round >= 7: // a deletion reaches its critical phase after ten seconds
				w.Ready(before[3]) // a retained topology must have been complete
				w.Ready(before[4])
				w.Delete(before[:3]...)
				contests.begin(before[3])
				contests.beginAtFence(before[4])
				w.waitDismantled(before[:3], moments.IntN(3))
			case round > 0:
				w.Delete(before[:6]...)
				w.waitReady(made, moments.IntN(len(made)))
			default:
				w.waitReady(made, moments.IntN(len(made)))
			}
			running.Kill()
			running = startManager(w)
			before = made
		}
		const left = 3 + 10*15 - 6*6 - 3*5
		Eventually(func() int { return len(w.All()) }).WithTimeout(deadline.For(90 * time.Second)).WithPolling(time.Second).Should(Equal(left))
		w.settled(left)

		w.ExpectExactly(contests.kept()...)
		Expect(flow.noneLost(contests.publishers...).SentinelsLeft).To(BeZero())
	})
})

// contests are deletions of queues while messages are published to them. Each has one of two results: everything is
// deleted, or everything is retained because a message arrived first.
type contests struct {
	world      *world
	queues     []v1alpha1.ConsumerQueue
	publishers []*traffic.Publisher
}

// begin deletes a ConsumerQueue and publishes immediately.
func (c *contests) begin(name string) {
	GinkgoHelper()
	c.queues = append(c.queues, *c.world.Get(name))
	c.world.Delete(name)
	c.publish(name)
}

// beginAtFence publishes when fences exist.
func (c *contests) beginAtFence(name string) {
	GinkgoHelper()
	c.queues = append(c.queues, *c.world.Get(name))
	c.world.Delete(name)
	Eventually(c.world.VHost.Policies).WithPolling(10 * time.Millisecond).ShouldNot(BeEmpty())
	c.publish(name)
}

func (c *contests) publish(queue string) {
	GinkgoHelper()
	c.publishers = append(c.publishers, traffic.Publish(GinkgoTB(), c.world.VHost, traffic.Publishing{
		Targets: []traffic.Target{traffic.ToQueue(queue)}, Every: 50 * time.Millisecond,
	}))
}

// kept returns the ConsumerQueues whose main queue exists. The callers expect exactly their topologies.
func (c *contests) kept() []v1alpha1.ConsumerQueue {
	GinkgoHelper()
	holds := Observed(c.world.VHost)
	var kept []v1alpha1.ConsumerQueue
	for _, cq := range c.queues {
		if holds.HasQueue(cq.Name) {
			kept = append(kept, cq)
		}
	}
	return kept
}

// waitReady waits until a number of ConsumerQueues are Ready, while others are still being reconciled.
func (w *world) waitReady(names []string, count int) {
	GinkgoHelper()
	Eventually(func() int {
		ready := 0
		for _, cq := range w.All() {
			if slices.Contains(names, cq.Name) && meta.IsStatusConditionTrue(cq.Status.Conditions, "Ready") {
				ready++
			}
		}
		return ready
	}).WithPolling(100 * time.Millisecond).Should(BeNumerically(">=", count))
}

// waitDismantled waits until more than a number of main queues are deleted.
func (w *world) waitDismantled(names []string, count int) {
	GinkgoHelper()
	Eventually(func() int {
		holds := Observed(w.VHost)
		gone := 0
		for _, name := range names {
			if !holds.HasQueue(name) {
				gone++
			}
		}
		return gone
	}).WithPolling(100 * time.Millisecond).Should(BeNumerically(">", count))
}
