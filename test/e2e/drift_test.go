package e2e

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

// typed is a topology with every kind of object: a source exchange, a retry exchange, tiers, DLX and DLQ.
const typed = `
bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order.placed, order.paid]}]
retry: {exchange: {name: retries}, delayTiers: [{delay: 10s}, {delay: 1m}]}
deadLetter: {exchange: {name: dead, type: direct}}`

var _ = Describe("Drift", func() {
	for what, meddle := range map[string]func(*brokers.VHost){
		"a main queue": func(v *brokers.VHost) { v.DeleteQueue("orders") },
		"a delay tier": func(v *brokers.VHost) { v.DeleteQueue("orders.retry.1m") },
		"an exchange":  func(v *brokers.VHost) { v.DeleteExchange("dead") },
		"a binding":    func(v *brokers.VHost) { v.Unbind("shop", "orders", "order.paid", nil) },
		"a tier's key": func(v *brokers.VHost) { v.Unbind("retries", "orders.retry.10s", "orders.retry.10s", nil) },
		"everything else": func(v *brokers.VHost) {
			v.DeleteQueue("orders.dlq")
			v.DeleteExchange("shop")
			v.DeleteExchange("retries")
		},
	} {
		It("is corrected after the deletion of "+what, ExtendedUnless(what == "a main queue" || what == "everything else"), func() {
			w := newWorld(newest)
			w.Queue("orders", typed)
			w.Ready("orders")
			before := w.VHost.Definitions()

			meddle(w.VHost)

			Eventually(w.VHost.Definitions).Should(Equal(before))
			// A refresh may happen between two deletions. Then they are detected and corrected separately. Events with the same
			// note become one Event with a count.
			joined := func(reasons []string) string { return strings.Join(reasons, " ") }
			isBalanced := func(reasons string) bool {
				return strings.Count(reasons, "DriftDetected") == strings.Count(reasons, "DriftCorrected")
			}
			w.EventuallyReasons("orders", WithTransform(joined, SatisfyAll(
				MatchRegexp(`^Declared DriftDetected( DriftDetected| DriftCorrected)* DriftCorrected$`), Satisfy(isBalanced))))
			w.Ready("orders")
		})
	}

	It("is only reported with driftPolicy Report", func() {
		w := newWorld(newest)
		w.Queue("orders", typed)
		w.Ready("orders")
		w.Queue("orders", typed+"\ndriftPolicy: Report")
		w.Ready("orders")
		w.VHost.DeleteQueue("orders.retry.10s")
		damaged := w.VHost.Definitions()

		missing := v1alpha1.Change{Kind: "Queue", Name: "orders.retry.10s", Effect: "Declare", Message: `queue "orders.retry.10s" is missing`}
		cq := w.Eventually("orders",
			Condition("Ready", metav1.ConditionFalse, "Drifted"), Condition("Stalled", metav1.ConditionTrue, "Drifted"),
			Condition("Drifted", metav1.ConditionTrue, "Drifted"), Condition("RecreationRequired", metav1.ConditionFalse, "InSync"),
			HaveField("Status.Changes", ContainElement(missing)))
		Expect(kstatusOf(cq)).To(Equal(status.FailedStatus))
		Consistently(w.VHost.Definitions).Should(Equal(damaged))
		w.EventuallyReasons("orders", Equal([]string{"Declared", "DriftDetected"}))

		By("becoming Ready when it was corrected by hand")
		w.VHost.DeclareQueue("orders.retry.10s", map[string]any{
			"x-queue-type": "quorum", "x-message-ttl": 10000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		})
		w.VHost.Bind("retries", "orders.retry.10s", "orders.retry.10s", nil)
		w.Ready("orders")
	})

	// A new ConsumerQueue with Report lists all objects to declare in status.changes, and changes nothing at the broker.
	It("is reported for a missing topology with driftPolicy Report, and nothing is declared", func() {
		w := newWorld(newest)
		w.Queue("orders", `{driftPolicy: Report}`)
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "Drifted"), Condition("Stalled", metav1.ConditionTrue, "Drifted"))
		Expect(cq.Status.Changes).To(HaveLen(7), "an exchange, five queues and a binding")
		Expect(w.VHost.Definitions()).To(Equal(brokers.Definitions{
			Exchanges: []brokers.Exchange{}, Queues: []brokers.Queue{}, Bindings: []brokers.Binding{},
		}))
	})

	It("does not include further bindings, which are Foreign and stay", func() {
		w := newWorld(newest)
		w.Queue("orders", typed)
		synced := w.Ready("orders").Status.LastSyncedTime
		w.VHost.Bind("amq.topic", "orders", "audit.#", map[string]any{"note": "x"})
		Eventually(func() []v1alpha1.TopologyEntry { return w.Get("orders").Status.Topology }).Should(ContainElement(v1alpha1.TopologyEntry{
			Kind: "Binding", Source: "amq.topic", Destination: "orders", RoutingKey: "audit.#", Arguments: `{"note":"x"}`, State: "Foreign",
		}))
		cq := w.Ready("orders")
		Expect(cq.Status.Changes).To(BeEmpty())
		Expect(cq.Status.PlanHash).To(BeEmpty())
		Expect(cq.Status.LastSyncedTime).To(Equal(synced))
		Expect(w.VHost.Definitions().Bindings).To(ContainElement(HaveField("Source", "amq.topic")))
	})

	It("does not include bindings of another ConsumerQueue to a shared dead-letter queue", func() {
		w := newWorld(newest)
		w.Queue("orders", `{deadLetter: {exchange: {name: dead, type: direct}, routingKey: orders, queue: {name: graveyard}}}`)
		w.Queue("invoices", `{deadLetter: {exchange: {name: dead, type: direct}, routingKey: invoices, queue: {name: graveyard}}}`)
		for _, name := range []string{"orders", "invoices"} {
			w.Ready(name)
			Eventually(func() []v1alpha1.TopologyEntry { return w.Get(name).Status.Topology }).
				ShouldNot(ContainElement(HaveField("State", v1alpha1.StateForeign)))
		}
	})
})

var _ = Describe("A policy that shadows an argument", func() {
	onEachBroker("is an advisory and never affects Ready", func(broker brokers.Broker) {
		w := newWorld(broker)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.SetPolicy("limits", brokers.Policy{
			Pattern: `\.dlq$`, ApplyTo: "queues", Definition: map[string]any{"delivery-limit": 5},
		})
		Eventually(func() []v1alpha1.Advisory { return w.Get("orders").Status.Advisories }).Should(ConsistOf(
			SatisfyAll(HaveField("Code", v1alpha1.AdvisoryShadowedByPolicy), HaveField("Name", "orders.dlq"),
				HaveField("Message", MatchRegexp(`policy "limits" sets delivery-limit 5 \(the queue's own value: (unlimited|none)\): dead letters can be lost`))),
			SatisfyAll(HaveField("Code", v1alpha1.AdvisoryDeadLettersCanBeLost), HaveField("Reason", v1alpha1.AdvisoryReasonPolicy))))
		w.Ready("orders")
		w.VHost.DeletePolicy("limits")
		Eventually(func() []v1alpha1.Advisory { return w.Get("orders").Status.Advisories }).Should(BeEmpty())
	})
})

var _ = Describe("A fence of another instance", func() {
	It("is an advisory while it exists", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		fence := fmt.Sprintf("warren-fence-%d-ABCDEF:somebody:orders", time.Now().Unix())
		w.VHost.SetPolicy(fence, brokers.Policy{
			Pattern: `\A(?:orders)\z`, ApplyTo: "queues", Definition: map[string]any{"max-length": 0, "overflow": "reject-publish"},
		})
		Eventually(func() []v1alpha1.Advisory { return w.Get("orders").Status.Advisories }).Should(ContainElement(SatisfyAll(
			HaveField("Code", v1alpha1.AdvisoryFenced), HaveField("Name", "orders"),
			HaveField("Message", HavePrefix(fmt.Sprintf("policy %q has refused publishes", fence))))))
		w.Ready("orders")
		w.VHost.DeletePolicy(fence)
		Eventually(func() []v1alpha1.Advisory { return w.Get("orders").Status.Advisories }).Should(BeEmpty())
	})
})

var _ = Describe("A fence that Warren may not remove", func() {
	It("is reported when the BrokerConnection is suspended", func() {
		w := newBareWorld(newest)
		user := newest.NewUser(GinkgoTB(), "monitoring")
		w.VHost.Grant(user, ".*", ".*", ".*")
		w.Secret(user.Username, user.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{})
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.SetPolicy(fmt.Sprintf("warren-fence-%d-ABCDEF:%s:orders", time.Now().Unix(), w.Connection().UID), brokers.Policy{
			Pattern: `\A(?:orders)\z`, ApplyTo: "queues", Definition: map[string]any{"max-length": 0, "overflow": "reject-publish"},
		})
		w.Eventually("orders", HaveField("Status.Advisories", ContainElement(HaveField("Code", v1alpha1.AdvisoryFenced))))
		w.Connect(v1alpha1.BrokerConnectionSpec{Suspend: true})
		w.EventuallyEvents("Retained", ConsistOf(SatisfyAll(
			HaveField("Regarding.Kind", "BrokerConnection"), HaveField("Type", corev1.EventTypeWarning),
			HaveField("Note", ContainSubstring("rabbitmqctl clear_policy -p")))))
	})
})
