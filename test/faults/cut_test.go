package faults

import (
	"fmt"
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// rich has every kind of object, in a few hundred bytes of AMQP each.
func rich(name string) string {
	return fmt.Sprintf(`
bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order.placed, order.paid]}]
retry: {exchange: {name: %[1]s.retries}, delayTiers: [{delay: 1s}, {delay: 5s}]}
deadLetter: {exchange: {name: %[1]s.dead, type: direct}}`, name)
}

// The specs share a manager, and the connections are closed at the same time.
var _ = Describe("A connection that is lost during declarations", Ordered, ContinueOnFailure, func() {
	bytes := []int{1, 20, 100, 250, 400, 600, 800, 1000}
	worlds, flows := map[int]*world{}, map[int]*flow{}

	BeforeAll(func() {
		for _, n := range bytes {
			worlds[n] = newWorld(shared)
		}
		startManager(slices.Collect(maps.Values(worlds))...)
		for _, w := range worlds {
			w.Queue("steady", ordinary)
		}
		for n, w := range worlds {
			w.settled(1)
			flows[n] = w.flow("steady")
		}
		for n, w := range worlds {
			w.amqp.CutAfter(n)
			w.Queue("orders", rich("orders"))
		}
	})

	for _, n := range bytes {
		It(fmt.Sprintf("does not leave an incomplete topology, after byte %d", n), func() {
			w := worlds[n]
			Eventually(w.amqp.HasCut).Should(BeTrue())
			w.AllReady(2)
			w.ExpectExactly()
			flows[n].noneLost()
		})
	}
})

var _ = Describe("A connection", func() {
	It("that stalls during a declaration does not delay other ConsumerQueues", func() {
		w := newWorld(shared)
		startManager(w)
		w.Queue("steady", ordinary)
		w.settled(1)
		flow := w.flow("steady")
		w.amqp.Hold()
		w.Queue("orders", rich("orders"))
		Eventually(w.amqp.Held).Should(BeNumerically(">", 100))
		// After ten seconds the operator closes the connection and opens another, which is stalled only briefly.
		w.amqp.Cut()
		w.amqp.Release()
		w.AllReady(2)
		w.ExpectExactly()
		flow.noneLost()
	})
})
