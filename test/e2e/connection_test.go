package e2e

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("A BrokerConnection", func() {
	onEachBroker("reports the broker to which it is connected", func(broker brokers.Broker) {
		w := newWorld(broker)
		w.Queue("orders", `{}`)
		w.Queue("invoices", `{}`)
		bc := w.EventuallyConnection(Condition("Ready", metav1.ConditionTrue, "Connected"),
			HaveField("Status.ConsumerQueues", HaveValue(BeEquivalentTo(2))))
		Expect(bc.Status.BrokerVersion).To(Equal(broker.Version))
		Expect(bc.Status.Location.ClusterName).NotTo(BeEmpty())
		Expect(bc.Status.Capabilities).To(HaveValue(administratorsOf(broker)))
		Expect(kstatusOf(bc)).To(Equal(status.CurrentStatus))
	})

	// Resources may be created in any order: a missing Secret or BrokerConnection delays only the resources that need it.
	It("waits for a missing Secret and names it", func() {
		w := newBareWorld(newest)
		w.Connect(v1alpha1.BrokerConnectionSpec{})
		w.Queue("orders", `{}`)
		w.EventuallyConnection(Condition("Ready", metav1.ConditionFalse, "SecretNotFound"), Message(ContainSubstring(`Secret "rabbitmq"`)))
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "ConnectionNotReady"),
			Condition("Reconciling", metav1.ConditionTrue, "ConnectionNotReady"),
			Condition("Drifted", metav1.ConditionUnknown, "ConnectionNotReady"),
			Message(ContainSubstring(`Secret "rabbitmq" not found`)))
		Expect(kstatusOf(cq)).To(Equal(status.InProgressStatus))
		w.Secret(w.Broker.Username, w.Broker.Password)
		w.Ready("orders")
	})

	It("uses a changed Secret without a restart and never shows the password", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		const wrong = "hunter2-is-not-the-password"
		w.Secret(w.Broker.Username, wrong)
		bc := w.EventuallyConnection(Condition("Ready", metav1.ConditionFalse, "AuthenticationFailed"))
		Expect(bc.Status.Conditions).NotTo(ContainElement(HaveField("Message", ContainSubstring(wrong))))
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "ConnectionNotReady"), Message(Not(ContainSubstring(wrong))))
		w.Secret(w.Broker.Username, w.Broker.Password)
		w.Ready("orders")
	})

	// A ConsumerQueue uses only BrokerConnections of its own namespace, and default unless connectionRef names another. Other
	// specs have a BrokerConnection default in other namespaces.
	It("that is missing is named by the ConsumerQueue, which becomes Ready when it is created", func() {
		w := newBareWorld(newest)
		w.Queue("orders", `{connectionRef: {name: default}}`)
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "ConnectionNotReady"),
			Message(ContainSubstring(`BrokerConnection "default" not found`)))
		w.Secret(w.Broker.Username, w.Broker.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{})
		w.Ready("orders")
	})

	// The CRD of the RabbitMQ cluster operator need not be installed as long as no BrokerConnection uses it.
	It("follows a RabbitmqCluster and reports a missing one", func() {
		w := newBareWorld(newest)
		w.Connect(v1alpha1.BrokerConnectionSpec{ClusterRef: &v1alpha1.LocalObjectReference{Name: "rabbit"}})
		w.EventuallyConnection(Condition("Ready", metav1.ConditionFalse, "ClusterNotReady"), Message(ContainSubstring("no resource RabbitmqCluster")))
	})

	It("whose user may not read definitions reads the separate listings", func() {
		w := newBareWorld(newest)
		user := newest.NewUser(GinkgoTB(), "management")
		w.VHost.Grant(user, ".*", ".*", ".*")
		w.Secret(user.Username, user.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{})
		w.Queue("orders", typed)
		w.Ready("orders")
		before := w.VHost.Definitions()
		w.VHost.DeleteQueue("orders.dlq")
		Eventually(w.VHost.Definitions).Should(Equal(before))
		w.EventuallyConnection(Condition("Ready", metav1.ConditionTrue, "Connected"), HaveField("Status.Capabilities.Definitions", BeFalse()))
	})

	// The test ends with the tags and permissions of the example in docs/broker-connection.md: a ConsumerQueue `orders` that is bound to
	// exchange `shop`. They are enough to delete the queues, too, but not to recreate them.
	It("whose user may not declare names the missing permission and still compares existing objects", Extended, func() {
		w := newBareWorld(newest)
		user := newest.NewUser(GinkgoTB(), "management", "policymaker")
		w.VHost.Grant(user, "^$", ".*", ".*")
		w.Secret(user.Username, user.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{})
		w.VHost.DeclareExchange("shop", "topic", nil)
		w.Queue("orders", `{bindings: [{exchange: {name: shop}, routingKeys: [order.placed]}]}`)
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "PermissionDenied"),
			Condition("Stalled", metav1.ConditionTrue, "PermissionDenied"), Message(ContainSubstring("configure")))
		Expect(kstatusOf(cq)).To(Equal(status.FailedStatus))
		w.VHost.Grant(user, `^(orders($|\.)|warren-link-)`, `^(orders($|\.)|shop$)`, `^(orders($|\.)|shop$)`)
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "PermissionDenied"), Message(ContainSubstring("amq.default")))
		w.VHost.Grant(user, `^(orders($|\.)|warren-link-)`, `^(orders($|\.)|amq\.default$)`, `^(orders($|\.)|shop$)`)
		w.Ready("orders")

		w.Queue("orders", `{bindings: [{exchange: {name: shop}, routingKeys: [order.placed]}], queue: {messageTTL: 1h}, recreatePolicy: WhenEmpty}`)
		w.Eventually("orders", Condition("RecreationRequired", metav1.ConditionTrue, "RecreationBlocked"),
			Condition("Ready", metav1.ConditionFalse, "RecreationBlocked"), Message(ContainSubstring("lacks the configure permission")))
		w.EventuallyReasons("orders", Not(ContainElement("RecreationStarted")))

		w.Delete("orders")
		Eventually(func() bool { return w.Exists("orders") }).Should(BeFalse())
		Expect(w.queues()).To(BeEmpty())
	})

	It("that is suspended closes its connection and stops its ConsumerQueues", func() {
		w := newWorld(newest)
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.Connect(v1alpha1.BrokerConnectionSpec{Suspend: true})
		w.EventuallyConnection(Condition("Suspended", metav1.ConditionTrue, "Suspended"))
		w.Eventually("orders", Condition("Suspended", metav1.ConditionTrue, "Suspended"), Condition("Ready", metav1.ConditionTrue, "InSync"))
		Eventually(func() int { return w.Broker.CountConnections(GinkgoTB(), "warren "+w.VHost.Name) }).Should(BeZero())
		w.VHost.DeleteQueue("orders.dlq")
		Consistently(func() []brokers.Queue { return w.VHost.Definitions().Queues }).Should(HaveLen(4))
		w.Connect(v1alpha1.BrokerConnectionSpec{})
		w.Eventually("orders", NoCondition("Suspended"), Condition("Ready", metav1.ConditionTrue, "InSync"))
		Eventually(func() []brokers.Queue { return w.VHost.Definitions().Queues }).Should(HaveLen(5))
	})
})

var _ = Describe("A broker that cannot be read", Long, func() {
	// Ready stays True until a broker has been unreachable for three times resyncInterval.
	It("changes nothing for three intervals, then becomes Unreachable and its objects Unknown, never Missing", Extended, func() {
		w, proxy := newProxiedWorld("5s")
		w.Queue("orders", `{}`)
		synced := w.Counted("orders")

		proxy.Refuse()
		Consistently(func() *v1alpha1.ConsumerQueue { return w.Get("orders") }).WithTimeout(7 * time.Second).
			Should(HaveField("ResourceVersion", synced.ResourceVersion))
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "BrokerUnreachable"),
			Condition("Reconciling", metav1.ConditionTrue, "BrokerUnreachable"),
			Condition("Drifted", metav1.ConditionUnknown, "BrokerUnreachable"),
			Condition("RecreationRequired", metav1.ConditionFalse, "InSync"))
		Expect(cq.Status.Topology).To(HaveEach(HaveField("State", v1alpha1.StateUnknown)))
		Expect(kstatusOf(cq)).To(Equal(status.InProgressStatus))

		proxy.Accept()
		back := w.Ready("orders")
		Expect(back.Status.Topology).To(HaveEach(HaveField("State", v1alpha1.StateInSync)))
		w.ConsistentlyReasons("orders", Equal([]string{"Declared"}))
	})

	It("makes a new generation Reconciling immediately", func() {
		w, proxy := newProxiedWorld("20s")
		w.Queue("orders", `{}`)
		w.Ready("orders")
		proxy.Refuse()
		refused := 0
		w.request("orders", "now") // so that Warren notices the failure before the interval is over
		Eventually(func() int {
			for _, request := range proxy.Requests() {
				if request.Status == 0 {
					refused++
				}
			}
			return refused
		}).Should(BeNumerically(">", 1), "a request is refused, and its repetition")
		w.Queue("orders", `{retry: {maxAttempts: 3}}`)
		w.Eventually("orders", Condition("Reconciling", metav1.ConditionTrue, "ConnectionNotReady"))
		proxy.Accept()
		w.Ready("orders")
	})
})

var _ = Describe("In a steady state", func() {
	// All ConsumerQueues of a BrokerConnection share one AMQP connection and one view of the vhost.
	// A status is written when something changes, not on each refresh.
	// With an administrator's user, Warren reads the vhost with one request for its definitions per interval. Two small requests are for the
	// user's tags and for the connections of the vhost. A fourth one counts messages, here each second instead of each minute.
	It("nothing is written to the API server, and one request per interval reads the vhost", func() {
		w, proxy := newProxiedWorld("1s")
		for _, name := range []string{"a", "b", "c"} {
			w.Queue(name, typedAs(name))
		}
		versions := func() []string {
			var found []string
			for _, name := range []string{"a", "b", "c"} {
				found = append(found, w.Get(name).ResourceVersion)
			}
			return append(found, w.Connection().ResourceVersion)
		}
		for _, name := range []string{"a", "b", "c"} {
			w.Counted(name)
		}
		w.EventuallyConnection(HaveField("Status.ConsumerQueues", HaveValue(BeEquivalentTo(3))),
			HaveField("Status.Capabilities.EventsReason", Not(BeEmpty()))) // the last write: the user has no permission for events
		before, began := versions(), time.Now()
		proxy.Requests()
		requests, definitions := 0, 0
		refreshes := func() int {
			for _, request := range proxy.Requests() {
				requests++
				if strings.HasPrefix(request.Path, "/api/definitions/") {
					definitions++
				}
			}
			return definitions
		}
		Consistently(versions).WithTimeout(6 * time.Second).WithPolling(time.Second).Should(Equal(before))
		Eventually(refreshes).WithTimeout(deadline.For(3*time.Second)).Should(BeNumerically(">=", 3), "three refreshes, one each interval")
		intervals := time.Since(began).Seconds()
		Expect(definitions).To(BeNumerically("<=", intervals+2), "in %.1f intervals of a second", intervals)
		Expect(requests).To(BeNumerically("<=", 4*(intervals+2)), "in %.1f intervals of a second", intervals)
		Eventually(func() int { return w.Broker.CountConnections(GinkgoTB(), "warren "+w.VHost.Name) }).Should(Equal(1))
	})
})

// request sets the annotation that requests a refresh.
func (w *world) request(name, value string) {
	GinkgoHelper()
	cq := w.Get(name)
	patch := client.MergeFrom(cq.DeepCopy())
	metav1.SetMetaDataAnnotation(&cq.ObjectMeta, v1alpha1.RequestedAtAnnotation, value)
	Expect(kube.Patch(ctx(), cq, patch)).To(Succeed())
}

var _ = Describe("The annotation requested-at", func() {
	It("triggers a refresh and is echoed in the status", func() {
		w := newBareWorld(newest)
		w.Secret(w.Broker.Username, w.Broker.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{ResyncInterval: "1h"})
		w.Queue("orders", `{}`)
		w.Ready("orders")
		w.VHost.DeleteQueue("orders.dlq")
		w.request("orders", "2026-11-21T10:00:00Z")
		Eventually(func() string { return w.Get("orders").Status.LastHandledReconcileAt }).Should(Equal("2026-11-21T10:00:00Z"))
		Eventually(w.queues).Should(ContainElement("orders.dlq"))
	})
})

var _ = Describe("The annotation requested-at of a BrokerConnection", func() {
	It("updates the capabilities after a change of the user's tags and is echoed in the status", func() {
		w := newBareWorld(newest)
		user := w.Broker.NewUser(GinkgoTB(), "management")
		w.VHost.Grant(user, ".*", ".*", ".*")
		w.Secret(user.Username, user.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{ResyncInterval: "1h"})
		w.EventuallyConnection(Condition("Ready", metav1.ConditionTrue, "Connected"), HaveField("Status.Capabilities.Policies", false))
		w.Broker.SetTags(GinkgoTB(), user, "management", "policymaker")
		bc := w.Connection()
		patch := client.MergeFrom(bc.DeepCopy())
		metav1.SetMetaDataAnnotation(&bc.ObjectMeta, v1alpha1.RequestedAtAnnotation, "now")
		Expect(kube.Patch(ctx(), bc, patch)).To(Succeed())
		w.EventuallyConnection(HaveField("Status.Capabilities.Policies", true), HaveField("Status.LastHandledReconcileAt", "now"))
	})
})

var _ = Describe("A broker behind TLS", func() {
	It("is reached with its CA and a client certificate", func() {
		secured, certificates := brokers.AllTLS(GinkgoTB())
		w := newBareWorld(secured[0])
		for name, data := range map[string]map[string][]byte{
			"ca":     {"ca.crt": certificates.CA},
			"client": {"tls.crt": certificates.ClientCert, "tls.key": certificates.ClientKey},
		} {
			w.Apply(&corev1.Secret{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data,
			})
		}
		w.Secret(w.Broker.Username, w.Broker.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{TLS: &v1alpha1.TLSSpec{
			CASecretRef: &v1alpha1.LocalObjectReference{Name: "ca"}, ClientSecretRef: &v1alpha1.LocalObjectReference{Name: "client"},
		}})
		w.Queue("orders", `{}`)
		w.Ready("orders")
	})
})

// administratorsOf returns the capabilities of an administrator on a broker of this version.
func administratorsOf(broker brokers.Broker) types.GomegaMatcher {
	return SatisfyAll(
		HaveField("Definitions", true), HaveField("Policies", true),
		HaveField("DelayedRedelivery", versionOf(broker).AtLeast(vhost.RabbitMQ43)))
}

// typedAs is typed with a different prefix of names.
func typedAs(name string) string {
	return `
bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order.placed]}]
retry: {exchange: {name: retries}, delayTiers: [{delay: 10s}]}
deadLetter: {exchange: {name: ` + name + `.dead, type: direct}}`
}
