package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/conformance"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	. "github.com/warren-mq/warren/test/testenv"
)

// world is a namespace and a vhost for one test.
type world struct{ *World }

// newWorld has a Secret and a BrokerConnection with a refresh every second.
func newWorld(broker brokers.Broker) *world {
	GinkgoHelper()
	w := newBareWorld(broker)
	w.Secret(broker.Username, broker.Password)
	w.Connect(v1alpha1.BrokerConnectionSpec{})
	return w
}

// newPatientWorld is newWorld at the newest broker for many deletions at the same time. A deletion may take three resyncIntervals, here six
// minutes, because a busy broker needs longer than the default.
func newPatientWorld() *world {
	GinkgoHelper()
	w := newBareWorld(newest)
	w.Secret(newest.Username, newest.Password)
	w.Connect(v1alpha1.BrokerConnectionSpec{ResyncInterval: "2m"})
	return w
}

// newProxiedWorld is newWorld at the newest broker, with a proxy for the management API and another interval.
func newProxiedWorld(interval v1alpha1.Duration) (*world, *netfault.HTTPProxy) {
	GinkgoHelper()
	w := newBareWorld(newest)
	proxy := netfault.NewHTTPProxy(GinkgoTB(), w.Broker.ManagementURI, netfault.HTTPOptions{})
	w.Secret(w.Broker.Username, w.Broker.Password)
	w.Connect(v1alpha1.BrokerConnectionSpec{ManagementURI: proxy.URI, ResyncInterval: interval})
	return w, proxy
}

// newBareWorld has neither a Secret nor a BrokerConnection.
func newBareWorld(broker brokers.Broker) *world {
	GinkgoHelper()
	return newWorldAt(broker.NewVHost(GinkgoTB()))
}

// newWorldAt is newBareWorld for an existing vhost.
func newWorldAt(vh *brokers.VHost) *world {
	GinkgoHelper()
	w := &world{NewWorld(kube, vh)}
	showLog(w.Namespace)
	DeferCleanup(w.Leave)
	return w
}

func ctx() context.Context { return ContextOfSpec() }

// readyWithin is Ready with a limit, for ConsumerQueues that wait for the proof that a queue is empty.
func (w *world) readyWithin(name string, limit time.Duration) {
	GinkgoHelper()
	Eventually(func() *v1alpha1.ConsumerQueue { return w.Get(name) }).WithTimeout(deadline.For(limit)).
		Should(SatisfyAll(Condition("Ready", metav1.ConditionTrue, "InSync"), BeCurrent()))
}

// holds returns the objects of the vhost, in the format of the conformance vectors.
func (w *world) holds() conformance.State {
	GinkgoHelper()
	found := w.VHost.Definitions()
	state := conformance.State{}
	for _, e := range found.Exchanges {
		Expect(e.AutoDelete || e.Internal || len(e.Arguments) > 0).To(BeFalse(), "exchange %+v", e)
		state.Exchanges = append(state.Exchanges, conformance.Exchange{Name: e.Name, Type: e.Type, Durable: e.Durable})
	}
	for _, q := range found.Queues {
		Expect(q.Durable && !q.AutoDelete).To(BeTrue(), "queue %+v", q)
		state.Queues = append(state.Queues, conformance.Queue{Name: q.Name, Arguments: vhost.Normalize(q.Arguments)})
	}
	for _, b := range found.Bindings {
		Expect(b.DestinationType).To(Equal("queue"))
		state.Bindings = append(state.Bindings, conformance.Binding{
			Source: b.Source, Destination: b.Destination, RoutingKey: b.RoutingKey, Arguments: vhost.Normalize(b.Arguments),
		})
	}
	return state
}

// equalState compares vhosts without regard to order.
func equalState(want conformance.State) types.GomegaMatcher {
	return SatisfyAll(
		HaveField("Exchanges", ConsistOf(asAny(want.Exchanges)...)),
		HaveField("Queues", ConsistOf(asAny(want.Queues)...)),
		HaveField("Bindings", ConsistOf(asAny(want.Bindings)...)),
	)
}

func asAny[T any](list []T) []any {
	result := make([]any, len(list))
	for i := range list {
		result[i] = list[i]
	}
	return result
}

// kstatusOf returns the status that Flux, Argo CD and kubectl plugins compute. Conditions follow kstatus: Reconciling is in
// progress, Stalled is failed, Ready with the current observedGeneration is done. So a Kustomization of Flux with wait: true
// becomes Ready when its ConsumerQueues are, and fails when one is Stalled.
func kstatusOf(object client.Object) status.Status {
	GinkgoHelper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	Expect(err).NotTo(HaveOccurred())
	result, err := status.Compute(&unstructured.Unstructured{Object: content})
	Expect(err).NotTo(HaveOccurred())
	return result.Status
}
