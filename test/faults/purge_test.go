package faults

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("A Purge", Label("redrive"), func() {
	It("whose manager is killed deletes at most expectedAtMost messages and reports the minimum", func() {
		r := newRedrive(newWorld(shared))
		even := redriven / 2
		for i := range mishaps {
			name := "killed-" + strconv.Itoa(i)
			r.purge(name, even, even/40+1)
			r.EventuallyPurge(name, HaveField("Status.AtMost", Not(BeNil())), HaveField("Status.Deleted", HaveValue(BeNumerically(">", i-1))))
			r.manager.Kill()
			r.manager = startManager(r.world)
			even = r.expectInterrupted(name, even)
		}
		r.purge("rest", even, 0)
		Eventually(r.GetPurge).WithArguments("rest").Should(Condition("Ready", metav1.ConditionTrue, "Completed"))
		r.expectOdd()
	})

	It("whose manager is restarted continues", Extended, func() {
		r := newRedrive(newWorld(shared))
		r.purge("once", redriven/2, redriven/20+1)
		r.EventuallyPurge("once", HaveField("Status.Deleted", HaveValue(BeNumerically(">", 0))))
		r.manager.Stop()
		stopped := r.GetPurge("once").Status
		Expect(stopped.AtMost).To(BeNil())
		Eventually(func() int { return r.VHost.Ready("orders.dlq") }).Should(BeEquivalentTo(redriven - int(*stopped.Deleted)))
		r.manager = startManager(r.world)
		ended := r.EventuallyPurge("once", Condition("Ready", metav1.ConditionTrue, "Completed"))
		Expect(*ended.Status.Deleted).To(BeEquivalentTo(redriven / 2))
		r.expectOdd()
	})

	It("whose connection is lost deletes at most expectedAtMost messages and reports the minimum", Extended, func() {
		r := newRedrive(newWorld(shared))
		r.purge("cut", redriven/2, redriven/20+1)
		r.EventuallyPurge("cut", HaveField("Status.Deleted", HaveValue(BeNumerically(">", 0))))
		r.amqp.Cut()
		r.expectInterrupted("cut", redriven/2)
	})
})

// purge deletes messages with even numbers at a rate per second; unlimited if zero.
func (r *redrive) purge(name string, limit, rate int) {
	GinkgoHelper()
	perSecond := strconv.Itoa(rate)
	if rate == 0 {
		perSecond = v1alpha1.Unlimited
	}
	r.Purge(name, fmt.Sprintf(
		`{consumerQueueRef: {name: orders}, selector: {expression: "int(body) %% 2 == 0"}, expectedAtMost: %d, rate: %s}`, limit, perSecond))
}

// expectInterrupted waits until a Purge was interrupted and returns how many of the messages with even numbers are left.
func (r *redrive) expectInterrupted(name string, even int) (left int) {
	GinkgoHelper()
	var purge *v1alpha1.Purge
	Eventually(func() *v1alpha1.Purge {
		purge = r.GetPurge(name)
		return purge
	}).WithTimeout(deadline.For(time.Minute)).Should(Condition("Ready", metav1.ConditionFalse, "Interrupted"))
	Expect(*purge.Status.Matched).To(BeEquivalentTo(even))
	odd := redriven - redriven/2
	Eventually(r.VHost.CountedConsumers).WithArguments("orders.dlq").Should(BeZero()) // the messages of the killed manager were returned
	Eventually(func() int {
		left = r.VHost.Ready("orders.dlq") - odd
		return even - left
	}).Should(And(BeNumerically(">=", int(*purge.Status.Deleted)), BeNumerically("<=", int(*purge.Status.AtMost))))
	AddReportEntry("Purge", ReportEntryVisibilityAlways, fmt.Sprintf(
		"%d of %d deleted, at least %d and at most %d by the status", even-left, even, *purge.Status.Deleted, *purge.Status.AtMost))
	return left
}

// expectOdd expects exactly the messages with odd numbers in the dead-letter queue, in any order: a busy broker changes it when a manager
// stops.
func (r *redrive) expectOdd() {
	GinkgoHelper()
	Eventually(func() int { return r.VHost.Ready("orders.dlq") }).Should(Equal(redriven - redriven/2))
	var want []int
	for i := 1; i < redriven; i += 2 {
		want = append(want, i)
	}
	numbers := r.numbersIn("orders.dlq")
	slices.Sort(numbers)
	Expect(cmp.Diff(want, numbers)).To(BeEmpty())
}
