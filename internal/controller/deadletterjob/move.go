package deadletterjob

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/vhost"
)

// Move is the source and the destination of messages.
type Move struct {
	Broker  *brokers.Broker
	Cluster string
	Queue   QueueKey
	// Details are those of the source queue. Source distinguishes the dead letters of the ConsumerQueue from others in a shared queue.
	Details
	// ConsumerQueue is the name of the ConsumerQueue.
	ConsumerQueue    string
	ConsumerQueueUID types.UID
	// Destination is a queue. It is empty if each message goes where it was published first, or if messages are deleted.
	Destination string
	Route       contract.Route
	// Behind is the queue that messages reach after their delay in Destination; empty if they stay in Destination.
	Behind string
	// RouteQueues are the queues on the route.
	RouteQueues []string
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
	all, read := m.dropping(m.RouteQueues)
	for _, name := range m.RouteQueues {
		if all[name] != "" {
			return all[name], read
		}
	}
	return "", read
}

// dropping describes, for each of these queues that drops messages when it is full, why it does. It returns false before the vhost was
// read.
func (m Move) dropping(queues []string) (why map[string]string, read bool) {
	observed, read := m.Broker.Observe(vhost.Selection{Queues: queues})
	why = map[string]string{}
	for name, queue := range observed.Queues {
		if text, drops := plan.DropsMessages(name, queue, observed.Policies); drops {
			why[name] = text
		}
	}
	return why, read
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

// whyMessageDrops returns a function that describes why a queue that a message may reach drops messages when it is full; empty if none
// does. The function ignores RouteQueues: the move publishes no message while one of them drops messages.
func (m Move) whyMessageDrops() func(to contract.Route) (why string) {
	type exchange struct {
		routes   vhost.Observed
		dropping map[string]string
	}
	dropping := func(queues []string) map[string]string {
		why, _ := m.dropping(slices.DeleteFunc(queues, func(name string) bool { return slices.Contains(m.RouteQueues, name) }))
		return why
	}
	var checked time.Time
	exchanges := map[string]exchange{}
	return func(to contract.Route) string {
		if to.Exchange == "" && slices.Contains(m.RouteQueues, to.RoutingKey) {
			return ""
		}
		if to.Exchange == "" {
			return dropping([]string{to.RoutingKey})[to.RoutingKey]
		}
		if time.Since(checked) > dropsCheck {
			clear(exchanges)
			checked = time.Now()
		}
		from, known := exchanges[to.Exchange]
		if !known {
			from.routes, _ = m.Broker.Observe(vhost.Selection{FollowFrom: to.Exchange})
			from.dropping = dropping(boundQueues(from.routes))
			exchanges[to.Exchange] = from
		}
		if len(from.dropping) == 0 {
			return ""
		}
		queues, _ := from.routes.Route(to.Exchange, to.RoutingKey)
		for _, queue := range queues {
			if why := from.dropping[queue]; why != "" {
				return why
			}
		}
		return ""
	}
}

func boundQueues(routes vhost.Observed) (queues []string) {
	for _, bindings := range routes.BindingsFrom {
		for _, binding := range bindings {
			if !binding.ToExchange {
				queues = append(queues, binding.Destination)
			}
		}
	}
	return queues
}

// is reports whether a task for this move also carries out the other move.
func (m Move) is(other Move) bool {
	return m.Broker == other.Broker && m.Queue == other.Queue && m.Destination == other.Destination && m.Route == other.Route &&
		m.Behind == other.Behind && m.Limited == other.Limited &&
		m.Source.Shared == other.Source.Shared && m.Source.Main == other.Source.Main &&
		slices.Equal(m.Source.Tiers, other.Source.Tiers)
}
