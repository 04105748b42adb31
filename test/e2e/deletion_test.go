package e2e

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/conformance"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	. "github.com/warren-mq/warren/test/testenv"
)

// deletion is the expected result for a topology when its ConsumerQueue "orders" is deleted. All deletions on a
// broker run at the same time, because each takes several seconds.
type deletion struct {
	// spec is typed by default.
	spec string
	// before changes the broker after the resource became Ready.
	before func(w *world)
	// stays selects the retained objects; all if nil.
	stays func(conformance.State) conformance.State
	// note is a regular expression for the Retained Event; empty if there is none.
	note string
	// warning reports whether the Event is a Warning.
	warning bool
}

// onlySources selects the objects of typed that Warren never deletes: the exchanges named in bindings and source exchanges, even if
// Warren declared them.
func onlySources(state conformance.State) conformance.State {
	return conformance.State{Exchanges: slices.DeleteFunc(slices.Clone(state.Exchanges), func(e conformance.Exchange) bool { return e.Name != "shop" })}
}

var deletions = map[string]deletion{
	"is empty: all objects except source exchanges are deleted": {stays: onlySources},
	"has a message: it stays unchanged": {
		before: func(w *world) { w.VHost.Publish("shop", "order.paid", "a message") },
		note:   `retained exchange "retries"; exchange "dead"; queue "orders"; .*: not empty: queue "orders" holds 1 message`, warning: true,
	},
	"has a consumer: it stays unchanged": {
		before: func(w *world) { w.consume("orders") },
		note:   `queue "orders" has 1 consumer`, warning: true,
	},
	"has a message in a delay tier: it stays unchanged": {
		before: func(w *world) { w.VHost.Publish("retries", "orders.retry.1m", "a message") },
		note:   `queue "orders.retry.1m" holds 1 message`, warning: true,
	},
	"has a message in the dead-letter queue: only this queue and its exchange stay": {
		before: func(w *world) { w.VHost.Publish("dead", "orders.dlq", "a message") },
		stays: func(s conformance.State) conformance.State {
			return conformance.State{
				Exchanges: slices.DeleteFunc(slices.Clone(s.Exchanges), func(e conformance.Exchange) bool { return e.Name == "retries" }),
				Queues:    slices.DeleteFunc(slices.Clone(s.Queues), func(q conformance.Queue) bool { return q.Name != "orders.dlq" }),
				Bindings:  slices.DeleteFunc(slices.Clone(s.Bindings), func(b conformance.Binding) bool { return b.Destination != "orders.dlq" }),
			}
		},
		note: `retained queue "orders.dlq": .*queue "orders.dlq" holds 1 message.*\. exchange "dead": "orders.dlq" is bound to it$`,
	},
	"has the deletionPolicy Retain: it stays": {
		spec: typed + "\ndeletionPolicy: Retain", note: "deletionPolicy is Retain",
	},
	"has the deletionPolicy Delete: all objects except source exchanges are deleted": {
		spec: typed + "\ndeletionPolicy: Delete",
		before: func(w *world) {
			w.VHost.Publish("shop", "order.paid", "a message")
			w.VHost.Publish("dead", "orders.dlq", "a message")
			w.consume("orders")
		},
		stays: onlySources,
	},
	"is suspended: it stays": {
		spec: typed + "\nsuspend: true", note: "spec.suspend is true", warning: true,
	},
	"is used by others: exchanges with foreign bindings and objects to which foreign queues dead-letter stay": {
		before: func(w *world) {
			w.VHost.DeclareQueue("audit", map[string]any{"x-queue-type": "quorum"})
			w.VHost.Bind("retries", "audit", "audit", nil)
			w.VHost.DeclareQueue("other", map[string]any{"x-queue-type": "quorum", "x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "orders.dlq"})
		},
		stays: func(s conformance.State) conformance.State {
			return conformance.State{
				Exchanges: s.Exchanges,
				Queues: slices.DeleteFunc(slices.Clone(s.Queues), func(q conformance.Queue) bool {
					return !slices.Contains([]string{"audit", "other", "orders.dlq"}, q.Name)
				}),
				Bindings: slices.DeleteFunc(slices.Clone(s.Bindings), func(b conformance.Binding) bool {
					return !slices.Contains([]string{"audit", "orders.dlq"}, b.Destination)
				}),
			}
		},
		note: `queue "orders.dlq": queue "other" dead-letters to it\. exchange "retries": "audit" is bound to it\. exchange "dead": "orders.dlq" is bound to it`,
	},
}

var _ = Describe("The deletion of a ConsumerQueue", func() {
	togetherOnEachBroker("follows its deletionPolicy", func(broker brokers.Broker) {
		worlds, before := map[string]*world{}, map[string]conformance.State{}
		BeforeAll(func() {
			for name, d := range deletions {
				w := newWorld(broker)
				worlds[name] = w
				w.Queue("orders", typed)
				w.Ready("orders")
				if d.spec != "" {
					w.Queue("orders", d.spec)
					w.Eventually("orders")
				}
				if d.before != nil {
					d.before(w)
				}
				before[name] = w.holds()
			}
			for _, w := range worlds {
				w.Delete("orders")
			}
		})

		for name, d := range deletions {
			It("when the topology "+name, func() {
				w, want := worlds[name], before[name]
				showLog(w.Namespace)
				w.gone("orders")
				if d.stays != nil {
					want = d.stays(want)
				}
				Expect(w.holds()).To(equalState(want))
				Eventually(w.VHost.Policies).Should(BeEmpty())
				w.expectRetained(d.note, d.warning, name)
			})
		}
	})

	It("does not wait if the broker is unreachable", Long, func() {
		gone, suspended, never := newWorld(newest), newWorld(newest), newBareWorld(newest)
		never.Queue("orders", typed)
		for _, w := range []*world{gone, suspended} {
			w.Queue("orders", typed)
			w.Ready("orders")
		}
		Expect(kube.Delete(ctx(), &v1alpha1.BrokerConnection{ObjectMeta: metav1.ObjectMeta{Namespace: gone.Namespace, Name: "default"}})).To(Succeed())
		Eventually(func() error {
			return kube.Get(ctx(), client.ObjectKey{Namespace: gone.Namespace, Name: "default"}, &v1alpha1.BrokerConnection{})
		}).Should(MatchError(apierrors.IsNotFound, "IsNotFound"), "it does not wait for ConsumerQueues that nobody deletes")
		suspended.Disconnect()
		before := gone.holds()
		for _, w := range []*world{gone, suspended, never} {
			w.Delete("orders")
			w.gone("orders")
		}
		gone.expectRetained(`queue "orders".*: BrokerConnection "default" is gone`, true, "gone")
		suspended.expectRetained(`queue "orders".*: BrokerConnection "default" is suspended`, true, "suspended")
		never.expectRetained("", false, "never declared")
		Expect(gone.holds()).To(equalState(before))
		Expect(suspended.holds()).To(equalState(before))
	})

	It("retains a dead-letter queue that a retained queue still dead-letters to through its own exchange", func() {
		w := newWorld(newest)
		w.Queue("orders", `{retry: {policy: None}, deadLetter: {queue: {name: team.dlq}}}`)
		w.Queue("bills", `{retry: {policy: None}, deadLetter: {queue: {name: team.dlq}}, deletionPolicy: Retain}`)
		w.AllReady(2)
		w.Delete("bills")
		w.gone("bills")
		w.Delete("orders")
		w.gone("orders")
		Expect(w.queues()).To(ConsistOf("bills", "team.dlq"))
		w.EventuallyEvents("Retained", ContainElement(SatisfyAll(HaveField("Regarding.Name", "orders"),
			HaveField("Note", ContainSubstring(`queue "team.dlq": queue "bills" dead-letters to it`)))))
		w.VHost.Publish("", "bills", "a message")
		w.rejectOften("bills", 0)
		w.EventuallyMessages("team.dlq", Equal(1))
	})

	It("deletes nothing that existed before and never matched the spec", func() {
		w := newWorld(newest)
		w.VHost.DeclareQueue("orders", map[string]any{"x-queue-type": "classic"})
		w.VHost.DeclareQueue("orders.retry.30s", map[string]any{ // matches the spec and is used by the owner of the main queue
			"x-queue-type": "quorum", "x-message-ttl": 30000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		})
		w.Queue("orders", `{}`)
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		before := w.holds()
		w.Delete("orders")
		w.gone("orders")
		Expect(w.holds()).To(equalState(before))
		w.expectRetained(`queue "orders.retry.30s".*: Warren did not declare main queue "orders", or another ConsumerQueue shares it`, true, "never ours")
	})

	It("retains a dead-letter queue that existed before and never matched the spec, with its exchange and binding", func() {
		w := newWorld(newest)
		w.Queue("orders", `{deletionPolicy: Retain, deadLetter: {queue: {maxLength: 5}}}`)
		w.Ready("orders")
		w.Delete("orders")
		w.gone("orders")
		w.Queue("orders", `{}`)
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		bound := w.VHost.Definitions().Bindings
		w.Delete("orders")
		w.gone("orders")
		Expect(w.queues()).To(Equal([]string{"orders.dlq"}))
		Expect(w.VHost.Definitions().Bindings).To(Equal(bound))
		w.EventuallyEvents("Retained", ContainElement(HaveField("Note",
			ContainSubstring(`queue "orders.dlq": it never matched the spec, and another client declared it`))))
	})

	It("with driftPolicy Report deletes nothing that Warren did not declare", Extended, func() {
		main := map[string]any{
			"x-queue-type": "quorum", "x-dead-letter-exchange": "orders.dlx",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		}
		delayTier := map[string]any{ // matches the spec
			"x-queue-type": "quorum", "x-message-ttl": 30000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		}
		found, mixed, emptied := newWorld(newest), newWorld(newest), newWorld(newest)
		found.VHost.DeclareQueue("orders.retry.30s", delayTier)
		found.Queue("orders", `{driftPolicy: Report, retry: {delayTiers: [{delay: 30s}]}}`)
		found.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "Drifted"))

		mixed.VHost.DeclareQueue("orders.retry.30s", delayTier)
		emptied.VHost.DeclareQueue("orders", main)
		for _, w := range []*world{mixed, emptied} {
			w.Queue("orders", `{retry: {delayTiers: [{delay: 30s}]}}`)
			w.Ready("orders")
			w.Queue("orders", `{driftPolicy: Report, retry: {delayTiers: [{delay: 30s}]}}`)
			w.Ready("orders")
		}
		emptied.VHost.DeleteQueue("orders")
		emptied.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "Drifted"))

		before := map[*world]conformance.State{}
		for _, w := range []*world{found, mixed, emptied} {
			before[w] = w.holds()
			w.Delete("orders")
		}
		for w, note := range map[*world]string{
			found:   `queue "orders.retry.30s": driftPolicy is Report, and other clients declared this topology`,
			mixed:   `queue "orders".*: .*queue "orders.retry.30s" dead-letters to this topology`,
			emptied: `: driftPolicy is Report, and other clients declared this topology`,
		} {
			w.gone("orders")
			Expect(w.holds()).To(equalState(before[w]), note)
			w.expectRetained(note, w == mixed, note)
		}
	})

	It("retains tiers with messages that were found beside a main queue of another owner", Extended, func() {
		w := newWorld(newest)
		w.VHost.DeclareQueue("orders", map[string]any{"x-queue-type": "classic"})
		w.VHost.DeclareQueue("orders.retry.30s", map[string]any{
			"x-queue-type": "quorum", "x-message-ttl": 30000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		})
		w.Queue("orders", `{deletionPolicy: Delete}`)
		w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		before := w.holds()
		w.Delete("orders")
		w.gone("orders")
		Expect(w.holds()).To(equalState(before))
		w.expectRetained(`queue "orders.retry.30s": another client declared both this object and main queue "orders"`, false, "found")
	})

	It("deletes nothing in another vhost to which the connection was changed", Extended, func() {
		w := newWorld(newest)
		w.Queue("orders", typed)
		w.Ready("orders")
		before := w.holds()
		Expect(kube.Delete(ctx(), &v1alpha1.BrokerConnection{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "default"}})).To(Succeed())
		Eventually(func() error {
			return kube.Get(ctx(), client.ObjectKey{Namespace: w.Namespace, Name: "default"}, &v1alpha1.BrokerConnection{})
		}).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		first := w.VHost
		w.VHost = w.Broker.NewVHost(GinkgoTB())
		w.VHost.DeclareQueue("orders", map[string]any{"x-queue-type": "classic"})
		w.Connect(v1alpha1.BrokerConnectionSpec{})
		cq := w.Eventually("orders", Condition("Ready", metav1.ConditionFalse, "RecreationRequired"))
		Expect(cq.Status.Location.VHost).To(Equal(w.VHost.Name))
		w.expectRetained(`Warren retains these objects in vhost ".*" of cluster ".*": exchange "retries"`, true, "moved")
		w.Queue("orders", typed+"\ndeletionPolicy: Delete")
		w.Delete("orders")
		w.gone("orders")
		Expect(w.queues()).To(Equal([]string{"orders"}))
		w.VHost = first
		Expect(w.holds()).To(equalState(before))
	})

	It("is retried while the broker is down, and ends after the retry budget", Extended, Long, func() {
		back, proxyOfBack := newProxiedWorld("1s")
		lost, proxyOfLost := newProxiedWorld("1s")
		for _, w := range []*world{back, lost} {
			w.Queue("orders", typed)
			w.Ready("orders")
		}
		for w, proxy := range map[*world]*netfault.HTTPProxy{back: proxyOfBack, lost: proxyOfLost} {
			proxy.Refuse()
			w.Delete("orders")
			w.EventuallyDeleting("orders")
		}
		proxyOfBack.Accept()
		before := lost.holds()
		back.gone("orders")
		Expect(back.holds()).To(equalState(onlySources(before)))
		Eventually(lost.Exists).WithArguments("orders").WithTimeout(deadline.For(90 * time.Second)).Should(BeFalse())
		lost.expectRetained(`exchange "retries"; exchange "dead"; queue "orders".*: not deleted within 1m: `, true, "lost")
		Expect(lost.holds()).To(equalState(before))
	})
})

// gone waits until a resource is deleted. That takes two checks of main queue and tiers, 10 s apart, and
// two checks of the dead-letter queue.
func (w *world) gone(name string) {
	GinkgoHelper()
	Eventually(w.Exists).WithArguments(name).WithTimeout(deadline.For(60 * time.Second)).Should(BeFalse())
}

// expectRetained checks the Retained Events of "orders": one whose note matches, or none.
func (w *world) expectRetained(note string, warning bool, name string) {
	GinkgoHelper()
	By(name)
	if note == "" {
		w.ConsistentlyNoEvents("Retained")
		return
	}
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	w.EventuallyEvents("Retained", ConsistOf(SatisfyAll(HaveField("Note", MatchRegexp(note)), HaveField("Type", kind))))
}

// consume consumes a queue until the test ends, and acks nothing.
func (w *world) consume(queue string) {
	GinkgoHelper()
	connection, err := w.VHost.Connect("consumer of " + queue)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = connection.Close() })
	channel, err := connection.Channel()
	Expect(err).NotTo(HaveOccurred())
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	Expect(err).NotTo(HaveOccurred())
	go func(<-chan amqp.Delivery) {
		for range deliveries { // until the connection ends
		}
	}(deliveries)
}
