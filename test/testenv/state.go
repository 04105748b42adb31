package testenv

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
)

// ExpectExactly waits until the vhost contains exactly the topologies of the namespace's ConsumerQueues and of some
// deleted ones, and no fence. It computes them with topology.Desired, which the conformance vectors test.
func (w *World) ExpectExactly(gone ...v1alpha1.ConsumerQueue) {
	GinkgoHelper()
	Eventually(func() []string { return w.Differences(gone...) }).WithPolling(500 * time.Millisecond).Should(BeEmpty())
	Eventually(w.VHost.Policies).Should(BeEmpty(), "no fence is left")
}

// Differences returns how the vhost differs from the topologies of the namespace's ConsumerQueues and of some deleted
// ones.
func (w *World) Differences(gone ...v1alpha1.ConsumerQueue) []string {
	GinkgoHelper()
	return Desired(w.VHost.Broker, append(w.All(), gone...)).Differences(Observed(w.VHost))
}

// State describes all objects of a vhost, by type and name.
type State map[string]string

// Desired returns the state that ConsumerQueues define for a broker.
func Desired(broker brokers.Broker, queues []v1alpha1.ConsumerQueue) State {
	GinkgoHelper()
	version, err := vhost.ParseVersion(broker.Version)
	Expect(err).NotTo(HaveOccurred())
	want := State{}
	for i := range queues {
		wanted, err := topology.Desired(&queues[i], version)
		Expect(err).NotTo(HaveOccurred())
		for _, exchange := range wanted.Exchanges {
			want.exchange(exchange.Name, string(exchange.Type))
		}
		for _, queue := range wanted.Queues {
			want.AddQueue(queue.Name, queue.Arguments)
		}
		for _, b := range wanted.Bindings {
			want.binding(b.Source, b.Destination, b.RoutingKey, b.Arguments)
		}
	}
	return want
}

// Observed returns the state of a vhost.
func Observed(vh *brokers.VHost) State {
	GinkgoHelper()
	found, holds := vh.Definitions(), State{}
	for _, exchange := range found.Exchanges {
		holds.exchange(exchange.Name, exchange.Type)
	}
	for _, queue := range found.Queues {
		holds.AddQueue(queue.Name, queue.Arguments)
	}
	for _, b := range found.Bindings {
		holds.binding(b.Source, b.Destination, b.RoutingKey, b.Arguments)
	}
	return holds
}

func (s State) exchange(name, kind string) { s["exchange "+name] = kind }

// AddQueue adds a queue.
func (s State) AddQueue(name string, arguments map[string]any) {
	s["queue "+name] = argumentsText(arguments)
}

// HasQueue reports whether there is a queue with this name.
func (s State) HasQueue(name string) bool {
	_, there := s["queue "+name]
	return there
}

func (s State) binding(source, destination, key string, arguments map[string]any) {
	s[fmt.Sprintf("binding %s -> %s, %q, %s", source, destination, key, argumentsText(arguments))] = "is there"
}

func argumentsText(arguments map[string]any) string {
	GinkgoHelper()
	content, err := json.Marshal(vhost.Normalize(arguments))
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// Differences returns the objects that are missing, unexpected or different.
func (s State) Differences(found State) []string {
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
			all = append(all, name+" is unexpected")
		}
	}
	slices.Sort(all)
	return all
}
