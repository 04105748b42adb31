package deadletterjob

import (
	"slices"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// Move is the source and the destination of messages.
type Move struct {
	Broker  *brokers.Broker
	Cluster string
	Queue   QueueKey
	// ConsumerQueue is the name of the ConsumerQueue. Source distinguishes its dead letters from other dead letters in a shared queue.
	ConsumerQueue string
	Source        deadletter.Source
	// Destination is a queue. It is empty if each message goes where it was published first, or if messages are deleted.
	Destination string
	Route       contract.Route
	// Behind is the queue that messages reach after their delay in Destination; empty if they stay in Destination.
	Behind string
	// RouteQueues are the queues on the route.
	RouteQueues []string
	// Limited: the broker may drop messages that were delivered and returned.
	Limited bool
}

// To returns where each message is published; nil if that depends on the message.
func (m Move) To() *contract.Route {
	if m.Destination == "" {
		return nil
	}
	return &m.Route
}

// whyDrops describes why a queue on the route drops messages when it is full; empty if none does. read is false until the vhost has been
// read.
func (m Move) whyDrops() (why string, read bool) {
	observed, read := m.Broker.Observe(vhost.Selection{Queues: m.RouteQueues})
	for _, name := range m.RouteQueues {
		queue, exists := observed.Queues[name]
		if !exists {
			continue
		}
		if why, drops := plan.DropsMessages(name, queue, observed.Policies); drops {
			return why, read
		}
	}
	return "", read
}

// dropsCheck is how often a move checks whether a queue on its route drops messages. A policy can change that at any time.
const dropsCheck = time.Second

// drops returns a function that reports whether a queue on the route drops messages when it is full.
func (m Move) drops() func() bool {
	var checked time.Time
	drops := false
	return func() bool {
		if len(m.RouteQueues) > 0 && time.Since(checked) > dropsCheck {
			why, _ := m.whyDrops()
			drops, checked = why != "", time.Now()
		}
		return drops
	}
}

// is reports whether a task for this move also carries out the other move.
func (m Move) is(other Move) bool {
	return m.Broker == other.Broker && m.Queue == other.Queue && m.Destination == other.Destination && m.Route == other.Route &&
		m.Behind == other.Behind && m.Limited == other.Limited &&
		m.Source.Shared == other.Source.Shared && m.Source.Main == other.Source.Main &&
		slices.Equal(m.Source.Tiers, other.Source.Tiers)
}
