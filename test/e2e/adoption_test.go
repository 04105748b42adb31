package e2e

import (
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/conformance"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("A queue that exists with other arguments", func() {
	It("is reported with both values and stays unchanged with its messages", func() {
		w := newWorld(newest)
		w.VHost.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum", "x-message-ttl": 60000})
		w.VHost.Publish("", "orders", "one", "two")
		before := w.VHost.Definitions()

		w.Queue("orders", `
            queue: {messageTTL: 5m, deliveryLimit: BrokerDefault}
            retry: {policy: None}
            deadLetter: {policy: Disabled}`)

		cq := w.Eventually("orders",
			Condition("Ready", metav1.ConditionFalse, "RecreationRequired"),
			Condition("Stalled", metav1.ConditionTrue, "RecreationRequired"),
			Condition("Drifted", metav1.ConditionTrue, "Drifted"),
			Condition("RecreationRequired", metav1.ConditionTrue, "RecreationRequired"),
			Message(Equal(`queue "orders" must be recreated: x-message-ttl is 60000, should be 300000`)))
		Expect(cq.Status.Changes).To(ConsistOf(v1alpha1.Change{
			Kind: "Queue", Name: "orders", Path: "arguments.x-message-ttl", Desired: "300000", Observed: "60000", Effect: "Recreate",
			Message: "x-message-ttl is 60000, should be 300000; the queue must be recreated",
		}))
		Expect(cq.Status.PlanHash).To(HavePrefix("sha256:"))
		Expect(kstatusOf(cq)).To(Equal(status.FailedStatus))
		w.EventuallyReasons("orders", Equal([]string{"RecreationRequired"}))
		Expect(w.VHost.Definitions()).To(Equal(before))
		w.EventuallyMessages("orders", Equal(2))
	})

	It("blocks new objects, but objects that were in sync are recreated", func() {
		w := newWorld(newest)
		w.Queue("orders", `{retry: {delayTiers: [{delay: 30s}]}}`)
		w.Ready("orders")
		w.Queue("orders", `{queue: {messageTTL: 5m}, retry: {delayTiers: [{delay: 30s}, {delay: 1h}]}}`)
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		before := w.VHost.Definitions()

		w.VHost.DeleteQueue("orders.retry.30s")

		Eventually(w.VHost.Definitions).Should(Equal(before), "the old tier comes back, the new one does not come")
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		Expect(cq.Status.Changes).To(ContainElement(SatisfyAll(
			HaveField("Name", "orders.retry.1h"), HaveField("Effect", v1alpha1.EffectDeclare))))
	})

	It("is no longer Stalled after it was recreated by hand", func() {
		w := newWorld(newest)
		w.VHost.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		w.Queue("orders", `{}`)
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		w.VHost.DeleteQueue("orders")
		w.Ready("orders")
	})

	for _, vector := range conformance.Load(GinkgoTB()) {
		old, hasOld := vector.Expect(vhost.RabbitMQ310)
		now, _ := vector.Expect(vhost.RabbitMQ43)
		if !hasOld || sameQueues(old, now) {
			continue
		}
		It("stays Ready if only a broker upgrade explains the difference, for vector "+vector.Name, ExtendedUnless(vector.Name == "seed-004-pipeline"), func() {
			w := newWorld(newest)
			w.declareState(old)
			before := w.VHost.Definitions()
			w.applyVector(vector)
			for _, cq := range vector.ConsumerQueues {
				upgraded := w.Eventually(cq.Name,
					Condition("Ready", metav1.ConditionTrue, "InSync"),
					Condition("Drifted", metav1.ConditionFalse, "InSync"),
					Condition("RecreationRequired", metav1.ConditionTrue, "BrokerUpgraded"),
					NoCondition("Stalled"), NoCondition("Reconciling"),
					HaveField("Status.Topology", Not(ContainElement(HaveField("State", v1alpha1.StateForeign))))) // other ConsumerQueues of the vector are new
				Expect(kstatusOf(upgraded)).To(Equal(status.CurrentStatus))
			}
			Expect(w.VHost.Definitions()).To(Equal(before))
		})
	}
})

func sameQueues(a, b conformance.State) bool {
	return slices.EqualFunc(a.Queues, b.Queues, func(x, y conformance.Queue) bool { return x.Arguments.Equal(y.Arguments) })
}

var _ = Describe("A classic queue of the same name", func() {
	It("needs recreation, argument by argument", func() {
		w := newWorld(newest)
		w.VHost.DeclareQueue("orders", nil)
		w.Queue("orders", `{retry: {policy: None}, deadLetter: {policy: Disabled}}`)
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		Expect(cq.Status.Changes).To(ContainElement(HaveField("Path", "arguments.x-queue-type")))
	})
})

var _ = Describe("An exchange of another type", func() {
	It("needs recreation, and its bindings stay", func() {
		w := newWorld(newest)
		w.VHost.DeclareExchange("orders.dlx", "topic", nil)
		w.Queue("orders", `{}`)
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"),
			Message(Equal(`exchange "orders.dlx" must be recreated: type is topic, should be fanout`)))
		Expect(cq.Status.Changes).To(ContainElement(HaveField("Effect", v1alpha1.EffectBind)))
		Expect(w.VHost.Definitions().Queues).To(BeEmpty())
	})
})
