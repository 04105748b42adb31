package faults

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

// The specs share a private broker, because starting one takes ten seconds. Each spec sets the name of its cluster.
var _ = Describe("With two clusters", Ordered, Extended, func() {
	var private *brokers.Private
	BeforeAll(func() { private = brokers.NewPrivate(GinkgoTB()) })

	DescribeTable("a connection whose address changes to the other one declares the topology there and deletes nothing in either", func(sameName bool) {
		w := newWorld(shared)
		there := w.VHost.At(private.Broker)
		if sameName {
			private.NameCluster(clusterName(shared))
		} else {
			private.NameCluster("another")
		}
		startManager(w)
		for name, policy := range map[string]string{"orders": "DeleteIfEmpty", "doomed": "Delete", "gone": "DeleteIfEmpty"} {
			w.Queue(name, `{deletionPolicy: `+policy+`, retry: {delayTiers: [{delay: 1s}, {delay: 5s}]}}`)
		}
		w.settled(3)
		flow := w.flow("orders")
		here, first := w.VHost.Definitions(), w.identified().Location.ClusterID

		By("declaring foreign queues with the same names there")
		for _, name := range []string{"orders.retry.5s", "doomed", "doomed.retry.5s", "gone"} {
			there.DeclareQueue(name, map[string]any{"x-queue-type": "quorum"})
		}
		there.Publish("", "doomed", "not yours")
		theirs := there.Definitions()

		By("changing the address while one tier leaves a spec and two resources are deleted")
		w.amqp.Refuse()
		w.management.Refuse()
		w.dropLastTier("orders")
		w.Delete("doomed", "gone")
		w.amqp.LeadTo(there.Broker.AMQPURI)
		w.management.LeadTo(there.Broker.ManagementURI)
		w.amqp.Accept()
		w.management.Accept()

		Eventually(w.Connection).Should(SatisfyAll(HaveField("Status.Location.ClusterName", clusterName(there.Broker)),
			HaveField("Status.Location.ClusterID", SatisfyAll(Not(BeEmpty()), Not(Equal(first))))))
		w.Eventually("orders", Condition("Ready", metav1.ConditionTrue, "InSync"))
		for _, name := range []string{"doomed", "gone"} {
			Eventually(w.Exists).WithArguments(name).Should(BeFalse(), "%s is not kept for ever", name)
		}
		wanted := Desired(there.Broker, []v1alpha1.ConsumerQueue{*w.Get("orders")})
		for _, queue := range theirs.Queues {
			wanted.AddQueue(queue.Name, queue.Arguments)
		}
		Eventually(func() []string { return wanted.Differences(Observed(there)) }).Should(BeEmpty())
		Consistently(func() []string { return wanted.Differences(Observed(there)) }).WithTimeout(3 * time.Second).Should(BeEmpty())
		Eventually(there.Ready).WithArguments("doomed").Should(Equal(1))
		Expect(w.VHost.Definitions()).To(Equal(here))
		flow.noneLost()
	},
		Entry("with different names", false),
		Entry("with the same name, as blue and green clusters may have", true),
	)

	It("with the same name and a BrokerConnection each, equal queues in equal vhosts do not conflict and are deleted separately", func() {
		w := newWorld(shared)
		private.NameCluster(clusterName(shared))
		other := newWorldAt(w.VHost.At(private.Broker))
		startManager(w, other)
		for _, each := range []*world{w, other} {
			each.Queue("orders", ordinary)
			each.Queue("doomed", `{deletionPolicy: Delete, retry: {delayTiers: [{delay: 1s}]}}`)
		}
		for _, each := range []*world{w, other} {
			each.settled(2)
			each.ExpectExactly()
		}
		one, another := w.identified(), other.identified()
		Expect(one.Location.ClusterID).NotTo(Equal(another.Location.ClusterID))
		Expect(one.Location.ClusterName).To(Equal(another.Location.ClusterName))
		flow, there := w.flow("orders", "doomed"), other.VHost.Definitions()

		other.Delete("orders")
		Eventually(other.Exists).WithArguments("orders").Should(BeFalse())
		other.ExpectExactly()
		w.ExpectExactly()
		Expect(other.VHost.Definitions()).NotTo(Equal(there), "its own topology is gone")
		flow.noneLost()
	})

	It("a connection to one over AMQP and to the other over management has ClusterMismatch and changes neither", func() {
		w := newWorld(shared)
		private.NameCluster(clusterName(shared))
		there := w.VHost.At(private.Broker)
		w.management.LeadTo(there.Broker.ManagementURI)
		startManager(w)

		By("from the beginning")
		w.Queue("orders", ordinary)
		w.mismatched()
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "ConnectionNotReady"))
		Expect(w.VHost.Definitions()).To(Equal(there.Definitions()), "neither holds anything")

		w.management.LeadTo(shared.ManagementURI)
		w.settled(1)
		w.Queue("doomed", `{deletionPolicy: Delete}`)
		w.settled(2)
		w.ExpectExactly()

		By("after a change of one of the two, while a ConsumerQueue is deleted")
		flow, here := w.flow("orders"), w.VHost.Definitions()
		w.management.LeadTo(there.Broker.ManagementURI)
		w.amqp.Cut()
		w.mismatched()
		w.Delete("doomed")
		events := w.settledEvents()
		Consistently(w.VHost.Definitions).WithTimeout(5 * time.Second).Should(Equal(here))
		Expect(there.Definitions().Queues).To(BeEmpty())
		Consistently(w.countEvents).WithTimeout(time.Second).Should(BeNumerically("<=", events+2), "Events are no heartbeat")

		w.management.LeadTo(shared.ManagementURI)
		w.AllReady(1)
		w.ExpectExactly()
		flow.noneLost()
	})
})

// mismatched waits until the BrokerConnection reports the two brokers of its addresses.
func (w *world) mismatched() {
	GinkgoHelper()
	Eventually(w.Connection).Should(SatisfyAll(
		Condition("Ready", metav1.ConditionFalse, "ClusterMismatch"), Condition("Stalled", metav1.ConditionTrue, "ClusterMismatch"),
		Message(SatisfyAll(ContainSubstring("AMQP at "+w.amqp.Address), ContainSubstring("the management API at "+w.management.Address)))))
}

// identified waits until the BrokerConnection reports its cluster.
func (w *world) identified() v1alpha1.BrokerConnectionStatus {
	GinkgoHelper()
	return w.EventuallyConnection(HaveField("Status.Location.ClusterID", Not(BeEmpty()))).Status
}

// settledEvents returns the number of Events in the namespace when none was added for a second.
func (w *world) settledEvents() int {
	GinkgoHelper()
	count := -1
	Eventually(func() bool {
		last := count
		count = w.countEvents()
		return count == last
	}).WithPolling(time.Second).Should(BeTrue(), "Events are no heartbeat")
	return count
}

// countEvents returns the number of Events in the namespace, including repetitions.
func (w *world) countEvents() int {
	GinkgoHelper()
	count := 0
	for _, event := range w.EventsSoFar() {
		count += Times(event)
	}
	return count
}

// dropLastTier removes the last delay tier from a spec.
func (w *world) dropLastTier(name string) {
	GinkgoHelper()
	cq := w.Get(name)
	patch := client.MergeFrom(cq.DeepCopy())
	cq.Spec.Retry.DelayTiers = cq.Spec.Retry.DelayTiers[:len(cq.Spec.Retry.DelayTiers)-1]
	Expect(kube.Patch(ctx(), cq, patch)).To(Succeed())
}

func clusterName(broker brokers.Broker) string {
	GinkgoHelper()
	return broker.ClusterName(GinkgoTB())
}
