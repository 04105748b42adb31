package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/conformance"
	"github.com/warren-mq/warren/test/netfault"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("ConsumerQueues that share exchanges and a dead-letter queue", func() {
	It("retain the objects of the others when some are deleted, and leave nothing when all are deleted", Long, func() {
		vector := conformance.Named(GinkgoTB(), "seed-002-freeflow")
		all, some := newPatientWorld(), newPatientWorld()
		want, _ := vector.Expect(versionOf(newest))
		queues := vector.ConsumerQueues
		rand.Shuffle(len(queues), func(i, j int) { queues[i], queues[j] = queues[j], queues[i] })
		for _, w := range []*world{all, some} {
			w.applyVector(vector)
			for _, cq := range queues {
				w.Ready(cq.Name)
			}
		}
		stays := queues[0]
		for i, cq := range queues {
			all.Delete(cq.Name)
			if i > 0 {
				some.Delete(cq.Name)
			}
		}
		for i, cq := range queues {
			all.gone(cq.Name)
			if i > 0 {
				some.gone(cq.Name)
			}
		}
		Expect(all.holds()).To(equalState(conformance.State{Exchanges: slices.DeleteFunc(slices.Clone(want.Exchanges),
			func(e conformance.Exchange) bool { return e.Name != "freeflow.events" })}))
		some.Ready(stays.Name)
		left := ownersPart(want, stays.QueueName())
		Expect(some.holds()).To(equalState(left))

		By("retaining the objects of the last one until it is deleted")
		some.Delete(stays.Name)
		some.gone(stays.Name)
		Expect(some.holds()).To(equalState(all.holds()))
	})

	It("do so across namespaces that use different addresses of the vhost", Extended, func() {
		const shared = `{deadLetter: {exchange: {name: dead, type: direct, sharedWith: [%[2]s]}, routingKey: %[1]q, queue: {name: graveyard, sharedWith: [%[2]s]}}}`
		here := newWorld(newest)
		there := here.otherNamespace()
		here.Queue("orders", fmt.Sprintf(shared, "orders", there.Namespace))
		there.Queue("invoices", fmt.Sprintf(shared, "invoices", here.Namespace))
		here.Ready("orders")
		there.Ready("invoices")
		here.Delete("orders")
		here.gone("orders")
		here.expectRetained(`exchange "dead"; queue "graveyard": shared with a ConsumerQueue in another namespace`, false, "shared")
		cq := there.Ready("invoices")
		Expect(cq.Status.Changes).To(BeEmpty())
		state := there.holds()
		Expect(state.Bindings).To(ConsistOf(conformance.Binding{Source: "dead", Destination: "graveyard", RoutingKey: "invoices"}))
		there.Delete("invoices")
		there.gone("invoices")
		Expect(there.holds()).To(equalState(conformance.State{}))
	})
})

var _ = Describe("A dead-letter queue that another namespace names", func() {
	It("is shared with its holder's consent, and stays shared after the consent is withdrawn", func() {
		here := newWorld(newest)
		there := here.otherNamespace()
		spec := func(consent string) string {
			return fmt.Sprintf(`{retry: {policy: None}, deadLetter: {queue: {name: graveyard%s}}}`, consent)
		}
		advisories := func(w *world, name string) func() []v1alpha1.Advisory {
			return func() []v1alpha1.Advisory { return w.Get(name).Status.Advisories }
		}
		unconsented := ContainElement(And(HaveField("Code", v1alpha1.AdvisorySharedWithoutConsent), HaveField("Name", "graveyard")))
		here.Queue("orders", spec(""))
		here.Ready("orders")
		before := here.holds()
		there.Queue("invoices", spec(""))
		there.Eventually("invoices", Condition("Ready", metav1.ConditionFalse, "Conflict"), Message(And(
			ContainSubstring(fmt.Sprintf(`add namespace %q to spec.deadLetter.queue.sharedWith`, there.Namespace)),
			Not(ContainSubstring(here.Namespace)), Not(ContainSubstring("orders")))))
		Expect(here.holds()).To(equalState(before))

		here.Queue("orders", spec(fmt.Sprintf(", sharedWith: [%s]", there.Namespace)))
		there.Ready("invoices")
		here.Queue("orders", spec(""))
		Eventually(advisories(here, "orders")).Should(unconsented)
		Eventually(advisories(there, "invoices")).Should(unconsented)
		there.Ready("invoices")
		here.Ready("orders")

		there.Delete("invoices")
		there.gone("invoices")
		Eventually(advisories(here, "orders")).ShouldNot(unconsented)
	})

	It("reports a binding of another namespace that reads it", Extended, func() {
		here := newWorld(newest)
		there := here.otherNamespace()
		here.Queue("orders", `{retry: {policy: None}}`)
		here.Ready("orders")
		there.Queue("reader", `{retry: {policy: None}, bindings: [{exchange: {name: orders.dlx}}]}`)
		there.Ready("reader")
		Eventually(func() []v1alpha1.TopologyEntry { return here.Get("orders").Status.Topology }).Should(ContainElement(v1alpha1.TopologyEntry{
			Kind: v1alpha1.KindBinding, Source: "orders.dlx", Destination: "reader", State: v1alpha1.StateForeign,
		}))
		here.Ready("orders")
	})
})

// conflict is a pair of specs: first exists before second is created. The message names the object that second cannot have.
type conflict struct{ first, second, message string }

var conflicts = map[string]conflict{
	"the same main queue": {
		`{queue: {name: work}}`, `{queue: {name: work, messageTTL: 1m}, deadLetter: {exchange: {name: x}, queue: {name: y}}, retry: {policy: None}}`,
		`has queue "work" as its main queue`,
	},
	"a dead-letter queue with other settings": {
		`{deadLetter: {queue: {name: graveyard}}}`, `{deadLetter: {queue: {name: graveyard, maxLength: 5}}}`,
		`has the dead-letter queue "graveyard" with other settings`,
	},
}

var moreConflicts = map[string]conflict{
	"the same main queue with the same settings": {`{queue: {name: work}}`, `{queue: {name: work}}`, `has queue "work" as its main queue`},
	"the same delay tier": {
		`{retry: {delayTiers: [{delay: 1m, queueName: wait}]}}`, `{retry: {delayTiers: [{delay: 1m, queueName: wait}]}}`,
		`has queue "wait" as its delay tier`,
	},
	"a dead-letter queue as main queue": {
		`{deadLetter: {queue: {name: graveyard}}}`, `{queue: {name: graveyard}}`, `has queue "graveyard" as its dead-letter queue`,
	},
	"an exchange in another role": {
		`{deadLetter: {exchange: {name: shop, type: direct}}}`, `{retry: {exchange: {name: shop}}}`,
		`has exchange "shop" as its dead-letter exchange of type direct (here the retry exchange of type direct)`,
	},
	"a fanout exchange for two dead-letter queues": {
		`{deadLetter: {exchange: {name: dead}, queue: {name: one}}}`, `{deadLetter: {exchange: {name: dead}, queue: {name: two}}}`,
		`routes the fanout exchange "dead" to dead-letter queue "one" (here to "two")`,
	},
	"a key of a retry exchange": {
		`{retry: {exchange: {name: retry}, delayTiers: [{delay: 1m, routingKey: soon}]}}`,
		`{retry: {exchange: {name: retry}, delayTiers: [{delay: 1m, routingKey: soon}]}}`,
		`routes key "soon" of the retry exchange "retry" to delay tier "first.retry.1m" (here to "second.retry.1m")`,
	},
}

var (
	_ = Describe("ConsumerQueues that name", Ordered, ContinueOnFailure, func() { describeConflicts(conflicts) })
	_ = Describe("ConsumerQueues that name", Ordered, ContinueOnFailure, Extended, func() { describeConflicts(moreConflicts) })
)

// describeConflicts deletes all holders at the same time, because each deletion takes several seconds.
func describeConflicts(conflicts map[string]conflict) {
	worlds, before := map[string]*world{}, map[string]conformance.State{}
	BeforeAll(func() {
		for name, test := range conflicts {
			w := newWorld(newest)
			worlds[name] = w
			w.Queue("first", test.first)
			w.Ready("first")
			before[name] = w.holds()
			w.Queue("second", test.second)
		}
	})

	for name, test := range conflicts {
		It(name+" name each other in their conflicts", func() {
			w := worlds[name]
			showLog(w.Namespace)
			cq := w.Eventually("second", Condition("Ready", metav1.ConditionFalse, "Conflict"),
				Condition("Stalled", metav1.ConditionTrue, "Conflict"), Condition("Drifted", metav1.ConditionUnknown, "Conflict"),
				Condition("RecreationRequired", metav1.ConditionUnknown, "Conflict"),
				Message(ContainSubstring("ConsumerQueue "+w.Namespace+"/first "+test.message)))
			Expect(cq.Status.Topology).To(BeEmpty())
			Expect(w.holds()).To(equalState(before[name]))
			w.EventuallyReasons("second", Equal([]string{"Conflict"}))
			w.Ready("first")
		})
	}

	Describe("when the holder is deleted", func() {
		BeforeAll(func() {
			for _, w := range worlds {
				w.Delete("first")
			}
		})

		for name := range conflicts {
			It("become its holder: "+name, func() {
				w := worlds[name]
				showLog(w.Namespace)
				w.gone("first")
				w.readyWithin("second", 10*time.Second)
			})
		}
	})
}

var _ = Describe("ConsumerQueues that name one object with different settings", func() {
	It("name each other if that is the type of a source exchange, which stays unchanged when the holder is deleted", Extended, func() {
		w := newWorld(newest)
		w.Queue("first", `{bindings: [{exchange: {name: shop, type: topic}}]}`)
		w.Ready("first")
		w.Queue("second", `{bindings: [{exchange: {name: shop, type: direct}}]}`)
		w.Eventually("second", Condition("Ready", metav1.ConditionFalse, "Conflict"), Message(ContainSubstring(
			`first has exchange "shop" as its source exchange of type topic (here the source exchange of type direct)`)))
		w.Queue("third", `{bindings: [{exchange: {name: shop}}, {exchange: {name: second.dlx}}]}`)
		w.Eventually("third", Condition("Ready", metav1.ConditionFalse, "ExchangeMissing"))
		w.Queue("first", `{deletionPolicy: Delete, bindings: [{exchange: {name: shop, type: topic}}]}`)
		w.Delete("first")
		w.gone("first")
		w.Eventually("second", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
	})

	It("become Ready when the holder changes its spec, also across namespaces", Extended, func() {
		here := newWorld(newest)
		there := here.otherNamespace()
		here.Queue("orders", `{deadLetter: {queue: {name: graveyard}}}`)
		here.Ready("orders")
		there.Queue("invoices", `{deadLetter: {queue: {name: graveyard, maxLength: 5}}}`)
		there.Eventually("invoices", Condition("Ready", metav1.ConditionFalse, "Conflict"),
			Message(And(ContainSubstring("a ConsumerQueue in another namespace uses queue"), Not(ContainSubstring(here.Namespace)))))
		here.Queue("orders", `{}`)
		here.Ready("orders")
		there.readyWithin("invoices", time.Minute) // the empty queue is deleted and declared with the new settings
	})

	It("do not change the holder, even if it is younger and changes its spec", Extended, func() {
		w := newWorld(newest)
		w.Queue("first", `{deadLetter: {queue: {name: one}}}`)
		w.Ready("first")
		w.Queue("second", `{deadLetter: {queue: {name: shared}}}`)
		w.Ready("second")
		w.Queue("first", `{deadLetter: {queue: {name: shared, maxLength: 5}}}`)
		w.Eventually("first", Condition("Ready", metav1.ConditionFalse, "Conflict"))
		w.Ready("second")
		w.Queue("first", `{deadLetter: {queue: {name: shared}, exchange: {name: first.dlx}}}`)
		w.Ready("first")
	})

	It("make exactly one of several new ConsumerQueues the holder, which is Ready", func() {
		w := newWorld(newest)
		for i := range 6 {
			w.Queue(fmt.Sprintf("newcomer-%d", i), `{queue: {name: work}, retry: {policy: None}}`)
		}
		states := func() map[string]int {
			counts := map[string]int{}
			for _, cq := range w.All() {
				for _, condition := range cq.Status.Conditions {
					if condition.Type == "Ready" {
						counts[condition.Reason]++
					}
				}
			}
			return counts
		}
		Eventually(states).Should(Equal(map[string]int{"InSync": 1, "Conflict": 5}))
		Consistently(states).Should(Equal(map[string]int{"InSync": 1, "Conflict": 5}))
	})
})

var _ = Describe("Another instance on the vhost", func() {
	It("is reported by the advisory SharedVHost, which does not affect Ready, until it stops", func() {
		w := newWorld(newest)
		w.Queue("orders", `{retry: {policy: None}}`)
		w.Ready("orders")
		other, err := amqp.DialConfig(w.Broker.AMQPURI, amqp.Config{
			SASL:  []amqp.Authentication{&amqp.PlainAuth{Username: w.Broker.Username, Password: w.Broker.Password}},
			Vhost: w.VHost.Name, Properties: amqp.Table{"product": "Warren", "warren_owner": "of another cluster"},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { _ = other.Close() })
		advisories := func() []v1alpha1.Advisory { return w.Get("orders").Status.Advisories }
		Eventually(advisories).Should(ConsistOf(HaveField("Code", v1alpha1.AdvisorySharedVHost)))
		w.Ready("orders")
		Expect(other.Close()).To(Succeed())
		Eventually(advisories).Should(BeEmpty())
	})
})

// otherNamespace returns another namespace whose connection names the same vhost in a different way.
func (w *world) otherNamespace() *world {
	GinkgoHelper()
	other := newWorldAt(w.VHost)
	proxy := netfault.NewHTTPProxy(GinkgoTB(), w.Broker.ManagementURI, netfault.HTTPOptions{})
	other.Secret(w.Broker.Username, w.Broker.Password)
	other.Connect(v1alpha1.BrokerConnectionSpec{ManagementURI: proxy.URI})
	return other
}

// ownersPart returns the part of a state that belongs to one main queue and its delay tiers, and the shared objects.
func ownersPart(state conformance.State, main string) conformance.State {
	ours := func(queue string) bool {
		return queue == main || queue == "freeflow.events.dlq" || strings.HasPrefix(queue, main+".retry.")
	}
	return conformance.State{
		Exchanges: state.Exchanges,
		Queues:    slices.DeleteFunc(slices.Clone(state.Queues), func(q conformance.Queue) bool { return !ours(q.Name) }),
		Bindings:  slices.DeleteFunc(slices.Clone(state.Bindings), func(b conformance.Binding) bool { return !ours(b.Destination) }),
	}
}
