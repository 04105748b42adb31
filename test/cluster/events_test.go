package cluster

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/api/v1alpha1"
)

var _ = Describe("Events", func() {
	It("are not trusted after a refresh finds a change that one node did not announce", func() {
		w := newWorld(1, 1)
		names := w.Queues("orders", 30, `{retry: {policy: None}, deadLetter: {policy: Disabled}}`)
		w.AllReady(len(names))
		w.EventuallyConnection(HaveField("Status.Capabilities.Events", true))
		nodes.Eval(2, `gen_event:delete_handler(rabbit_event, rabbit_exchange_type_event, []).`)
		DeferCleanup(func() { nodes.Eval(2, `gen_event:add_handler(rabbit_event, rabbit_exchange_type_event, []).`) })
		second := w.VHost.Through(nodes.Node(2))
		round := 0
		Eventually(func() *v1alpha1.BrokerConnection { // the delay grows each time
			second.DeleteQueue(names[round%len(names)]) // a queue that is deleted repeatedly is recreated late
			round++
			return w.Connection()
		}).WithPolling(2 * time.Second).Should(SatisfyAll(
			HaveField("Status.Capabilities.Events", false),
			HaveField("Status.Capabilities.EventsReason", MatchRegexp(`a refresh found that queue "orders-\d+" was deleted, and no event announced the change`)),
		))
		w.AllReady(len(names))
	})
})
