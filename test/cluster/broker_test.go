package cluster

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
	"github.com/warren-mq/warren/test/traffic"
)

const (
	// quick is a spec with a delay tier that retries go through, and tier is what its queue is called after the main queue.
	quick = `{retry: {delayTiers: [{delay: 1s}]}}`
	tier  = ".retry.1s"
	// patient is for ConsumerQueues that are deleted while nodes fail: in a short tier, a sentinel could expire before
	// somebody takes it back.
	patient = `{retry: {delayTiers: [{delay: 30s}]}}`
)

// flow is a publisher and consumers on main queues, by the way of one node.
type flow struct {
	vhost      *brokers.VHost
	publishers []*traffic.Publisher
	consumers  []*traffic.Consumer
}

// flow publishes to main queues in turn, and consumes them; one in ten messages fails once and goes through the tier, one in
// fifty is given up.
func (w *world) flow(node int, queues ...string) *flow {
	GinkgoHelper()
	f := &flow{vhost: w.vhost}
	through := w.vhost.Through(nodes.Node(node))
	targets := make([]traffic.Target, len(queues))
	for i, queue := range queues {
		targets[i] = traffic.ToQueue(queue)
		again := traffic.Retry(traffic.ToQueue(queue + tier))
		f.consumers = append(f.consumers, traffic.Consume(GinkgoTB(), through, queue, func(d traffic.Delivery) traffic.Action {
			switch last, before := d.ID[len(d.ID)-1], d.ID[len(d.ID)-2]; {
			case last == '7' && before%5 == 0:
				return traffic.Reject
			case last == '5' && d.Attempt == 1:
				return again
			}
			return traffic.Ack
		}))
	}
	f.publishers = []*traffic.Publisher{traffic.Publish(GinkgoTB(), through, traffic.Publishing{
		Targets: targets, Every: 40 * time.Millisecond, Retry: true,
	})}
	return f
}

// goesOn waits until messages are confirmed that were published after the call.
func (f *flow) goesOn() {
	GinkgoHelper()
	for _, publisher := range f.publishers {
		before := publisher.Counts().Made
		Eventually(func() int { return publisher.Counts().Confirmed }).Should(BeNumerically(">", before))
	}
}

// noneLost ends flows of a vhost and accounts for each message.
func noneLost(vh *brokers.VHost, flows ...*flow) {
	GinkgoHelper()
	accounting := traffic.Accounting{Quiet: 30 * time.Second}
	for _, f := range flows {
		accounting.Publishers = append(accounting.Publishers, f.publishers...)
		accounting.Consumers = append(accounting.Consumers, f.consumers...)
	}
	report := traffic.Account(GinkgoTB(), vh, accounting)
	report.NoneLost(GinkgoTB())
	Expect(report.SentinelsLeft).To(BeZero())
	GinkgoWriter.Printf("accounted for: %+v\n", report)
}

// expectExactly waits until the vhost holds what the namespace's ConsumerQueues, and some that are gone, want and nothing
// else.
func (w *world) expectExactly(gone ...v1alpha1.ConsumerQueue) {
	GinkgoHelper()
	Eventually(func() []string { return differences(w.wanted(gone), w.holds()) }).WithPolling(time.Second).Should(BeEmpty())
	Eventually(w.vhost.Policies).Should(BeEmpty(), "no fence is left")
}

// wanted is what ConsumerQueues want, as topology.Desired says: that it is right, the conformance vectors show.
func (w *world) wanted(gone []v1alpha1.ConsumerQueue) []string {
	GinkgoHelper()
	version, err := vhost.ParseVersion(w.vhost.Broker.Version)
	Expect(err).NotTo(HaveOccurred())
	var all []string
	queues := append(w.all(), gone...)
	for i := range queues {
		desired, err := topology.Desired(&queues[i], version)
		Expect(err).NotTo(HaveOccurred())
		for _, exchange := range desired.Exchanges {
			all = append(all, exchangeText(exchange.Name, string(exchange.Type)))
		}
		for _, queue := range desired.Queues {
			all = append(all, queueText(queue.Name, queue.Arguments))
		}
		for _, b := range desired.Bindings {
			all = append(all, bindingText(b.Source, b.Destination, b.RoutingKey, b.Arguments))
		}
	}
	return all
}

// holds is all that is in the vhost.
func (w *world) holds() []string {
	GinkgoHelper()
	found := w.vhost.Definitions()
	var all []string
	for _, exchange := range found.Exchanges {
		all = append(all, exchangeText(exchange.Name, exchange.Type))
	}
	for _, queue := range found.Queues {
		all = append(all, queueText(queue.Name, queue.Arguments))
	}
	for _, b := range found.Bindings {
		all = append(all, bindingText(b.Source, b.Destination, b.RoutingKey, b.Arguments))
	}
	return all
}

func (w *world) hasQueue(name string) bool {
	GinkgoHelper()
	return slices.ContainsFunc(w.vhost.Definitions().Queues, func(queue brokers.Queue) bool { return queue.Name == name })
}

func exchangeText(name, kind string) string { return fmt.Sprintf("%s exchange %s", kind, name) }

func queueText(name string, arguments map[string]any) string {
	return fmt.Sprintf("queue %s %s", name, argumentsText(arguments))
}

func bindingText(source, destination, key string, arguments map[string]any) string {
	return fmt.Sprintf("binding %s -> %s, %q %s", source, destination, key, argumentsText(arguments))
}

func argumentsText(arguments map[string]any) string {
	GinkgoHelper()
	text, err := json.Marshal(vhost.Normalize(arguments))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// differences says what is missing and what is too much.
func differences(wanted, found []string) []string {
	var all []string
	for _, object := range wanted {
		if !slices.Contains(found, object) {
			all = append(all, object+" is missing")
		}
	}
	for _, object := range found {
		if !slices.Contains(wanted, object) {
			all = append(all, object+" is too much")
		}
	}
	return all
}
