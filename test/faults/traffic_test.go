package faults

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/test/traffic"
)

// ordinary is a spec with a delay tier, and tier is the suffix of the tier's queue.
const (
	ordinary = `{retry: {delayTiers: [{delay: 1s}]}}`
	tier     = ".retry.1s"
)

// flow connects directly to the broker of a world.
type flow struct {
	*traffic.Flow

	world *world
}

// flow starts a flow through existing main queues.
func (w *world) flow(queues ...string) *flow {
	GinkgoHelper()
	return &flow{traffic.StartFlow(GinkgoTB(), w.VHost, tier, queues...), w}
}

// hasRetried waits until each consumer has processed a message that returned from a delay tier.
func (f *flow) hasRetried() {
	GinkgoHelper()
	for _, consumer := range f.Consumers {
		Eventually(consumer.Consumed).Should(ContainElement(Satisfy(traffic.FailsOnce)))
	}
}

// noneLost stops the flow and further publishers, and accounts for each message.
func (f *flow) noneLost(others ...*traffic.Publisher) traffic.Report {
	GinkgoHelper()
	report := traffic.Account(GinkgoTB(), f.world.VHost, traffic.Accounting{
		Publishers: append(others, f.Publishers...), Consumers: f.Consumers,
	})
	report.NoneLost(GinkgoTB())
	return report
}
