package e2e

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/conformance"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
	"github.com/warren-mq/warren/test/traffic"
)

// untilEmpty limits the deletion of an empty queue that left the spec, with the waits for a refresh and for delayed messages.
var untilEmpty = deadline.For(45 * time.Second)

// edit is a spec, and an edit of it that needs fewer objects.
type edit struct{ from, to string }

var edits = map[string]edit{
	"a delay tier": {
		`{retry: {delayTiers: [{delay: 10s}, {delay: 20s}]}}`, `{retry: {delayTiers: [{delay: 20s}]}}`,
	},
	"the dead-letter queue": {
		`{deadLetter: {queue: {name: one}}}`, `{deadLetter: {queue: {name: two}}}`,
	},
}

var moreEdits = map[string]edit{
	"source bindings and keys": {
		`{bindings: [{exchange: {name: shop, type: topic}, routingKeys: [a, b]}, {exchange: {name: old, type: fanout}}]}`,
		`{bindings: [{exchange: {name: shop, type: topic}, routingKeys: [b, c]}, {exchange: {name: old, type: fanout}, arguments: {x: 1}}]}`,
	},
	"a delay tier that has another delay": {
		`{retry: {exchange: {name: retry}, delayTiers: [{delay: 10s, routingKey: soon}]}}`,
		`{retry: {exchange: {name: retry}, delayTiers: [{delay: 11s, routingKey: soon}]}}`,
	},
	"a delay tier that has another name": {
		`{retry: {exchange: {name: retry}, delayTiers: [{delay: 10s}]}}`,
		`{retry: {exchange: {name: retry}, delayTiers: [{delay: 10s, queueName: wait}]}}`,
	},
	"the retry exchange": {
		`{retry: {exchange: {name: retry}, delayTiers: [{delay: 10s}]}}`, `{retry: {exchange: {name: again}, delayTiers: [{delay: 10s}]}}`,
	},
	"retry altogether": {`{}`, `{retry: {policy: None}}`},
}

var _ = Describe("An object that left the spec", Long, func() {
	Describe("is deleted when nothing needs it any more", Ordered, ContinueOnFailure, func() { describeEdits(edits) })
	Describe("is deleted when nothing needs it any more", Ordered, ContinueOnFailure, Extended, func() { describeEdits(moreEdits) })

	It("stays Orphaned while it has messages, and messages of a delay tier return first", Extended, func() {
		w := newWorld(newest)
		w.Queue("orders", `{retry: {delayTiers: [{delay: 30s}, {delay: 1m}]}, deadLetter: {queue: {name: one}}}`)
		w.Ready("orders")
		w.VHost.Publish("", "orders.retry.30s", "retried")
		w.VHost.Publish("", "one", "dead")
		w.Queue("orders", `{retry: {delayTiers: [{delay: 1m}]}, deadLetter: {queue: {name: two}}}`)
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionTrue, "InSync"),
			HaveField("Status.Advisories", ConsistOf(
				HaveField("Message", `queue "orders.retry.30s" is no longer in the spec; retained: it holds messages or has consumers`),
				HaveField("Message", `queue "one" is no longer in the spec; retained: it holds messages or has consumers`))))
		Expect(cq.Status.Changes).To(BeEmpty())
		Expect(cq.Status.Topology).To(ContainElement(SatisfyAll(HaveField("Name", "one"), HaveField("State", v1alpha1.StateOrphaned))))
		Eventually(w.VHost.Ready).WithArguments("orders").WithTimeout(deadline.For(time.Minute)).Should(Equal(1))
		Eventually(w.queues).WithTimeout(untilEmpty).Should(ConsistOf("orders", "orders.retry.1m", "one", "two"))
		w.EventuallyMessages("one", Equal(1))

		By("deleting a dead-letter queue after it was emptied")
		traffic.Drain(GinkgoTB(), w.VHost, time.Second, "one")
		Eventually(w.queues).WithTimeout(untilEmpty).Should(ConsistOf("orders", "orders.retry.1m", "two"))
		w.Ready("orders")
	})

	It("stays while a queue that must be recreated needs it, also after several edits", Extended, func() {
		w := newWorld(newest)
		w.Queue("orders", typed)
		w.Ready("orders")
		before := w.holds()
		w.VHost.Publish("retries", "orders.retry.1m", "retried")
		w.VHost.Publish("dead", "orders.dlq", "dead")
		const sources = "bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order.placed, order.paid]}]\n"
		for _, edit := range []string{
			"retry: {strategy: Reject, delayTiers: [{delay: 10s}]}",
			"deadLetter: {policy: Disabled}",
			"deadLetter: {exchange: {name: morgue, type: topic}, queue: {name: graves}}",
			"retry: {policy: None}\ndeadLetter: {exchange: {name: dead, type: direct}, routingKey: other}",
		} {
			By(edit)
			w.Queue("orders", sources+edit)
			w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"),
				HaveField("Status.Topology", ContainElement(HaveField("State", v1alpha1.StateOrphaned))))
			Expect(w.holds()).To(equalState(before))
		}
		w.Queue("orders", typed)
		w.Ready("orders")
		w.Eventually("orders", HaveField("Status.Topology", HaveEach(HaveField("State", v1alpha1.StateInSync))),
			HaveField("Status.Advisories", BeEmpty()))
		Expect(w.holds()).To(equalState(before))
		w.ConsistentlyNoEvents("DriftDetected")
	})

	It("is only reported with driftPolicy Report", func() {
		w := newWorld(newest)
		w.Queue("orders", typed)
		w.Ready("orders")
		before := w.holds()
		w.Queue("orders", `{driftPolicy: Report, bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order.placed]}], `+
			`retry: {exchange: {name: retries}, delayTiers: [{delay: 1m}]}, deadLetter: {exchange: {name: dead, type: direct}}}`)
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "Drifted"), Condition("Drifted", metav1.ConditionTrue, "Drifted"))
		Expect(cq.Status.Changes).To(ConsistOf(
			SatisfyAll(HaveField("Effect", v1alpha1.EffectUnbind), HaveField("Source", "shop"), HaveField("RoutingKey", "order.paid"),
				HaveField("Message", `queue "orders" is still bound to exchange "shop" with routing key "order.paid"`)),
			SatisfyAll(HaveField("Effect", v1alpha1.EffectUnbind), HaveField("Source", "retries"), HaveField("RoutingKey", "orders.retry.10s"))))
		Consistently(w.holds).Should(equalState(before))
	})

	It("stays if the status that listed it is lost", func() {
		w := newWorld(newest)
		w.Queue("orders", `{deadLetter: {queue: {name: one}}}`)
		w.Ready("orders")
		w.Queue("orders", `{suspend: true, deadLetter: {queue: {name: two}}}`)
		w.Eventually("orders", Condition("Suspended", metav1.ConditionTrue, "Suspended"))
		Eventually(func() error {
			cq := w.Get("orders")
			cq.Status = v1alpha1.ConsumerQueueStatus{}
			return kube.Status().Update(ctx(), cq)
		}).Should(Succeed(), "while the manager may write, too")
		w.Queue("orders", `{deadLetter: {queue: {name: two}}}`)
		w.Ready("orders")
		Consistently(w.queues).Should(ContainElement("one"))
		Expect(w.holds().Bindings).To(ContainElement(conformance.Binding{Source: "orders.dlx", Destination: "one"}))
		w.Eventually("orders", HaveField("Status.Topology", ContainElement(SatisfyAll(
			HaveField("Name", "two"), HaveField("Origin", v1alpha1.OriginDeclared)))))

		By("deleting everything else with the ConsumerQueue")
		w.Delete("orders")
		w.gone("orders")
		Expect(w.queues()).To(ConsistOf("one"))
	})
})

// describeEdits makes all edits at the same time, because each deletion takes several seconds.
func describeEdits(edits map[string]edit) {
	worlds := map[string]*world{}
	BeforeAll(func() {
		for name, edit := range edits {
			w := newWorld(newest)
			worlds[name] = w
			w.Queue("orders", edit.from)
			w.Ready("orders")
			w.Queue("orders", edit.to)
			w.Ready("orders")
		}
	})

	for name, edit := range edits {
		It(name, func() {
			fresh, w := newWorld(newest), worlds[name]
			showLog(w.Namespace)
			fresh.Queue("orders", edit.to)
			fresh.Ready("orders")
			Eventually(w.holds).WithTimeout(untilEmpty).Should(equalState(fresh.holds()))
			w.Eventually("orders", HaveField("Status.Topology", HaveEach(HaveField("State", v1alpha1.StateInSync))),
				HaveField("Status.Advisories", BeEmpty()))
			Eventually(w.VHost.Policies).Should(BeEmpty())
		})
	}
}

func (w *world) queues() []string {
	var names []string
	for _, queue := range w.VHost.Definitions().Queues {
		names = append(names, queue.Name)
	}
	return names
}
