package e2e

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/conformance"
)

var _ = Describe("A queue that exists with other arguments", func() {
	onEachBroker("is reported with both values, and neither it nor its messages are touched", func(broker brokers.Broker) {
		w := newWorld(broker)
		w.vhost.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum", "x-message-ttl": 60000})
		w.vhost.Publish("", "orders", "one", "two")
		before := w.vhost.Definitions()

		w.queue("orders", `
            queue: {messageTTL: 5m, deliveryLimit: BrokerDefault}
            retry: {policy: None}
            deadLetter: {policy: Disabled}`)

		cq := w.eventually("orders",
			condition("Ready", metav1.ConditionFalse, "RecreationRequired"),
			condition("Stalled", metav1.ConditionTrue, "RecreationRequired"),
			condition("Drifted", metav1.ConditionTrue, "Drifted"),
			condition("RecreationRequired", metav1.ConditionTrue, "RecreationRequired"),
			message(Equal(`queue "orders" must be recreated: x-message-ttl is 60000, should be 300000`)))
		Expect(cq.Status.Changes).To(ConsistOf(v1alpha1.Change{
			Kind: "Queue", Name: "orders", Path: "arguments.x-message-ttl", Desired: "300000", Observed: "60000", Effect: "Recreate",
			Message: "x-message-ttl is 60000, should be 300000; a queue's arguments cannot be changed: it must be recreated",
		}))
		Expect(cq.Status.PlanHash).To(HavePrefix("sha256:"))
		Expect(kstatusOf(cq)).To(Equal(status.FailedStatus))
		Eventually(func() []string { return w.events("orders") }).Should(Equal([]string{"RecreationRequired"}))
		Expect(w.vhost.Definitions()).To(Equal(before))
		Expect(w.vhost.Ready("orders")).To(Equal(2))
	})

	onEachBroker("holds back what is new, and lets what was in sync before come back", func(broker brokers.Broker) {
		w := newWorld(broker)
		w.queue("orders", `{retry: {delayTiers: [{delay: 30s}]}}`)
		w.ready("orders")
		w.queue("orders", `{queue: {messageTTL: 5m}, retry: {delayTiers: [{delay: 30s}, {delay: 1h}]}}`)
		w.eventually("orders", condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		before := w.vhost.Definitions()

		w.vhost.DeleteQueue("orders.retry.30s")

		Eventually(w.vhost.Definitions).Should(Equal(before), "the old tier comes back, the new one does not come")
		cq := w.eventually("orders", condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		Expect(cq.Status.Changes).To(ContainElement(SatisfyAll(
			HaveField("Name", "orders.retry.1h"), HaveField("Effect", v1alpha1.EffectDeclare))))
	})

	onEachBroker("is no longer stalled once it was recreated by hand", func(broker brokers.Broker) {
		w := newWorld(broker)
		w.vhost.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		w.queue("orders", `{}`)
		w.eventually("orders", condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		w.vhost.DeleteQueue("orders")
		w.ready("orders")
	})

	for _, vector := range conformance.Load(GinkgoTB()) {
		old, hasOld := vector.Expect(vhost.RabbitMQ310)
		now, _ := vector.Expect(vhost.RabbitMQ43)
		if !hasOld || sameQueues(old, now) {
			continue
		}
		It("stays Ready where only a broker upgrade explains it, for vector "+vector.Name, func() {
			w := newWorld(matrix[0])
			w.declareState(old)
			before := w.vhost.Definitions()
			w.applyVector(vector)
			for _, cq := range vector.ConsumerQueues {
				upgraded := w.eventually(cq.Name,
					condition("Ready", metav1.ConditionTrue, "InSync"),
					condition("Drifted", metav1.ConditionFalse, "InSync"),
					condition("RecreationRequired", metav1.ConditionTrue, "BrokerUpgraded"),
					noCondition("Stalled"), noCondition("Reconciling"))
				Expect(kstatusOf(upgraded)).To(Equal(status.CurrentStatus))
				Expect(upgraded.Status.Topology).NotTo(ContainElement(HaveField("State", v1alpha1.StateForeign)))
			}
			Expect(w.vhost.Definitions()).To(Equal(before))
		})
	}
})

func sameQueues(a, b conformance.State) bool {
	return slices.EqualFunc(a.Queues, b.Queues, func(x, y conformance.Queue) bool { return x.Arguments.Equal(y.Arguments) })
}

var _ = Describe("A classic queue of the same name", func() {
	It("needs recreation, argument by argument", func() {
		w := newWorld(matrix[0])
		w.vhost.DeclareQueue("orders", nil)
		w.queue("orders", `{retry: {policy: None}, deadLetter: {policy: Disabled}}`)
		cq := w.eventually("orders", condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		Expect(cq.Status.Changes).To(ContainElement(HaveField("Path", "arguments.x-queue-type")))
	})
})

var _ = Describe("An exchange of another type", func() {
	It("needs recreation; what hangs on it is left alone", func() {
		w := newWorld(matrix[0])
		w.vhost.DeclareExchange("orders.dlx", "topic", nil)
		w.queue("orders", `{}`)
		cq := w.eventually("orders", condition("Ready", metav1.ConditionFalse, "RecreationRequired"),
			message(Equal(`exchange "orders.dlx" must be recreated: type is topic, should be fanout`)))
		Expect(cq.Status.Changes).To(ContainElement(HaveField("Effect", v1alpha1.EffectBind)))
		Expect(w.vhost.Definitions().Queues).To(BeEmpty())
	})
})
