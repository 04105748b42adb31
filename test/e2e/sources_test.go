package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("Source bindings", func() {
	const shop = `bindings: [{exchange: {name: orders.shop, type: topic}, routingKeys: ["#"]}]`
	fromShop := func() types.GomegaMatcher {
		return ContainElement(And(HaveField("Source", "orders.shop"), HaveField("Destination", "orders")))
	}

	It("are bound last, so that no message arrives while a delay tier cannot be declared", func() {
		w := newBareWorld(newest)
		user := newest.NewUser(GinkgoTB(), "management")
		w.VHost.Grant(user, "^orders", "^orders", "^orders") // the tiers also need amq.default
		w.Secret(user.Username, user.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{})
		w.Queue("orders", shop)
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "PermissionDenied"), Message(ContainSubstring("amq.default")))
		definitions := w.VHost.Definitions()
		Expect(definitions.Queues).To(ContainElement(HaveField("Name", "orders")))
		Expect(definitions.Bindings).NotTo(fromShop())

		By("being bound when everything else exists")
		w.VHost.Grant(user, "^orders", "^orders|^amq.default$", "^orders")
		w.Ready("orders")
		Expect(w.VHost.Definitions().Bindings).To(fromShop())
	})

	It("that were in sync are corrected although a delay tier is missing", Extended, func() {
		w := newWorld(newest)
		w.Queue("orders", shop)
		w.Ready("orders")
		user := newest.NewUser(GinkgoTB(), "management")
		w.VHost.Grant(user, "^orders", "^orders", "^orders")
		w.Secret(user.Username, user.Password)
		Eventually(func() *v1alpha1.ConsumerQueue {
			w.VHost.DeleteQueue("orders.retry.30s") // the former user may still declare it
			return w.Get("orders")
		}).Should(Condition("Ready", metav1.ConditionFalse, "PermissionDenied"))

		w.VHost.Unbind("orders.shop", "orders", "#", nil)
		Eventually(func() []brokers.Binding { return w.VHost.Definitions().Bindings }).Should(fromShop())
		Expect(w.VHost.Definitions().Queues).NotTo(ContainElement(HaveField("Name", "orders.retry.30s")))
	})
})
