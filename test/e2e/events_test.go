package e2e

import (
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
	. "github.com/warren-mq/warren/test/testenv"
)

// hearingWorld has a BrokerConnection that receives events, and refreshes so rarely that no refresh finds a change in time.
func hearingWorld(broker brokers.Broker) *world {
	w, _ := proxiedHearingWorld(broker)
	return w
}

// proxiedHearingWorld is hearingWorld with a proxy for the management API.
func proxiedHearingWorld(broker brokers.Broker) (*world, *netfault.HTTPProxy) {
	w := newBareWorld(broker)
	proxy := netfault.NewHTTPProxy(GinkgoTB(), w.Broker.ManagementURI, netfault.HTTPOptions{})
	user := w.Broker.NewUser(GinkgoTB(), "administrator")
	w.VHost.Grant(user, ".*", ".*", ".*")
	w.Broker.GrantEvents(GinkgoTB(), user)
	w.Secret(user.Username, user.Password)
	w.Connect(v1alpha1.BrokerConnectionSpec{ResyncInterval: "1h", ManagementURI: proxy.URI})
	w.EventuallyConnection(Condition("Ready", metav1.ConditionTrue, "Connected"), HaveField("Status.Capabilities.Events", true))
	return w, proxy
}

// readings returns the times of refreshes through a proxy since the last call of Requests.
func readings(proxy *netfault.HTTPProxy) (times []time.Time) {
	for _, request := range proxy.Requests() {
		if strings.HasPrefix(request.Path, "/api/definitions/") {
			times = append(times, request.At)
		}
	}
	return times
}

// reconcilerErrors counts the reconciliations in a namespace that have failed.
func reconcilerErrors(namespace string) int {
	GinkgoHelper()
	return len(slices.DeleteFunc(logged(namespace), func(line string) bool { return !strings.Contains(line, "Reconciler error") }))
}

var _ = Describe("With events of the broker", func() {
	It("drift is corrected immediately", func() {
		w := hearingWorld(newest)
		w.VHost.DeclareExchange("shop", "topic", nil)
		w.Queue("orders", `{bindings: [{exchange: {name: shop}, routingKeys: [orders.#]}], retry: {delayTiers: [{delay: 10s}]}}`)
		w.Eventually("orders", Condition("Ready", metav1.ConditionTrue, "InSync"))
		declared := w.VHost.Definitions()
		w.VHost.DeleteQueue("orders.retry.10s")
		w.VHost.Unbind("shop", "orders", "orders.#", nil)
		w.VHost.DeleteExchange("orders.dlx")
		Eventually(w.VHost.Definitions).Should(Equal(declared))
		w.EventuallyReasons("orders", ContainElement("DriftCorrected"))
	})

	It("a deleted queue is declared again on the first attempt without a refresh", func() {
		w, proxy := proxiedHearingWorld(newest)
		w.VHost.DeclareExchange("shop", "topic", nil)
		names := []string{"orders", "invoices", "parcels"} // each is deleted once, because a queue that is deleted repeatedly is recreated late
		for _, name := range names {
			w.Queue(name, `{bindings: [{exchange: {name: shop}, routingKeys: [a, b, c, d, e, f, g, h]}]}`)
			w.Eventually(name, Condition("Ready", metav1.ConditionTrue, "InSync"))
		}
		declared, last := w.VHost.Definitions(), time.Now()
		Eventually(func() time.Duration { // the refreshes after a connect are over
			for _, at := range readings(proxy) {
				last = at
			}
			return time.Since(last)
		}).Should(BeNumerically(">", 3*time.Second))
		atOnce := 0
		for _, name := range names {
			failures := reconcilerErrors(w.Namespace)
			w.VHost.DeleteQueue(name)
			Eventually(w.VHost.Definitions).Should(Equal(declared))
			w.Eventually(name, Condition("Ready", metav1.ConditionTrue, "InSync"))
			if len(readings(proxy)) == 0 && reconcilerErrors(w.Namespace) == failures {
				atOnce++
			}
		}
		// A busy broker may announce the deletion of a queue long after that of its bindings, which then count as missing alone.
		Expect(atOnce).To(BeNumerically(">", 0), "queues that were declared again at once")
	})

	It("objects that were declared just before a ConsumerQueue are adopted", func() {
		w := hearingWorld(newest)
		w.VHost.DeclareQueue("orders.dlq", map[string]any{"x-queue-type": "quorum"})
		w.Queue("orders", `{}`)
		w.Eventually("orders", WithTransform(func(cq *v1alpha1.ConsumerQueue) v1alpha1.Origin {
			for _, entry := range cq.Status.Topology {
				if entry.Name == "orders.dlq" {
					return entry.Origin
				}
			}
			return ""
		}, Equal(v1alpha1.OriginAdopted)))
	})

	It("the status says why events are not received", func() {
		w := newBareWorld(newest)
		user := w.Broker.NewUser(GinkgoTB(), "administrator")
		w.VHost.Grant(user, ".*", ".*", ".*")
		w.Secret(user.Username, user.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{})
		w.EventuallyConnection(
			HaveField("Status.Capabilities.Events", false),
			HaveField("Status.Capabilities.EventsReason", ContainSubstring(`connecting to vhost "/" for events: access refused`)))
	})

	It("a user who gets the permission receives events", func() {
		w := newBareWorld(newest)
		user := w.Broker.NewUser(GinkgoTB(), "administrator")
		w.VHost.Grant(user, ".*", ".*", ".*")
		w.Secret(user.Username, user.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{ResyncInterval: "1h"})
		w.EventuallyConnection(HaveField("Status.Capabilities.EventsReason", Not(BeEmpty())))
		w.Broker.GrantEvents(GinkgoTB(), user)
		w.EventuallyConnection(HaveField("Status.Capabilities.Events", true))
	})
})
