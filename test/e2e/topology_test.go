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
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("Unusual names and combinations", func() {
	onEachBroker("become exactly the specified objects", func(broker brokers.Broker) {
		w := newWorld(broker)
		w.Queue("odd", `
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
		w.Ready("odd")
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

var _ = Describe("A source exchange that Warren does not declare", func() {
	It("is named while it is missing, and the other objects are declared", func() {
		w := newWorld(newest)
		w.Queue("orders", `{bindings: [{exchange: {name: legacy}, routingKeys: [x]}, {exchange: {name: shop, type: topic}}]}`)
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "ExchangeMissing"),
			Condition("Reconciling", metav1.ConditionTrue, "ExchangeMissing"), Condition("Drifted", metav1.ConditionTrue, "Drifted"),
			Message(ContainSubstring(`exchange "legacy" does not exist`)))
		Expect(kstatusOf(cq)).To(Equal(status.InProgressStatus))
		Expect(w.VHost.Definitions().Queues).To(HaveLen(5))
		w.VHost.DeclareExchange("legacy", "direct", nil)
		w.Ready("orders")
		Expect(w.VHost.Definitions().Bindings).To(ContainElement(HaveField("Source", "legacy")))
	})
})

var _ = Describe("A return route", func() {
	It("without a binding to the main queue is reported until it is bound", func() {
		w := newWorld(newest)
		w.Queue("orders", `{retry: {returnTo: {exchange: back, routingKey: again}}}`)
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "ReturnRouteMissing"),
			Message(ContainSubstring(`exchange "back" of retry.returnTo does not exist`)))
		w.VHost.DeclareExchange("back", "topic", nil)
		w.Eventually("orders", Message(ContainSubstring(`routes key "again" to no queue`)))
		w.VHost.Bind("back", "orders", "#", nil)
		Expect(w.Ready("orders").Status.Topology).NotTo(ContainElement(HaveField("State", v1alpha1.StateForeign)))

		By("warning if each retry is copied to further queues")
		w.VHost.DeclareQueue("audit", map[string]any{"x-queue-type": "quorum"})
		w.VHost.Bind("back", "audit", "again", nil)
		Eventually(func() []v1alpha1.Advisory { return w.Get("orders").Status.Advisories }).Should(ConsistOf(SatisfyAll(
			HaveField("Code", v1alpha1.AdvisoryReturnRouteFansOut), HaveField("Message", ContainSubstring(`"audit"`)))))
		w.Ready("orders")
	})
})

var _ = Describe("Settings that this broker's version does not support or makes unsafe", func() {
	onEachBroker("are refused, and nothing is declared", func(broker brokers.Broker) {
		w := newWorld(broker)
		version := versionOf(broker)
		w.Queue("straight", `{queue: {deliveryLimit: BrokerDefault}, retry: {strategy: Reject}, deadLetter: {policy: Disabled}}`)
		if version.AtLeast(vhost.RabbitMQ40) {
			w.Eventually("straight", Condition("Ready", metav1.ConditionFalse, "UnsafeTopology"),
				Condition("Stalled", metav1.ConditionTrue, "UnsafeTopology"), Condition("Drifted", metav1.ConditionUnknown, "UnsafeTopology"),
				Message(ContainSubstring("use Unlimited")))
			Expect(w.VHost.Definitions().Queues).To(BeEmpty())
		} else {
			w.Ready("straight")
		}
		w.Queue("patient", `{queue: {consumerTimeout: 1h}}`)
		if version.AtLeast(vhost.RabbitMQ312) {
			w.Ready("patient")
		} else {
			w.Eventually("patient", Condition("Ready", metav1.ConditionFalse, "UnsupportedByBroker"),
				Message(ContainSubstring("x-consumer-timeout")))
			Expect(w.VHost.Definitions().Queues).NotTo(ContainElement(HaveField("Name", "patient")))
		}
	})
})
