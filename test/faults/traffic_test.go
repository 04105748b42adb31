package faults

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/test/traffic"
)

// flow is a publisher and consumers on main queues of a world, straight to the broker.
type flow struct {
	world     *world
	publisher *traffic.Publisher
	consumers []*traffic.Consumer
}

// flow publishes in turn to main queues that exist; one in five messages fails once and takes the way through the
// first delay tier, and one in fifty is given up.
func (w *world) flow(queues ...string) *flow {
	GinkgoHelper()
	f := &flow{world: w}
	targets := make([]traffic.Target, len(queues))
	for i, queue := range queues {
		targets[i] = traffic.ToQueue(queue)
		tier := traffic.Retry(traffic.ToQueue(queue + tier))
		f.consumers = append(f.consumers, traffic.Consume(GinkgoTB(), w.VHost, queue, func(d traffic.Delivery) traffic.Action {
			switch last := d.ID[len(d.ID)-1]; {
			case last == '7' && d.ID[len(d.ID)-2]%5 == 0:
				return traffic.Reject
			case failsOnce(d.ID) && d.Attempt == 1:
				return tier
			}
			return traffic.Ack
		}))
	}
	f.publisher = traffic.Publish(GinkgoTB(), w.VHost, traffic.Publishing{Targets: targets, Every: 40 * time.Millisecond, Retry: true})
	return f
}

// failsOnce says whether a message fails when it comes for the first time: those whose number ends in 2 or 7.
func failsOnce(id string) bool { return id[len(id)-1]%5 == 0 }

// hasRetried waits until each consumer has processed a message that came back from a delay tier.
func (f *flow) hasRetried() {
	GinkgoHelper()
	for _, consumer := range f.consumers {
		Eventually(consumer.Consumed).Should(ContainElement(Satisfy(failsOnce)))
	}
}

// noneLost ends the flow, and what others publish into the vhost, and accounts for each message.
func (f *flow) noneLost(others ...*traffic.Publisher) traffic.Report {
	GinkgoHelper()
	report := traffic.Account(GinkgoTB(), f.world.VHost, traffic.Accounting{
		Publishers: append(others, f.publisher), Consumers: f.consumers,
	})
	report.NoneLost(GinkgoTB())
	return report
}

// ordinary is a spec with a delay tier, and tier is what the tier's queue is called after the main queue.
const (
	ordinary = `{retry: {delayTiers: [{delay: 1s}]}}`
	tier     = ".retry.1s"
)
