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

// patient has a delay that outlasts a restart: with a shorter one, a sentinel that a killed manager left in the tier can
// expire towards the fenced main queue, where it arrives minutes later; and until then the tier is not provably empty.
const patient = `{retry: {delayTiers: [{delay: 30s}]}}`

var _ = Describe("A manager that is killed", Extended, Long, func() {
	It("at ten moments while 150 ConsumerQueues come and 50 go, leaves nothing undone and loses nothing", func() {
		moments := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 0)) // they can be repeated by the seed of the run
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
			case round >= 7: // a deletion takes ten seconds to its decisive moments
				w.Ready(before[3]) // what is kept must have been whole
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

// contests are deletions of queues that somebody publishes to at the same time. Each ends in one of two ways: all is
// gone, or all is kept, for a message was there first.
type contests struct {
	world      *world
	queues     []v1alpha1.ConsumerQueue
	publishers []*traffic.Publisher
}

// begin deletes a ConsumerQueue and publishes at once.
func (c *contests) begin(name string) {
	GinkgoHelper()
	c.queues = append(c.queues, *c.world.Get(name))
	c.world.Delete(name)
	c.publish(name)
}

// beginAtFence publishes once fences stand.
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

// kept are those whose main queue is there. What else they want must be there then, and must not be otherwise.
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

// waitReady waits until some of the ConsumerQueues are Ready, no matter which: others are being worked at by then.
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

// waitDismantled waits until the main queues of more than some of the ConsumerQueues are gone.
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
