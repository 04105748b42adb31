package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/conformance"
)

var _ = Describe("Odd names and combinations", func() {
	onEachBroker("become what the API says", func(broker brokers.Broker) {
		w := newWorld(broker)
		w.queue("odd", `
            queue: {name: "größe/50% süß & co.", singleActiveConsumer: true, maxLength: 0}
            bindings:
              - {exchange: {name: "ex/change ä%2F", type: headers}, arguments: {x-match: any, weight: 7, "schlüssel": "wert"}}
              - {exchange: {name: amq.topic}, routingKeys: ["a.*", "#.b c", "a.*"]}
            retry:
              exchange: {name: "retry %", type: topic}
              delayTiers: [{delay: 1500ms}, {delay: 120s, queueName: "warte/schlange", routingKey: ""}]
            deadLetter:
              exchange: {name: "tot/er", type: topic}
              routingKey: "a/b c"
              queue: {name: "ablage %41", maxLengthBytes: 10Mi, deliveryLimit: 3}`)
		w.ready("odd")
		const main = "größe/50% süß & co."
		safely := func(arguments vhost.Arguments) vhost.Arguments {
			arguments["x-queue-type"], arguments["x-dead-letter-strategy"], arguments["x-overflow"] = "quorum", "at-least-once", "reject-publish"
			return arguments
		}
		back := func(ttl int64) vhost.Arguments {
			return safely(vhost.Arguments{"x-message-ttl": ttl, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": main})
		}
		Expect(w.holds()).To(equalState(conformance.State{
			Exchanges: []conformance.Exchange{
				{Name: "ex/change ä%2F", Type: "headers", Durable: true},
				{Name: "retry %", Type: "topic", Durable: true},
				{Name: "tot/er", Type: "topic", Durable: true},
			},
			Queues: []conformance.Queue{
				{Name: main, Arguments: safely(vhost.Arguments{
					"x-dead-letter-exchange": "tot/er", "x-dead-letter-routing-key": "a/b c",
					"x-single-active-consumer": true, "x-max-length": int64(0),
				})},
				{Name: main + ".retry.1s500ms", Arguments: back(1500)},
				{Name: "warte/schlange", Arguments: back(120000)},
				{Name: "ablage %41", Arguments: vhost.Arguments{
					"x-queue-type": "quorum", "x-max-length-bytes": int64(10 << 20), "x-overflow": "reject-publish", "x-delivery-limit": int64(3),
				}},
			},
			Bindings: []conformance.Binding{
				{Source: "ex/change ä%2F", Destination: main, Arguments: vhost.Arguments{"x-match": "any", "weight": int64(7), "schlüssel": "wert"}},
				{Source: "amq.topic", Destination: main, RoutingKey: "a.*"},
				{Source: "amq.topic", Destination: main, RoutingKey: "#.b c"},
				{Source: "retry %", Destination: main + ".retry.1s500ms", RoutingKey: main + ".retry.1s500ms"},
				{Source: "retry %", Destination: "warte/schlange"},
				{Source: "tot/er", Destination: "ablage %41", RoutingKey: "a/b c"},
			},
		}))
	})
})

var _ = Describe("A source exchange that Warren is not asked to declare", func() {
	onEachBroker("is named while it is missing; the rest is declared", func(broker brokers.Broker) {
		w := newWorld(broker)
		w.queue("orders", `{bindings: [{exchange: {name: legacy}, routingKeys: [x]}, {exchange: {name: shop, type: topic}}]}`)
		cq := w.eventually("orders", condition("Ready", metav1.ConditionFalse, "ExchangeMissing"),
			condition("Reconciling", metav1.ConditionTrue, "ExchangeMissing"), condition("Drifted", metav1.ConditionTrue, "Drifted"),
			message(ContainSubstring(`exchange "legacy" does not exist`)))
		Expect(kstatusOf(cq)).To(Equal(status.InProgressStatus))
		Expect(w.vhost.Definitions().Queues).To(HaveLen(5))
		w.vhost.DeclareExchange("legacy", "direct", nil)
		w.ready("orders")
		Expect(w.vhost.Definitions().Bindings).To(ContainElement(HaveField("Source", "legacy")))
	})
})

var _ = Describe("A return route", func() {
	It("that leads nowhere is said, until somebody binds it", func() {
		w := newWorld(matrix[0])
		w.queue("orders", `{retry: {returnTo: {exchange: back, routingKey: again}}}`)
		w.eventually("orders", condition("Ready", metav1.ConditionFalse, "ReturnRouteMissing"),
			message(ContainSubstring(`exchange "back" of retry.returnTo does not exist`)))
		w.vhost.DeclareExchange("back", "topic", nil)
		w.eventually("orders", message(ContainSubstring(`routes key "again" to no queue`)))
		w.vhost.Bind("back", "orders", "#", nil)
		Expect(w.ready("orders").Status.Topology).NotTo(ContainElement(HaveField("State", v1alpha1.StateForeign)))

		By("warning where each retry is copied to further queues")
		w.vhost.DeclareQueue("audit", map[string]any{"x-queue-type": "quorum"})
		w.vhost.Bind("back", "audit", "again", nil)
		Eventually(func() []v1alpha1.Advisory { return w.get("orders").Status.Advisories }).Should(ConsistOf(SatisfyAll(
			HaveField("Code", v1alpha1.AdvisoryReturnRouteFansOut), HaveField("Message", ContainSubstring(`"audit"`)))))
		w.ready("orders")
	})
})

var _ = Describe("What this broker's version makes unsafe or lacks", func() {
	onEachBroker("is refused and nothing is declared", func(broker brokers.Broker) {
		w := newWorld(broker)
		version := versionOf(broker)
		w.queue("straight", `{queue: {deliveryLimit: BrokerDefault}, retry: {strategy: Reject}, deadLetter: {policy: Disabled}}`)
		if version.AtLeast(vhost.RabbitMQ40) {
			w.eventually("straight", condition("Ready", metav1.ConditionFalse, "UnsafeTopology"),
				condition("Stalled", metav1.ConditionTrue, "UnsafeTopology"), condition("Drifted", metav1.ConditionUnknown, "UnsafeTopology"),
				message(ContainSubstring("use Unlimited")))
			Expect(w.vhost.Definitions().Queues).To(BeEmpty())
		} else {
			w.ready("straight")
		}
		w.queue("patient", `{queue: {consumerTimeout: 1h}}`)
		if version.AtLeast(vhost.RabbitMQ312) {
			w.ready("patient")
		} else {
			w.eventually("patient", condition("Ready", metav1.ConditionFalse, "UnsupportedByBroker"),
				message(ContainSubstring("x-consumer-timeout")))
			Expect(w.vhost.Definitions().Queues).NotTo(ContainElement(HaveField("Name", "patient")))
		}
	})
})
