package faults

import (
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("A broker that accepts connections and never answers", Extended, Long, func() {
	It("does not delay ConsumerQueues of another broker, with any number of addresses", func() {
		const edited = 20
		healthy, mute, falling := newWorld(shared), newWorld(shared), newTenant(shared)
		for _, p := range []*netfault.Proxy{mute.amqp, mute.management} { // one broker is silent from the beginning
			p.Hold()
		}
		startManager(healthy, mute, falling.world)
		falling.Queue("steady", ordinary)
		falling.edit(edited)
		falling.AllReady(1 + 2*edited)
		flow := falling.flow("steady")
		alone := healthy.best("alone", median)

		mute.Queues("orders", 20, ordinary)
		falling.hold() // one with two addresses becomes silent
		falling.edit(edited)
		Eventually(falling.second.amqp.Held).ShouldNot(BeZero(), "an operation waits for its answer")
		beside := healthy.best("beside", median)
		AddReportEntry("time to Ready", fmt.Sprintf("alone %v, beside silent brokers %v", alone, beside))
		Expect(beside).To(BeNumerically("<=", 5*alone), "alone %v, beside %v", alone, beside)

		// A request without a response ends after 30 s, and the condition changes three intervals later.
		Eventually(func() string { return readyReason(falling.Get("steady")) }).WithTimeout(deadline.For(time.Minute)).Should(Equal("BrokerUnreachable"))
		mute.amqp.Release()
		mute.management.Release()
		falling.release()
		for w, count := range map[*world]int{mute: 20, falling.world: 1 + 2*edited} {
			w.AllReady(count)
			w.ExpectExactly()
		}
		flow.noneLost()
	})
})

var _ = Describe("A broker that takes seconds for each response", Extended, Long, func() {
	It("does not delay ConsumerQueues of another broker, and its own become Ready", func() {
		healthy, slow := newWorld(shared), newWorld(shared)
		answers := netfault.NewSlowAMQP(GinkgoTB(), shared.AMQPURI)
		slow.amqp.LeadTo(answers.URI)
		startManager(healthy, slow)
		slow.Queues("orders", 50, ordinary)
		slow.settled(50)
		alone := healthy.best("alone", longest)

		answers.Pause(2 * time.Second)
		slow.Queues("orders", 50, `{retry: {delayTiers: [{delay: 1s}, {delay: 2s}]}}`)
		Eventually(slow.countReady).Should(BeNumerically(">", 0), "the broker is slow and does not fail")
		beside := healthy.best("beside", longest)
		AddReportEntry("time to Ready", fmt.Sprintf("alone %v, beside a slow broker %v", alone, beside))
		Expect(slow.countReady()).To(BeNumerically("<", 50), "the broker is slow all the time")
		Expect(beside).To(BeNumerically("<=", 5*alone), "alone %v, beside %v", alone, beside)

		answers.Pause(0)
		slow.AllReady(50)
		slow.ExpectExactly()
	})
})

// countReady returns how many ConsumerQueues are Ready in their current generation.
func (w *world) countReady() int {
	GinkgoHelper()
	count := 0
	for _, cq := range w.All() {
		if IsReady(&cq) {
			count++
		}
	}
	return count
}

// best returns the best of three rounds of latencies, each reduced by a measure, because other tests on the machine disturb one
// or two rounds.
func (w *world) best(prefix string, measure func([]time.Duration) time.Duration) time.Duration {
	GinkgoHelper()
	best := measure(w.latencies(prefix + "-0"))
	for _, round := range []string{"-1", "-2"} {
		best = min(best, measure(w.latencies(prefix+round)))
	}
	return best
}

// latencies returns the times from the creation of 15 ConsumerQueues at the same time until they are Ready, in ascending order.
func (w *world) latencies(prefix string) []time.Duration {
	GinkgoHelper()
	began := time.Now()
	waiting := w.Queues(prefix, 15, ordinary)
	var all []time.Duration
	Eventually(func() []string {
		for _, cq := range w.All() {
			if i := slices.Index(waiting, cq.Name); i >= 0 && meta.IsStatusConditionTrue(cq.Status.Conditions, "Ready") {
				waiting = slices.Delete(waiting, i, i+1)
				all = append(all, time.Since(began))
			}
		}
		return waiting
	}).WithTimeout(deadline.For(time.Minute)).WithPolling(20 * time.Millisecond).Should(BeEmpty())
	return all
}

// median returns the median of ascending times.
func median[T any](sorted []T) T { return sorted[len(sorted)/2] }

// longest returns the last of ascending times.
func longest(times []time.Duration) time.Duration { return times[len(times)-1] }

func readyReason(cq *v1alpha1.ConsumerQueue) string {
	if ready := meta.FindStatusCondition(cq.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return ready.Reason
	}
	return ""
}
