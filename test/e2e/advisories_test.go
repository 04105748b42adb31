package e2e

import (
	"net/http"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	deadletters "github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
	"github.com/warren-mq/warren/test/traffic"
)

// traps returns the advisories of a ConsumerQueue, as "code reason queue".
func (w *world) traps(name string) []string {
	GinkgoHelper()
	var all []string
	for _, advisory := range w.Get(name).Status.Advisories {
		all = append(all, string(advisory.Code)+" "+string(advisory.Reason)+" "+advisory.Name)
	}
	return all
}

// forbidReading gives Warren a user with all permissions except to read a queue. allow grants this permission.
func (w *world) forbidReading(queue string) (allow func()) {
	GinkgoHelper()
	user := w.VHost.Broker.NewUser(GinkgoTB(), "administrator")
	w.VHost.Grant(user, ".*", ".*", "^(?!"+regexp.QuoteMeta(queue)+"$).*")
	w.Secret(user.Username, user.Password)
	return func() { w.VHost.Grant(user, ".*", ".*", ".*") }
}

var _ = Describe("A dead-letter queue", func() {
	It("that Warren declares has no advisory under any strategy", func() {
		w := newWorld(newest)
		for name, spec := range map[string]string{
			"publish": `{}`, "reject": `{retry: {strategy: Reject}}`, "requeue": `{retry: {strategy: Requeue}}`, "none": `{retry: {policy: None}}`,
			"bounded": `{deadLetter: {queue: {maxLength: 1000}}}`, "lax": `{deadLetterStrategy: AtMostOnce, deadLetter: {queue: {maxLength: 10}}}`,
		} {
			w.Queue(name, spec)
			w.Ready(name)
			Expect(w.traps(name)).To(BeEmpty(), name)
		}
	})

	onEachBroker("has an advisory for each setting in the spec that can lose dead letters", func(broker brokers.Broker) {
		w := newWorld(broker)
		w.Queue("orders", `{deadLetter: {queue: {deliveryLimit: 5, messageTTL: 24h, maxLength: 10, overflow: DropHead}}}`)
		w.Queue("default", `{deadLetter: {queue: {deliveryLimit: BrokerDefault}}}`)
		w.Ready("orders")
		w.Ready("default")
		Expect(w.traps("orders")).To(Equal([]string{
			"DeadLettersCanBeLost Argument orders.dlq", "DeadLettersExpire Argument orders.dlq", "DeadLettersDropped Argument orders.dlq",
		}))
		if versionOf(broker).AtLeast(vhost.RabbitMQ40) {
			Expect(w.traps("default")).To(Equal([]string{"DeadLettersCanBeLost BrokerDefault default.dlq"}))
		} else {
			Expect(w.traps("default")).To(BeEmpty())
		}
	})

	onEachBroker("has an advisory while a policy can lose dead letters", func(broker brokers.Broker) {
		w := newWorld(broker)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.SetPolicy("short", brokers.Policy{
			Pattern: `\.dlq$`, ApplyTo: "queues", Definition: map[string]any{"message-ttl": 60000, "max-length": 100},
		})
		w.VHost.SetOperatorPolicy("limits", brokers.Policy{
			Pattern: `\.dlq$`, ApplyTo: "queues", Definition: map[string]any{"delivery-limit": 5},
		})
		Eventually(w.traps).WithArguments("orders").Should(ContainElements(
			"DeadLettersCanBeLost OperatorPolicy orders.dlq", "DeadLettersExpire Policy orders.dlq", "DeadLettersDropped Policy orders.dlq"))
		w.Ready("orders")

		By("refusing new messages instead of dropping the oldest")
		w.VHost.SetPolicy("short", brokers.Policy{
			Pattern: `\.dlq$`, ApplyTo: "queues", Definition: map[string]any{"max-length": 100, "overflow": "reject-publish"},
		})
		Eventually(w.traps).WithArguments("orders").Should(ConsistOf(HavePrefix("ShadowedByPolicy"), HavePrefix("ShadowedByPolicy"),
			HavePrefix("ShadowedByPolicy"), Equal("DeadLettersCanBeLost OperatorPolicy orders.dlq")))

		By("removing the policies")
		w.VHost.DeletePolicy("short")
		w.VHost.DeleteOperatorPolicy("limits")
		Eventually(w.traps).WithArguments("orders").Should(BeEmpty())
	})

	onEachBroker("that existed without a delivery limit has RabbitMQ's default limit from 4.0 on", func(broker brokers.Broker) {
		w := newWorld(broker)
		w.VHost.DeclareQueue("orders.dlq", map[string]any{"x-queue-type": "quorum"})
		w.Queue("orders", `{}`)
		if !versionOf(broker).AtLeast(vhost.RabbitMQ40) {
			w.Ready("orders")
			Expect(w.traps("orders")).To(BeEmpty())
			return
		}
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		Expect(w.traps("orders")).To(Equal([]string{"DeadLettersCanBeLost BrokerDefault orders.dlq"}))
	})

	It("that is shared has an advisory on each of its ConsumerQueues, until one is left", func() {
		const shared = "SharedDeadLetterQueue  graveyard"
		w := newWorld(newest)
		for _, name := range []string{"orders", "invoices"} {
			w.Queue(name, `{deadLetter: {queue: {name: graveyard}}}`)
		}
		w.Queue("returns", `{deadLetter: {queue: {name: graveyard, maxLength: 5}}}`)
		for _, name := range []string{"orders", "invoices"} {
			w.Ready(name)
			Eventually(w.traps).WithArguments(name).Should(Equal([]string{shared}))
		}
		w.Eventually("returns", Condition("Ready", metav1.ConditionFalse, v1alpha1.ReasonConflict))
		Expect(w.traps("returns")).To(BeEmpty())
		w.Delete("invoices")
		Eventually(w.traps).WithArguments("orders").Should(BeEmpty())
	})

	It("that Warren may not read has an advisory after a Redrive tried, until a Redrive continues", Extended, func() {
		w := newWorld(newest)
		allow := w.forbidReading("orders.dlq")
		w.Queue("orders", `{}`)
		w.Ready("orders")
		Expect(w.traps("orders")).To(BeEmpty())
		w.VHost.Send("", "orders.dlq", numbered(3)...)
		w.Redrive("again", `{consumerQueueRef: {name: orders}}`)
		w.EventuallyRedrive("again", Condition("Ready", metav1.ConditionFalse, v1alpha1.ReasonPermissionDenied))
		Eventually(w.traps).WithArguments("orders").Should(Equal([]string{"RedriveImpossible  orders.dlq"}))
		w.Ready("orders")
		allow()
		w.EditRedrive("again", func(spec *v1alpha1.RedriveSpec) { spec.Rate = new(intstr.FromInt32(1000)) }) // a new generation is reconciled immediately, instead of within a minute
		w.EventuallyRedrive("again", HaveField("Status.Moved", HaveValue(BeEquivalentTo(3))))
		Eventually(w.traps).WithArguments("orders").Should(BeEmpty())
	})

	It("that Warren may not read has an advisory after a failed browse, until a browse succeeds", func() {
		w := newWorld(newest)
		allow := w.forbidReading("orders.dlq")
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", numbered(3)...)
		reader := w.deadLetterClient(editor)
		browse := func() int {
			code, _ := reader.Request("/orders/messages")
			return code
		}
		Eventually(browse).Should(Equal(http.StatusConflict))
		Eventually(w.traps).WithArguments("orders").Should(Equal([]string{"RedriveImpossible  orders.dlq"}))
		w.Ready("orders")
		allow()
		Eventually(browse).Should(Equal(http.StatusOK))
		Eventually(w.traps).WithArguments("orders").Should(BeEmpty())
	})

	It("has an advisory while others consume it, but not for Warren's own browses and Redrives", Extended, func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.Send("", "orders.dlq", numbered(6)...)
		reader := w.deadLetterClient(editor)
		w.Redrive("slowly", `{consumerQueueRef: {name: orders}, rate: 1}`)
		w.EventuallyRedrive("slowly", HaveField("Status.Moved", HaveValue(BeNumerically(">=", 1))))
		for range 10 {
			found := deadletters.DeadLetterList{}
			reader.Get("/orders/messages", &found)
		}
		Expect(*w.completed("slowly").Moved).To(BeEquivalentTo(6)) // takes six seconds and six counts
		Expect(w.traps("orders")).To(BeEmpty())

		By("consuming")
		others := traffic.Consume(GinkgoTB(), w.VHost, "orders.dlq", nil)
		Eventually(w.traps).WithArguments("orders").Should(Equal([]string{"DeadLetterQueueConsumed  orders.dlq"}))
		w.Ready("orders")

		By("stopping the consumer")
		others.Stop()
		Eventually(w.traps).WithArguments("orders").Should(BeEmpty())
	})
})
