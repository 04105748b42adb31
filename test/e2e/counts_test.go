package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

// dead returns the column DEAD of kubectl get.
func (w *world) dead(name string) string {
	GinkgoHelper()
	lines := strings.Split(kube.Kubectl("get", "-n", w.Namespace, "consumerqueue", name), "\n")
	from := strings.Index(lines[0], "DEAD")
	Expect(from).To(BeNumerically(">", 0), lines[0])
	return strings.TrimSpace(lines[1][from : from+len("DEAD")])
}

// holding matches a ConsumerQueue by its message counts.
func holding(main, delayed, deadLettered int) types.GomegaMatcher {
	return HaveField("Status.Messages", And(
		HaveField("Main", HaveValue(BeEquivalentTo(main))), HaveField("Delayed", HaveValue(BeEquivalentTo(delayed))),
		HaveField("DeadLettered", HaveValue(BeEquivalentTo(deadLettered))), HaveField("AsOf.Time", Not(BeZero()))))
}

// publish publishes count messages to a queue.
func (w *world) publish(queue string, count int) {
	GinkgoHelper()
	bodies := make([]string, count)
	for i := range bodies {
		bodies[i] = "a message"
	}
	w.VHost.Publish("", queue, bodies...)
}

// One listing per vhost counts the messages, here each second. A status is written only when a number changes its order of
// magnitude, or changes to or from zero. So these tests only expect numbers that are the first of their order, because a count may be made
// while messages are being published.
var _ = Describe("Message counts", func() {
	It("appear in kubectl get and in the status, which is written when they change significantly", Extended, func() {
		w := newWorld(newest)
		w.Queue("orders", `{retry: {delayTiers: [{delay: 1h}, {delay: 2h}]}}`)
		first := w.Eventually("orders", Condition("Ready", metav1.ConditionTrue, "InSync"), holding(0, 0, 0))
		Expect(w.dead("orders")).To(Equal("0"))

		w.publish("orders.dlq", 1)
		Eventually(func() string { return w.dead("orders") }).Should(Equal("1"))
		version := func() string { return w.Get("orders").ResourceVersion }
		before := version()
		w.publish("orders.dlq", 3)
		Consistently(version).Should(Equal(before), "1 and 4 are of one order of magnitude")
		w.publish("orders.dlq", 6)
		Eventually(func() string { return w.dead("orders") }).Should(Equal("10"))

		By("adding up the delay tiers")
		w.publish("orders", 10)
		w.publish("orders.retry.1h", 4)
		w.publish("orders.retry.2h", 6)
		w.Eventually("orders", holding(10, 10, 10))

		By("becoming zero")
		w.VHost.Purge("orders.dlq")
		w.Eventually("orders", holding(10, 10, 0))
		Expect(w.dead("orders")).To(Equal("0"))

		By("changing nothing else")
		last := w.Get("orders")
		first.Status.Messages = last.Status.Messages
		Expect(last.Status).To(Equal(first.Status))
		Expect(kstatusOf(last)).To(Equal(status.CurrentStatus))
		w.ConsistentlyReasons("orders", Equal([]string{"Declared"}))
	})

	It("cover the whole shared dead-letter queue, also with driftPolicy Report, and stay while suspended", Extended, func() {
		w := newWorld(newest)
		w.Queue("orders", `{retry: {policy: None}, deadLetter: {queue: {name: dead}}}`)
		w.Queue("invoices", `{retry: {policy: None}, deadLetter: {queue: {name: dead}}}`)
		w.Counted("orders")
		w.Counted("invoices")
		w.Queue("reported", `{driftPolicy: Report, retry: {policy: None}, deadLetter: {queue: {name: dead}}}`)
		w.Eventually("reported", Condition("Drifted", metav1.ConditionTrue, "Drifted"))
		w.Queue("invoices", `{suspend: true, retry: {policy: None}, deadLetter: {queue: {name: dead}}}`)
		w.Eventually("invoices", Condition("Suspended", metav1.ConditionTrue, "Suspended"))

		w.publish("dead", 1)
		Eventually(func() []string { return []string{w.dead("orders"), w.dead("reported"), w.dead("invoices")} }).
			Should(Equal([]string{"1", "1", "0"}))
		w.Eventually("reported", HaveField("Status.Messages", And( // these queues do not exist
			HaveField("Main", BeNil()), HaveField("Delayed", BeNil()))))
		Consistently(func() *v1alpha1.ConsumerQueue { return w.Get("invoices") }).Should(
			HaveField("Status.Messages.DeadLettered", HaveValue(BeZero())))
		w.Queue("invoices", `{retry: {policy: None}, deadLetter: {queue: {name: dead}}}`)
		Eventually(func() string { return w.dead("invoices") }).Should(Equal("1"))
	})
})
