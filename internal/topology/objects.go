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
	// Declare is false for an exchange that Warren uses and never declares. It must exist, and its Type is empty.
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

// Binding binds a queue to an exchange. Source, Destination, RoutingKey and Arguments form its identity.
type Binding struct {
	Source, Destination, RoutingKey string
	Arguments                       vhost.Arguments
	Role                            v1alpha1.Role
}

// ID identifies the binding.
func (b Binding) ID() vhost.ID { return b.AtBroker().ID() }

// AtBroker returns the binding in the broker model.
func (b Binding) AtBroker() vhost.Binding {
	return vhost.Binding{Source: b.Source, Destination: b.Destination, RoutingKey: b.RoutingKey, Arguments: b.Arguments}
}

// Observed returns the binding as a snapshot has it.
func (b Binding) Observed() vhost.Binding {
	at := b.AtBroker()
	at.Arguments = vhost.Normalize(at.Arguments)
	return at
}

// IDsOf returns the IDs of bindings.
func IDsOf(bindings []Binding) vhost.IDs {
	ids := make(vhost.IDs, len(bindings))
	for _, binding := range bindings {
		ids[binding.ID()] = true
	}
	return ids
}

// Topology has the objects of one ConsumerQueue at the broker, in the order in which Warren declares them.
type Topology struct {
	Exchanges []Exchange
	Queues    []Queue
	Bindings  []Binding
	// RejectMode is how rejected messages reach the delay tier; empty unless the strategy is Reject.
	RejectMode v1alpha1.RejectMode
	// Return is the route of expired messages from the delay tiers. It is nil if they return directly to the main queue.
	Return *ReturnRoute
}

// AddIDs adds the IDs of the topology's objects to ids.
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

// ReturnRoute is the route of messages after their delay.
type ReturnRoute struct {
	Exchange string
	// Keys are the routing keys of returning messages: the key of retry.returnTo, or the keys of the tiers. They are empty if the
	// key depends on each message.
	Keys []string
	// Queue is the main queue, which the messages should reach.
	Queue string
}
