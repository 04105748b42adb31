package e2e

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	. "github.com/warren-mq/warren/test/testenv"
)

// rarely is a resyncInterval with which only requests trigger a refresh.
const rarely = "10m"

// deadLettersTo declares a foreign queue that dead-letters to an exchange or queue.
func (w *world) deadLettersTo(exchange, key string) {
	GinkgoHelper()
	w.VHost.DeclareQueue("audit", map[string]any{
		"x-queue-type": "quorum", "x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": key,
	})
}

func (w *world) advisories(name string) []string {
	var messages []string
	for _, advisory := range w.Get(name).Status.Advisories {
		messages = append(messages, advisory.Message)
	}
	return messages
}

var _ = Describe("An object to which a foreign queue dead-letters since the last refresh", func() {
	It("is neither unbound nor deleted when it leaves the spec", func() {
		w, _ := newProxiedWorld(rarely)
		w.Queue("orders", `{retry: {exchange: {name: orders.retry}, delayTiers: [{delay: 10s}]}}`)
		w.Ready("orders")
		before := w.holds()
		w.deadLettersTo("orders.retry", "orders.retry.10s")
		w.Queue("orders", `{retry: {delayTiers: [{delay: 10s}]}}`)
		w.Eventually("orders")
		Eventually(w.advisories).WithArguments("orders").Should(ContainElement(
			ContainSubstring(`exchange "orders.retry" is no longer in the spec; retained: "orders.retry.10s" is bound to it`)))
		Expect(w.holds().Exchanges).To(Equal(before.Exchanges))
		Expect(w.holds().Bindings).To(Equal(before.Bindings))
	})

	It("stays if the foreign queue was declared during the check for messages", Extended, func() {
		leaving, first := newProxiedWorld(rarely)
		deleted, second := newProxiedWorld(rarely)
		for _, w := range []*world{leaving, deleted} {
			w.Queue("orders", `{retry: {delayTiers: [{delay: 10s}, {delay: 1m}]}}`)
			w.Ready("orders")
		}
		before := deleted.holds()
		held := make(chan struct{})
		goOn := sync.OnceFunc(func() { close(held) })
		DeferCleanup(goOn)
		for _, proxy := range []*netfault.HTTPProxy{first, second} {
			proxy.Before(func(request *http.Request) {
				if strings.HasPrefix(request.URL.Path, "/api/policies/") { // a deletion begins with its policies
					<-held
				}
			})
		}
		leaving.Queue("orders", `{retry: {delayTiers: [{delay: 1m}]}}`)
		deleted.Delete("orders")
		Eventually(leaving.advisories).WithArguments("orders").Should(ContainElement(ContainSubstring("checking whether it is empty")))
		deleted.EventuallyDeleting("orders")
		for _, w := range []*world{leaving, deleted} {
			w.deadLettersTo("", "orders.retry.10s")
		}
		// The permission to delete may have been checked before. Then the result is outdated.
		changed := time.Now()
		Eventually(time.Since).WithArguments(changed).WithTimeout(deadline.For(time.Minute)).Should(BeNumerically(">", 6*time.Second))
		goOn()
		Eventually(func() []string {
			now := leaving.advisories("orders")
			if slices.ContainsFunc(now, func(text string) bool { return strings.Contains(text, "took longer than") }) {
				leaving.request("orders", time.Now().String()) // Warren would try again with its next refresh
			}
			return now
		}).WithTimeout(deadline.For(time.Minute)).Should(ContainElement(
			ContainSubstring(`queue "orders.retry.10s" is no longer in the spec; retained: queue "audit" still dead-letters to it`)))
		Expect(leaving.queues()).To(ContainElement("orders.retry.10s"))
		deleted.gone("orders")
		deleted.VHost.DeleteQueue("audit")
		Expect(deleted.holds()).To(equalState(before))
		deleted.expectRetained(`queue "audit" dead-letters to this topology`, true, "deleted")
	})
})

var _ = Describe("A queue that is declared again by others while its ConsumerQueue is being deleted", func() {
	It("is retained", func() {
		w, proxy := newProxiedWorld("1s")
		w.Queue("orders", `{}`)
		w.Ready("orders")
		declared := make(chan struct{})
		goOn := sync.OnceFunc(func() { close(declared) })
		DeferCleanup(goOn)
		proxy.Before(func(request *http.Request) {
			if request.Method == http.MethodPut && strings.Contains(request.URL.Path, "orders.dlq") { // the fence of the second deletion
				<-declared
			}
		})
		began := time.Now()
		w.Delete("orders")
		Eventually(w.queues).WithTimeout(deadline.For(time.Minute)).ShouldNot(ContainElement("orders"))
		w.VHost.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		goOn()
		w.gone("orders")
		Expect(time.Since(began)).To(BeNumerically("<", deadline.For(time.Minute)))
		Expect(w.queues()).To(ContainElement("orders"))
		w.expectRetained(`queue "orders".*: .*queue "orders" was deleted, and another client declared it again`, true, "declared again")
	})
})

var _ = Describe("A queue that Warren could not declare", func() {
	It("is foreign if others declare it with other arguments, even with deletionPolicy Delete", func() {
		w := newBareWorld(newest)
		user := w.Broker.NewUser(GinkgoTB(), "administrator")
		w.VHost.Grant(user, `^orders(\.dl[xq])?$`, ".*", ".*")
		w.Secret(user.Username, user.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{ResyncInterval: "10m"})
		w.Queue("orders", `{deletionPolicy: Delete, retry: {delayTiers: [{delay: 10s}]}}`)
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "PermissionDenied"))
		w.VHost.DeclareQueue("orders.retry.10s", map[string]any{"x-queue-type": "quorum"})
		w.VHost.Publish("", "orders.retry.10s", "not Warren's")
		w.Delete("orders")
		w.gone("orders")
		Expect(w.queues()).To(Equal([]string{"orders.retry.10s"}))
		retained := func(events []eventsv1.Event) []eventsv1.Event {
			return slices.DeleteFunc(slices.Clone(events), func(event eventsv1.Event) bool { return event.Reason != "Retained" })
		}
		Eventually(w.EventsSoFar).Should(SatisfyAny(
			ContainElement(HaveField("Reason", "RecreationRequired")), // a refresh before the deletion had found that
			WithTransform(retained, ConsistOf(SatisfyAll(HaveField("Type", corev1.EventTypeNormal), HaveField("Note",
				MatchRegexp(`queue "orders.retry.10s": the object differs from the spec, and Warren has no record of declaring it`)))))))
	})
})
