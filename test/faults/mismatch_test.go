package faults

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/test/brokers"
)

var _ = Describe("A BrokerConnection whose AMQP and management addresses lead to two brokers", func() {
	It("says ClusterMismatch, changes nothing at either and keeps quiet, until both lead to one", func() {
		w := newWorld(shared)
		private := brokers.NewPrivate(GinkgoTB())
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
