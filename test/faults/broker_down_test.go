package faults

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

var _ = Describe("A broker", func() {
	It("that fails for less than three intervals causes no write at all", func() {
		w := newBareWorld(shared)
		w.secret(shared.Username, shared.Password)
		w.connectEvery("5s", w.vhost.Name) // three are longer than any hitch of a loaded machine
		startManager(w)
		names := w.queues("orders", 3, ordinary)
		w.settled(3)
		counts := w.countWrites()
		w.amqp.refuse()
		w.management.refuse()
		Consistently(counts.of).WithTimeout(5 * time.Second).Should(BeEmpty()) // Warren tries again some seconds later
		w.amqp.accept()
		w.management.accept()
		w.vhost.DeleteQueue(names[0] + ".dlq") // it is looked at again
		w.expectExactly()
		Consistently(counts.of).WithTimeout(6 * time.Second).Should(SatisfyAll(
			Not(HaveKey("ConsumerQueue/"+names[1])), Not(HaveKey("ConsumerQueue/"+names[2])), Not(HaveKey("BrokerConnection/default"))))
	})

	// Warren uses both AMQP and the management API, so the broker needs the plugin rabbitmq_management.
	It("that answers over AMQP only, or by its management API only, is unreachable and says by which way", func() {
		noManagement, noAMQP := newWorld(shared), newWorld(shared)
		startManager(noManagement, noAMQP)
		flows := []*flow{}
		for _, w := range []*world{noManagement, noAMQP} {
			w.queue("orders", ordinary)
			w.settled(1)
			flows = append(flows, w.flow("orders"))
		}
		noManagement.management.refuse()
		noAMQP.amqp.refuse()
		noManagement.eventually("orders", unreachable()...)
		noAMQP.eventually("orders", unreachable()...)
		Expect(noManagement.connection()).To(message(SatisfyAll(ContainSubstring("/api/"), Not(ContainSubstring("AMQP")))))
		Expect(noAMQP.connection()).To(message(SatisfyAll(ContainSubstring("AMQP"), Not(ContainSubstring("/api/")))))
		for _, w := range []*world{noManagement, noAMQP} {
			w.queue("invoices", ordinary)
			w.eventually("invoices", condition("Reconciling", metav1.ConditionTrue, "BrokerUnreachable"))
		}
		noManagement.management.accept()
		noAMQP.amqp.accept()
		for i, w := range []*world{noManagement, noAMQP} {
			w.allReady()
			w.expectExactly()
			flows[i].noneLost()
		}
	})
})

// settled waits until all ConsumerQueues are Ready and the BrokerConnection has counted them: nothing more is written.
func (w *world) settled(count int) {
	GinkgoHelper()
	w.allReady()
	Eventually(w.connection).Should(SatisfyAll(
		condition("Ready", metav1.ConditionTrue, "Connected"), HaveField("Status.ConsumerQueues", HaveValue(BeEquivalentTo(count)))))
	Expect(w.all()).To(HaveLen(count))
}

// unreachable is what a ConsumerQueue says of a broker that has not answered for three intervals.
func unreachable() []matcher {
	return []matcher{
		condition("Ready", metav1.ConditionFalse, "BrokerUnreachable"),
		condition("Reconciling", metav1.ConditionTrue, "BrokerUnreachable"),
		condition("Drifted", metav1.ConditionUnknown, "BrokerUnreachable"),
		condition("RecreationRequired", metav1.ConditionFalse, "InSync"),
		message(ContainSubstring("its status says why")),
		HaveField("Status.Topology", HaveEach(HaveField("State", v1alpha1.StateUnknown))),
	}
}
