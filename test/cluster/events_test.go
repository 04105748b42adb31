package cluster

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("Events", func() {
	It("of all nodes count as silent when a refresh finds what one of them did not announce", func() {
		w := newWorld(1, 1)
		w.Queue("orders", `{retry: {policy: None}, deadLetter: {policy: Disabled}}`)
		w.Eventually("orders", Condition("Ready", metav1.ConditionTrue, "InSync"))
		w.EventuallyConnection(HaveField("Status.Capabilities.Events", true))
		nodes.Eval(2, `gen_event:delete_handler(rabbit_event, rabbit_exchange_type_event, []).`)
		DeferCleanup(func() { nodes.Eval(2, `gen_event:add_handler(rabbit_event, rabbit_exchange_type_event, []).`) })
		second := w.VHost.Through(nodes.Node(2))
		Eventually(func() *v1alpha1.BrokerConnection { // each pause after silence is longer than the one before
			second.DeleteQueue("orders")
			return w.Connection()
		}).WithPolling(time.Second).Should(SatisfyAll(
			HaveField("Status.Capabilities.Events", false),
			HaveField("Status.Capabilities.EventsReason", ContainSubstring(`a refresh found that queue "orders" was deleted, and no event announced that`)),
		))
		w.Eventually("orders", Condition("Ready", metav1.ConditionTrue, "InSync"))
	})
})
