package faults

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("A broker", func() {
	It("that fails for less than three intervals causes no write at all", func() {
		w := newBareWorld(shared)
		w.Secret(shared.Username, shared.Password)
		w.Connect(unhurried)
		startManager(w)
		names := w.Queues("orders", 3, ordinary)
		w.settled(3)
		w.EventuallyConnection(HaveField("Status.Capabilities.Events", true))
		counts := w.countWrites()
		w.amqp.Refuse()
		w.management.Refuse()
		Consistently(counts.of).WithTimeout(5 * time.Second).Should(BeEmpty()) // Warren retries after some seconds
		w.amqp.Accept()
		w.management.Accept()
		w.VHost.DeleteQueue(names[0] + ".dlq") // shows that Warren refreshes the vhost again
		w.ExpectExactly()
		Consistently(counts.of).WithTimeout(6 * time.Second).Should(SatisfyAll(
			Not(HaveKey("ConsumerQueue/"+names[1])), Not(HaveKey("ConsumerQueue/"+names[2])), Not(HaveKey("BrokerConnection/default"))))
	})

	// Warren uses both AMQP and the management API, so the broker needs the plugin rabbitmq_management.
	It("with only AMQP or only the management API is Unreachable, and the message names the missing one", Extended, func() {
		noManagement, noAMQP := newWorld(shared), newWorld(shared)
		startManager(noManagement, noAMQP)
		flows := []*flow{}
		for _, w := range []*world{noManagement, noAMQP} {
			w.Queue("orders", ordinary)
			w.settled(1)
			flows = append(flows, w.flow("orders"))
		}
		noManagement.management.Refuse()
		noAMQP.amqp.Refuse()
		noManagement.Eventually("orders", Unreachable()...)
		noAMQP.Eventually("orders", Unreachable()...)
		noManagement.EventuallyConnection(Message(SatisfyAll(ContainSubstring("/api/"), Not(ContainSubstring("AMQP")))))
		noAMQP.EventuallyConnection(Message(SatisfyAll(ContainSubstring("AMQP"), Not(ContainSubstring("/api/")))))
		for _, w := range []*world{noManagement, noAMQP} {
			w.Queue("invoices", ordinary)
			w.Eventually("invoices", Condition("Reconciling", metav1.ConditionTrue, "BrokerUnreachable"))
		}
		noManagement.management.Accept()
		noAMQP.amqp.Accept()
		for i, w := range []*world{noManagement, noAMQP} {
			w.AllReady(2)
			w.ExpectExactly()
			flows[i].noneLost()
		}
	})
})
