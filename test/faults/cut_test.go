package faults

import (
	"fmt"

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

var _ = Describe("A connection", func() {
	It("that is cut in the middle of declarations, at any byte, leaves nothing half done for long", func() {
		worlds := map[int]*world{}
		var all []*world
		for _, n := range []int{1, 20, 100, 250, 400, 600, 800, 1000} {
			worlds[n] = newWorld(shared)
			all = append(all, worlds[n])
		}
		startManager(all...)
		for _, w := range all {
			w.queue("steady", ordinary)
		}
		var flows []*flow
		for _, w := range all {
			w.settled(1)
			flows = append(flows, w.flow("steady"))
		}
		for n, w := range worlds {
			w.amqp.cutAfter(n)
			w.queue("orders", rich("orders"))
		}
		for n, w := range worlds {
			Eventually(w.amqp.hasCut).Should(BeTrue(), "after %d bytes", n)
		}
		for i, w := range all {
			w.allReady()
			w.expectExactly()
			flows[i].noneLost()
		}
	})

	It("that answers nothing for a while, in the middle of a declaration, is not waited for by anybody else", func() {
		w := newWorld(shared)
		startManager(w)
		w.queue("steady", ordinary)
		w.settled(1)
		flow := w.flow("steady")
		w.amqp.hold()
		w.queue("orders", rich("orders"))
		Eventually(w.amqp.holds).Should(BeNumerically(">", 100))
		// After ten seconds the operator gives the connection up and makes another, which is not held back for long.
		w.amqp.cut()
		w.amqp.release()
		w.allReady()
		w.expectExactly()
		flow.noneLost()
	})
})
