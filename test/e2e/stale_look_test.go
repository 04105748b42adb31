package e2e

import (
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
)

// rarelyLookedAt is a world whose broker is looked at every ten minutes, if nobody asks for a look, by way of a gateway.
func rarelyLookedAt() (*world, *gateway) {
	GinkgoHelper()
	w := newBareWorld(matrix[0])
	entry := newGateway(w.broker)
	w.secret(w.broker.Username, w.broker.Password)
	w.connection(v1alpha1.BrokerConnectionSpec{ManagementURI: entry.uri, ResyncInterval: "10m"})
	return w, entry
}

// deadLettersTo declares a queue of somebody else that dead-letters.
func (w *world) deadLettersTo(exchange, key string) {
	GinkgoHelper()
	w.vhost.DeclareQueue("audit", map[string]any{
		"x-queue-type": "quorum", "x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": key,
	})
}

func (w *world) advisories(name string) []string {
	var messages []string
	for _, advisory := range w.get(name).Status.Advisories {
		messages = append(messages, advisory.Message)
	}
	return messages
}

var _ = Describe("What somebody began to dead-letter to since the last look", func() {
	It("is not unbound or deleted when it leaves the spec", func() {
		w, _ := rarelyLookedAt()
		w.queue("orders", `{retry: {exchange: {name: orders.retry}, delayTiers: [{delay: 10s}]}}`)
		w.ready("orders")
		before := w.holds()
		w.deadLettersTo("orders.retry", "orders.retry.10s")
		w.queue("orders", `{retry: {delayTiers: [{delay: 10s}]}}`)
		w.eventually("orders")
		Eventually(w.advisories).WithArguments("orders").Should(ContainElement(
			ContainSubstring(`exchange "orders.retry" is no longer in the spec; kept: "orders.retry.10s" is bound to it`)))
		Expect(w.holds().Exchanges).To(Equal(before.Exchanges))
		Expect(w.holds().Bindings).To(Equal(before.Bindings))
	})

	It("stays, if that was while it was looked at whether it is empty", func() {
		leaving, first := rarelyLookedAt()
		deleted, second := rarelyLookedAt()
		for _, w := range []*world{leaving, deleted} {
			w.queue("orders", `{retry: {delayTiers: [{delay: 10s}, {delay: 1m}]}}`)
			w.ready("orders")
		}
		before := deleted.holds()
		for _, entry := range []*gateway{first, second} { // a deletion begins with the policies
			entry.policies.Lock()
		}
		goOn := sync.OnceFunc(func() {
			first.policies.Unlock()
			second.policies.Unlock()
		})
		DeferCleanup(goOn)
		leaving.queue("orders", `{retry: {delayTiers: [{delay: 1m}]}}`)
		deleted.delete("orders")
		Eventually(leaving.advisories).WithArguments("orders").Should(ContainElement(ContainSubstring("checking whether it is empty")))
		deleted.eventuallyDeleting("orders")
		for _, w := range []*world{leaving, deleted} {
			w.deadLettersTo("", "orders.retry.10s")
		}
		goOn()
		Eventually(leaving.advisories).WithArguments("orders").WithTimeout(deadline.For(time.Minute)).Should(ContainElement(
			ContainSubstring(`queue "orders.retry.10s" is no longer in the spec; kept: queue "audit" still dead-letters to it`)))
		Expect(leaving.queues()).To(ContainElement("orders.retry.10s"))
		deleted.gone("orders")
		deleted.vhost.DeleteQueue("audit")
		Expect(deleted.holds()).To(equalState(before))
		deleted.expectRetained(`queue "audit" dead-letters to this topology`, true, "deleted")
	})
})

var _ = Describe("A queue that somebody declares again while its ConsumerQueue is being deleted", func() {
	It("is left to them", func() {
		w := newWorld(matrix[0])
		w.queue("orders", `{}`)
		w.ready("orders")
		began := time.Now()
		w.delete("orders")
		Eventually(w.queues).WithTimeout(deadline.For(time.Minute)).WithPolling(20 * time.Millisecond).ShouldNot(ContainElement("orders"))
		w.vhost.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		w.gone("orders")
		Expect(time.Since(began)).To(BeNumerically("<", deadline.For(time.Minute)))
		Expect(w.queues()).To(ContainElement("orders"))
		w.expectRetained(`queue "orders" was deleted, and somebody else declared it again.*: .*queue "orders"`, true, "declared again")
	})
})

var _ = Describe("A queue that was to be declared and could not be", func() {
	It("is somebody else's if they declare it otherwise, even with deletionPolicy Delete", func() {
		w := newBareWorld(matrix[0])
		user := w.broker.NewUser(GinkgoTB(), "administrator")
		w.vhost.Grant(user, `^orders(\.dl[xq])?$`, ".*", ".*")
		w.secret(user.Username, user.Password)
		w.connection(v1alpha1.BrokerConnectionSpec{ResyncInterval: "10m"})
		w.queue("orders", `{deletionPolicy: Delete, retry: {delayTiers: [{delay: 10s}]}}`)
		w.eventually("orders", condition("Ready", metav1.ConditionFalse, "PermissionDenied"))
		w.vhost.DeclareQueue("orders.retry.10s", map[string]any{"x-queue-type": "quorum"})
		w.vhost.Publish("", "orders.retry.10s", "not Warren's")
		w.delete("orders")
		w.gone("orders")
		Expect(w.queues()).To(Equal([]string{"orders.retry.10s"}))
		if !slices.Contains(w.events("orders"), "RecreationRequired") { // else a look before the deletion found that already
			w.expectRetained(`it is not as Warren was about to declare it, so somebody else did: queue "orders.retry.10s"`, false, "intended")
		}
	})
})
