package faults

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
)

var _ = Describe("A connection that suddenly leads to another cluster", func() {
	DescribeTable("makes the topology there, and removes nothing there or here for what is remembered of the first", func(sameName bool) {
		w := newWorld(shared)
		private := brokers.NewPrivate(GinkgoTB())
		there := w.vhost.At(private.Broker)
		if sameName {
			private.NameCluster(clusterName(shared))
		} else {
			Expect(clusterName(there.Broker)).NotTo(Equal(clusterName(shared)))
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
		Entry("of another name", false),
		Entry("of the same name, as of blue and green", true),
	)
})

var _ = Describe("Two clusters of one name, each with a BrokerConnection in a namespace of its own", func() {
	It("have nothing to do with each other: equal queues in equal vhosts are no Conflict, and go each for themselves", func() {
		w := newWorld(shared)
		private := brokers.NewPrivate(GinkgoTB())
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
})

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
