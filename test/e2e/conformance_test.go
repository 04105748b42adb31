package e2e

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/conformance"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("The conformance vectors", func() {
	for _, vector := range conformance.Load(GinkgoTB()) {
		everything := vector.Name == "rich" || vector.Name == "retry-exchange" // which have every argument, and every kind of exchange
		Describe(vector.Name, ExtendedUnless(everything), func() {
			onEachBroker("become exactly the expected objects at the broker", func(broker brokers.Broker) {
				w := newWorld(broker)
				want, supported := vector.Expect(versionOf(broker))
				w.applyVector(vector)
				if !supported {
					for _, cq := range vector.ConsumerQueues {
						w.Eventually(cq.Name, Condition("Ready", metav1.ConditionFalse, "UnsupportedByBroker"),
							Condition("Stalled", metav1.ConditionTrue, "UnsupportedByBroker"))
					}
					Expect(w.holds()).To(equalState(conformance.State{}))
					return
				}
				for _, cq := range vector.ConsumerQueues {
					w.Ready(cq.Name)
				}
				Expect(w.holds()).To(equalState(want))
				if len(vector.ConsumerQueues) == 1 { // with several, any of them may declare the shared objects
					w.expectDeclared(vector.ConsumerQueues[0].Name)
				}
			})

			onEachBroker("are adopted without a write if all objects exist", func(broker brokers.Broker) {
				w := newWorld(broker)
				want, supported := vector.Expect(versionOf(broker))
				if !supported {
					return // no objects to adopt
				}
				w.declareState(want)
				before := w.VHost.Definitions()
				w.applyVector(vector)
				for _, cq := range vector.ConsumerQueues {
					adopted := w.Ready(cq.Name)
					for _, entry := range adopted.Status.Topology {
						if entry.Kind != "Binding" {
							Expect(entry.Origin).To(BeEquivalentTo("Adopted"), "%+v", entry)
						}
					}
				}
				Consistently(w.EventsSoFar).WithTimeout(time.Second).
					ShouldNot(ContainElement(HaveField("Regarding.Kind", "ConsumerQueue")), "an adoption is no Event")
				Expect(w.VHost.Definitions()).To(Equal(before))
			})
		})
	}
})

func versionOf(broker brokers.Broker) vhost.Version {
	GinkgoHelper()
	version, err := vhost.ParseVersion(broker.Version)
	Expect(err).NotTo(HaveOccurred())
	return version
}

func (w *world) applyVector(vector conformance.Vector) {
	GinkgoHelper()
	for _, cq := range vector.ConsumerQueues {
		w.Apply(&cq)
	}
}

// declareState declares the objects of a vector without Warren and in another order.
func (w *world) declareState(state conformance.State) {
	GinkgoHelper()
	for _, queue := range slices.Backward(state.Queues) {
		w.VHost.DeclareQueue(queue.Name, queue.Arguments)
	}
	for _, exchange := range state.Exchanges {
		w.VHost.DeclareExchange(exchange.Name, exchange.Type, nil)
	}
	for _, binding := range slices.Backward(state.Bindings) {
		w.VHost.Bind(binding.Source, binding.Destination, binding.RoutingKey, binding.Arguments)
	}
}

// expectDeclared checks that a status lists every exchange and queue as declared by Warren, and that there is one Event.
func (w *world) expectDeclared(name string) {
	GinkgoHelper()
	w.EventuallyReasons(name, Equal([]string{"Declared"}))
	for _, entry := range w.Ready(name).Status.Topology {
		if entry.Kind != "Binding" {
			Expect(entry.Origin).To(BeEquivalentTo("Declared"), "%+v", entry)
		}
	}
}
