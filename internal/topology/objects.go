package topology

import (
	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// Exchange is a durable exchange that is not auto-delete and not internal.
type Exchange struct {
	Name string
	Type v1alpha1.ExchangeType
	Role v1alpha1.Role
	// Declare is false for an exchange that must exist: Warren uses it and never declares it. Its Type is then empty.
	Declare bool
}

// ID identifies the exchange.
func (e Exchange) ID() vhost.ID { return vhost.ExchangeID(e.Name) }

// Queue is a durable quorum queue.
type Queue struct {
	Name      string
	Role      v1alpha1.Role
	Arguments vhost.Arguments
}

// ID identifies the queue.
func (q Queue) ID() vhost.ID { return vhost.QueueID(q.Name) }

// Binding binds a queue to an exchange. Source, Destination, RoutingKey and Arguments together are its identity.
type Binding struct {
	Source, Destination, RoutingKey string
	Arguments                       vhost.Arguments
	Role                            v1alpha1.Role
}

// ID identifies the binding.
func (b Binding) ID() vhost.ID { return b.AtBroker().ID() }

// AtBroker is the binding as a broker has it.
func (b Binding) AtBroker() vhost.Binding {
	return vhost.Binding{Source: b.Source, Destination: b.Destination, RoutingKey: b.RoutingKey, Arguments: b.Arguments}
}

// IDsOf are the IDs of bindings.
func IDsOf(bindings []Binding) vhost.IDs {
	ids := make(vhost.IDs, len(bindings))
	for _, binding := range bindings {
		ids[binding.ID()] = true
	}
	return ids
}

// Topology is everything that one ConsumerQueue is at the broker, in the order in which it is declared.
type Topology struct {
	Exchanges []Exchange
	Queues    []Queue
	Bindings  []Binding
	// RejectMode is how rejected messages reach the delay tier; empty unless the strategy is Reject.
	RejectMode v1alpha1.RejectMode
	// Return is where expired messages of the delay tiers go if not straight to the main queue; nil otherwise.
	Return *ReturnRoute
}

// AddIDs adds the objects of the topology to others.
func (t Topology) AddIDs(ids vhost.IDs) {
	for _, exchange := range t.Exchanges {
		ids[exchange.ID()] = true
	}
	for _, queue := range t.Queues {
		ids[queue.ID()] = true
	}
	for _, binding := range t.Bindings {
		ids[binding.ID()] = true
	}
}

// ReturnRoute is the route that messages take when their delay is over.
type ReturnRoute struct {
	Exchange string
	// Keys are the routing keys that messages arrive with: retry.returnTo's, or those of the tiers; empty where that
	// depends on each message.
	Keys []string
	// Queue is the main queue, where messages should arrive.
	Queue string
}
