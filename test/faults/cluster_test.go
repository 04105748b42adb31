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
	It("makes the topology there, and removes nothing there or here for what is remembered of the first", func() {
		w := newWorld(shared)
		there := w.vhost.At(brokers.NewPrivate(GinkgoTB()).Broker)
		Expect(clusterName(there.Broker)).NotTo(Equal(clusterName(shared)))
		startManager(w)
		for name, policy := range map[string]string{"orders": "DeleteIfEmpty", "doomed": "Delete", "gone": "DeleteIfEmpty"} {
			w.queue(name, `{deletionPolicy: `+policy+`, retry: {delayTiers: [{delay: 1s}, {delay: 5s}]}}`)
		}
		w.settled(3)
		flow := w.flow("orders")
		here := w.vhost.Definitions()

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

		Eventually(w.connection).Should(HaveField("Status.ClusterName", clusterName(there.Broker)))
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
