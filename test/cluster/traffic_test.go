package cluster

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/traffic"
)

const (
	// quick is a spec with a delay tier for retries, and tier is the suffix of the tier's queue.
	quick = `{retry: {delayTiers: [{delay: 1s}]}}`
	tier  = ".retry.1s"
	// patient is for ConsumerQueues that are deleted while nodes fail. In a short tier, a sentinel could expire before
	// Warren removes it.
	patient = `{retry: {delayTiers: [{delay: 30s}]}}`
)

// flow starts a flow through main queues, connected to one node.
func (w *world) flow(node int, queues ...string) *traffic.Flow {
	GinkgoHelper()
	return traffic.StartFlow(GinkgoTB(), w.VHost.Through(nodes.Node(node)), tier, queues...)
}

// expectGoesOn waits until messages of a flow are confirmed that were published after the call.
func expectGoesOn(f *traffic.Flow) {
	GinkgoHelper()
	for _, publisher := range f.Publishers {
		before := publisher.Counts().Made
		Eventually(func() int { return publisher.Counts().Confirmed }).Should(BeNumerically(">", before))
	}
}

// noneLost stops flows of a vhost and accounts for each message.
func noneLost(vh *brokers.VHost, flows ...*traffic.Flow) {
	GinkgoHelper()
	accounting := traffic.Accounting{Quiet: 30 * time.Second}
	for _, f := range flows {
		accounting.Publishers = append(accounting.Publishers, f.Publishers...)
		accounting.Consumers = append(accounting.Consumers, f.Consumers...)
	}
	report := traffic.Account(GinkgoTB(), vh, accounting)
	report.NoneLost(GinkgoTB())
	Expect(report.SentinelsLeft).To(BeZero())
	GinkgoWriter.Printf("accounted for: %+v\n", report)
}
