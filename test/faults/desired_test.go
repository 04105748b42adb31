package faults

import (
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/test/brokers"
)

// expectExactly waits until a vhost holds what ConsumerQueues want and nothing else. What a spec wants is taken from
// topology.Desired: that it is right, the conformance vectors show.
func (w *world) expectExactly() {
	GinkgoHelper()
	expectAt(w.vhost, w.all())
}

func expectAt(vhost *brokers.VHost, queues []v1alpha1.ConsumerQueue) {
	GinkgoHelper()
	want := desired(vhost.Broker, queues)
	Eventually(func() state { return observed(vhost) }).Should(Equal(want))
}

// state is all that a vhost holds, each object once; maps show in a failure what is too much or too little.
type state struct {
	Exchanges map[string]string
	Queues    map[string]topology.Arguments
	Bindings  map[binding]topology.Arguments
}

type binding struct{ source, destination, key, arguments string }

func desired(broker brokers.Broker, queues []v1alpha1.ConsumerQueue) state {
	GinkgoHelper()
	version, err := topology.ParseVersion(broker.Version)
	Expect(err).NotTo(HaveOccurred())
	want := newState()
	for i := range queues {
		wanted, err := topology.Desired(&queues[i], version)
		Expect(err).NotTo(HaveOccurred())
		for _, exchange := range wanted.Exchanges {
			want.Exchanges[exchange.Name] = string(exchange.Type)
		}
		for _, queue := range wanted.Queues {
			want.Queues[queue.Name] = topology.Normalize(queue.Arguments)
		}
		for _, b := range wanted.Bindings {
			want.bind(b.Source, b.Destination, b.RoutingKey, b.Arguments)
		}
	}
	return want
}

func observed(vhost *brokers.VHost) state {
	GinkgoHelper()
	found, holds := vhost.Definitions(), newState()
	for _, exchange := range found.Exchanges {
		holds.Exchanges[exchange.Name] = exchange.Type
	}
	for _, queue := range found.Queues {
		holds.Queues[queue.Name] = topology.Normalize(queue.Arguments)
	}
	for _, b := range found.Bindings {
		holds.bind(b.Source, b.Destination, b.RoutingKey, b.Arguments)
	}
	return holds
}

func newState() state {
	return state{map[string]string{}, map[string]topology.Arguments{}, map[binding]topology.Arguments{}}
}

func (s state) bind(source, destination, key string, arguments map[string]any) {
	normalized := topology.Normalize(arguments)
	s.Bindings[binding{source, destination, key, format(normalized)}] = normalized
}

func format(arguments topology.Arguments) string {
	GinkgoHelper()
	text, err := json.Marshal(arguments)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}
