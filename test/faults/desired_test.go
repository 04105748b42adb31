package faults

import (
	"encoding/json"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
)

// expectExactly waits until the vhost holds what the namespace's ConsumerQueues want and nothing else. What a spec wants
// is taken from topology.Desired: that it is right, the conformance vectors show.
func (w *world) expectExactly() {
	GinkgoHelper()
	expectState(w.vhost, desired(w.broker, w.all()))
}

// expectState waits until a vhost holds just what is wanted.
func expectState(vh *brokers.VHost, want state) {
	GinkgoHelper()
	Eventually(func() []string { return want.differences(observed(vh)) }).Should(BeEmpty())
}

// state is all that a vhost holds: what each object is like, by what it is.
type state map[string]string

func desired(broker brokers.Broker, queues []v1alpha1.ConsumerQueue) state {
	GinkgoHelper()
	version, err := vhost.ParseVersion(broker.Version)
	Expect(err).NotTo(HaveOccurred())
	want := state{}
	for i := range queues {
		wanted, err := topology.Desired(&queues[i], version)
		Expect(err).NotTo(HaveOccurred())
		for _, exchange := range wanted.Exchanges {
			want.exchange(exchange.Name, string(exchange.Type))
		}
		for _, queue := range wanted.Queues {
			want.queue(queue.Name, queue.Arguments)
		}
		for _, b := range wanted.Bindings {
			want.binding(b.Source, b.Destination, b.RoutingKey, b.Arguments)
		}
	}
	return want
}

func observed(vh *brokers.VHost) state {
	GinkgoHelper()
	found, holds := vh.Definitions(), state{}
	for _, exchange := range found.Exchanges {
		holds.exchange(exchange.Name, exchange.Type)
	}
	for _, queue := range found.Queues {
		holds.queue(queue.Name, queue.Arguments)
	}
	for _, b := range found.Bindings {
		holds.binding(b.Source, b.Destination, b.RoutingKey, b.Arguments)
	}
	return holds
}

func (s state) exchange(name, kind string) { s["exchange "+name] = kind }

func (s state) queue(name string, arguments map[string]any) { s["queue "+name] = text(arguments) }

func (s state) hasQueue(name string) bool {
	_, there := s["queue "+name]
	return there
}

func (s state) binding(source, destination, key string, arguments map[string]any) {
	s[fmt.Sprintf("binding %s -> %s, %q, %s", source, destination, key, text(arguments))] = "is there"
}

func text(arguments map[string]any) string {
	GinkgoHelper()
	content, err := json.Marshal(vhost.Normalize(arguments))
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// differences says what is too little, too much or not as wanted.
func (s state) differences(found state) []string {
	var all []string
	for name, want := range s {
		switch is, there := found[name]; {
		case !there:
			all = append(all, name+" is missing")
		case is != want:
			all = append(all, fmt.Sprintf("%s is %s, want %s", name, is, want))
		}
	}
	for name := range found {
		if _, wanted := s[name]; !wanted {
			all = append(all, name+" is too much")
		}
	}
	slices.Sort(all)
	return all
}
