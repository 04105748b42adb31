package e2e

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
	"github.com/warren-mq/warren/test/traffic"
)

// retrying decides for a topology whose tiers wait 2 s and 4 s: every fifth message fails once, every
// fiftieth always.
func retrying() func(traffic.Delivery) traffic.Action {
	first := map[string]int{}
	return func(d traffic.Delivery) traffic.Action {
		number, known := first[d.ID]
		if !known {
			number = len(first)
			first[d.ID] = number
		}
		switch {
		case number%50 == 0:
			return traffic.Reject
		case number%5 == 0 && d.Attempt == 1:
			return traffic.Retry(traffic.ToQueue("orders.retry.2s"))
		}
		return traffic.Ack
	}
}

var _ = Describe("Messages", Long, func() {
	onEachBroker("are never lost while a topology is edited, changed by others, and its deletion attempted", func(broker brokers.Broker) {
		const sources = "deletionPolicy: DeleteIfEmpty\nbindings: [{exchange: {name: shop, type: topic}, routingKeys: [%s]}]\n"
		w := newWorld(broker)
		edit := func(keys, rest string) {
			w.Queue("orders", fmt.Sprintf(sources, keys)+rest)
			w.Eventually("orders")
		}
		edit("paid", "retry: {delayTiers: [{delay: 2s}, {delay: 4s}]}\ndeadLetter: {queue: {name: one}}")
		w.Ready("orders")
		publisher := traffic.Publish(GinkgoTB(), w.VHost, traffic.Publishing{
			Targets: []traffic.Target{
				{Exchange: "shop", RoutingKey: "paid"},
				{Exchange: "shop", RoutingKey: "placed"},
				traffic.ToQueue("orders.retry.2s"), traffic.ToQueue("orders.retry.4s"),
				{Exchange: "orders.dlx"},
			},
			Every: 20 * time.Millisecond, Retry: true,
		})
		consumer := traffic.Consume(GinkgoTB(), w.VHost, "orders", retrying())
		step := func(text, keys, rest string) {
			By(text)
			edit(keys, rest)
			w.readyWithin("orders", 30*time.Second)
			made := publisher.Counts().Made
			Eventually(func() int { return publisher.Counts().Made - made }).Should(BeNumerically(">", 100), "traffic goes on")
		}
		step("a key more", "paid, placed", "retry: {delayTiers: [{delay: 2s}, {delay: 4s}]}\ndeadLetter: {queue: {name: one}}")
		step("the dead-letter queue renamed", "paid, placed", "retry: {delayTiers: [{delay: 2s}, {delay: 4s}]}\ndeadLetter: {queue: {name: two}}")
		step("and back", "placed", "retry: {delayTiers: [{delay: 2s}, {delay: 4s}]}\ndeadLetter: {queue: {name: one}}")
		step("a tier less", "paid", "retry: {delayTiers: [{delay: 4s}]}\ndeadLetter: {queue: {name: one}}")
		step("tiers shuffled", "paid", "retry: {delayTiers: [{delay: 2s}, {delay: 3s}]}\ndeadLetter: {queue: {name: one}}")
		step("and back", "paid, placed", "retry: {delayTiers: [{delay: 2s}, {delay: 4s}]}\ndeadLetter: {queue: {name: one}}")

		By("changing the strategy, which needs recreation, and reverting the change")
		edit("paid", "retry: {strategy: Reject, delayTiers: [{delay: 2s}]}\ndeadLetter: {queue: {name: one}}")
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		step("and back", "paid, placed", "retry: {delayTiers: [{delay: 2s}, {delay: 4s}]}\ndeadLetter: {queue: {name: one}}")

		By("a deletion that retains everything")
		w.Delete("orders")
		w.gone("orders")
		w.expectRetained(`queue "orders.*" (has 1 consumer|holds \d+ messages?)`, true, "in use")
		edit("paid, placed", "retry: {delayTiers: [{delay: 2s}, {delay: 4s}]}\ndeadLetter: {queue: {name: one}}")
		w.Ready("orders")

		report := traffic.Account(GinkgoTB(), w.VHost, traffic.Accounting{
			Publishers: []*traffic.Publisher{publisher}, Consumers: []*traffic.Consumer{consumer},
		})
		report.NoneLost(GinkgoTB())
		Expect(report.Consumed).To(BeNumerically(">", 100))
		Expect([]int{report.SentinelsConsumed, report.SentinelsLeft}).To(Equal([]int{0, 0}))
		Eventually(w.VHost.Policies).Should(BeEmpty())
	})
})
