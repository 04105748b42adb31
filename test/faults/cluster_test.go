package faults

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
)

// The specs share a private broker, for one takes ten seconds to start; its cluster has the name that each spec wants.
var _ = Describe("Of two clusters", Ordered, func() {
	var private *brokers.Private
	BeforeAll(func() { private = brokers.NewPrivate(GinkgoTB()) })

	DescribeTable("the one that a connection suddenly leads to gets the topology, and nothing is removed there or here", func(sameName bool) {
		w := newWorld(shared)
		there := w.vhost.At(private.Broker)
		if sameName {
			private.NameCluster(clusterName(shared))
		} else {
			private.NameCluster("another")
		}
		startManager(w)
		for name, policy := range map[string]string{"orders": "DeleteIfEmpty", "doomed": "Delete", "gone": "DeleteIfEmpty"} {
			w.queue(name, `{deletionPolicy: `+policy+`, retry: {delayTiers: [{delay: 1s}, {delay: 5s}]}}`)
		}
		w.settled(3)
		flow := w.flow("orders")
		here, first := w.vhost.Definitions(), w.connection().Status.ClusterID

		By("somebody has queues of the same names there")
		for _, name := range []string{"orders.retry.5s", "doomed", "doomed.retry.5s", "gone"} {
			there.DeclareQueue(name, map[string]any{"x-queue-type": "quorum"})
		}
		there.Publish("", "doomed", "not yours")
		theirs := there.Definitions()

		By("the way leads there while one tier leaves a spec and two resources are deleted")
		w.amqp.refuse()
		w.management.refuse()
		w.dropLastTier("orders")
		for _, name := range []string{"doomed", "gone"} {
			Expect(kube.Delete(ctx(), w.get(name))).To(Succeed())
		}
		w.amqp.leadTo(there.Broker.AMQPURI)
		w.management.leadTo(there.Broker.ManagementURI)
		w.amqp.accept()
		w.management.accept()

		Eventually(w.connection).Should(SatisfyAll(HaveField("Status.ClusterName", clusterName(there.Broker)),
			HaveField("Status.ClusterID", SatisfyAll(Not(BeEmpty()), Not(Equal(first))))))
		w.eventually("orders", condition("Ready", metav1.ConditionTrue, "InSync"))
		for _, name := range []string{"doomed", "gone"} {
			Eventually(func() bool { return apierrors.IsNotFound(w.find(name)) }).Should(BeTrue(), "%s is not kept for ever", name)
		}
		wanted := desired(there.Broker, []v1alpha1.ConsumerQueue{*w.get("orders")})
		for _, queue := range theirs.Queues {
			wanted.queue(queue.Name, queue.Arguments)
		}
		expectState(there, wanted)
		Consistently(func() []string { return wanted.differences(observed(there)) }).WithTimeout(3 * time.Second).Should(BeEmpty())
		Expect(there.Ready("doomed")).To(Equal(1))
		Expect(w.vhost.Definitions()).To(Equal(here))
		flow.noneLost()
	},
		Entry("where their names differ", false),
		Entry("where both have one name, as blue and green may", true),
	)

	It("of one name, with a BrokerConnection each, equal queues in equal vhosts are no Conflict, and go each for themselves", func() {
		w := newWorld(shared)
		private.NameCluster(clusterName(shared))
		other := newWorldAt(w.vhost.At(private.Broker))
		startManager(w, other)
		for _, each := range []*world{w, other} {
			each.queue("orders", ordinary)
			each.queue("doomed", `{deletionPolicy: Delete, retry: {delayTiers: [{delay: 1s}]}}`)
		}
		for _, each := range []*world{w, other} {
			each.settled(2)
			each.expectExactly()
		}
		Expect(w.connection().Status.ClusterID).NotTo(Equal(other.connection().Status.ClusterID))
		Expect(w.connection().Status.ClusterName).To(Equal(other.connection().Status.ClusterName))
		flow, there := w.flow("orders", "doomed"), other.vhost.Definitions()

		Expect(kube.Delete(ctx(), other.get("orders"))).To(Succeed())
		Eventually(func() bool { return apierrors.IsNotFound(other.find("orders")) }).Should(BeTrue())
		other.expectExactly()
		w.expectExactly()
		Expect(other.vhost.Definitions()).NotTo(Equal(there), "its own topology is gone")
		flow.noneLost()
	})

	It("of which AMQP leads to one and management to the other, neither is changed: ClusterMismatch, until both lead to one", func() {
		w := newWorld(shared)
		private.NameCluster(clusterName(shared))
		there := w.vhost.At(private.Broker)
		w.management.leadTo(there.Broker.ManagementURI)
		startManager(w)

		By("from the beginning")
		w.queue("orders", ordinary)
		w.mismatched()
		w.eventually("orders", condition("Ready", metav1.ConditionFalse, "ConnectionNotReady"))
		Expect(w.vhost.Definitions()).To(Equal(there.Definitions()), "neither holds anything")

		w.management.leadTo(shared.ManagementURI)
		w.settled(1)
		w.queue("doomed", `{deletionPolicy: Delete}`)
		w.settled(2)
		w.expectExactly()

		By("after a change of one of the two, while a ConsumerQueue is deleted")
		flow, here := w.flow("orders"), w.vhost.Definitions()
		w.management.leadTo(there.Broker.ManagementURI)
		w.amqp.cut()
		w.mismatched()
		Expect(kube.Delete(ctx(), w.get("doomed"))).To(Succeed())
		events := w.events()
		Consistently(w.vhost.Definitions).WithTimeout(5 * time.Second).Should(Equal(here))
		Expect(there.Definitions().Queues).To(BeEmpty())
		Expect(w.events()).To(BeNumerically("<=", events+2), "Events are no heartbeat")

		w.management.leadTo(shared.ManagementURI)
		Eventually(w.all).Should(HaveLen(1))
		w.allReady()
		w.expectExactly()
		flow.noneLost()
	})
})

// mismatched waits until the BrokerConnection says which brokers its addresses lead to.
func (w *world) mismatched() {
	GinkgoHelper()
	Eventually(w.connection).Should(SatisfyAll(
		condition("Ready", metav1.ConditionFalse, "ClusterMismatch"), condition("Stalled", metav1.ConditionTrue, "ClusterMismatch"),
		message(SatisfyAll(ContainSubstring("AMQP at "+w.amqp.address), ContainSubstring("the management API at "+w.management.address)))))
}

// events counts the Events of the namespace, each repetition too.
func (w *world) events() int {
	GinkgoHelper()
	list, count := &eventsv1.EventList{}, 0
	Expect(kube.List(ctx(), list, client.InNamespace(w.namespace))).To(Succeed())
	for _, event := range list.Items {
		count++
		if event.Series != nil {
			count += int(event.Series.Count) - 1
		}
	}
	return count
}

// find looks for a ConsumerQueue.
func (w *world) find(name string) error {
	return kube.Get(ctx(), client.ObjectKey{Namespace: w.namespace, Name: name}, &v1alpha1.ConsumerQueue{})
}

// dropLastTier takes the last delay tier out of a spec.
func (w *world) dropLastTier(name string) {
	GinkgoHelper()
	cq := w.get(name)
	patch := client.MergeFrom(cq.DeepCopy())
	cq.Spec.Retry.DelayTiers = cq.Spec.Retry.DelayTiers[:len(cq.Spec.Retry.DelayTiers)-1]
	Expect(kube.Patch(ctx(), cq, patch)).To(Succeed())
}

func clusterName(broker brokers.Broker) string {
	GinkgoHelper()
	return broker.ClusterName(GinkgoTB())
}
