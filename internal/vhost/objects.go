package vhost

import (
	"slices"
	"time"
)

// Exchange is an exchange as the broker describes it.
type Exchange struct {
	Type       string
	Durable    bool
	AutoDelete bool
	Internal   bool
	Arguments  Arguments
}

// Queue is a queue as the broker describes it. Its arguments include x-queue-type.
type Queue struct {
	Durable    bool
	AutoDelete bool
	Exclusive  bool
	Arguments  Arguments
}

// Type returns classic, quorum, stream, or a type that a plugin defines.
func (q Queue) Type() string {
	kind, _ := q.Arguments[ArgQueueType].(string)
	return kind
}

// Binding binds a queue, or another exchange, to an exchange.
type Binding struct {
	Source, Destination, RoutingKey string
	// ToExchange is true if the destination is an exchange.
	ToExchange bool
	Arguments  Arguments
}

// ID identifies a binding of a queue.
func (b Binding) ID() ID {
	return ID{
		Kind: KindBinding, Source: b.Source, Destination: b.Destination, RoutingKey: b.RoutingKey, Arguments: b.Arguments.JSON(),
	}
}

// BindingIDs returns the IDs of bindings of queues, in their order.
func BindingIDs(bindings []Binding) []ID {
	ids := make([]ID, len(bindings))
	for i, binding := range bindings {
		ids[i] = binding.ID()
	}
	return ids
}

// Is reports whether the binding has this ID. It compares the routing key first, which differs most often between the bindings of
// a shared queue, and the arguments last, because encoding them is the slowest step.
func (b Binding) Is(id ID) bool {
	return b.RoutingKey == id.RoutingKey && !b.ToExchange && id.Kind == KindBinding && b.Source == id.Source &&
		b.Destination == id.Destination && b.Arguments.JSON() == id.Arguments
}

// Fence is a policy that Warren created to delete queues.
type Fence struct {
	Policy

	// Closed is true if the policy refuses publishes to its queues. If false, the policy records that sentinels may remain in the queues.
	Closed bool

	// Since is when Warren created the fence, taken from its name.
	Since time.Time
}

// Observed is the part of a vhost that a Selection requests. Its slices are shared and must not be changed.
type Observed struct {
	Exchanges map[string]Exchange
	Queues    map[string]Queue
	// BindingsTo has the bindings of each queue, without the implicit binding to the default exchange.
	BindingsTo map[string][]Binding
	// BindingsFrom has the bindings from each exchange.
	BindingsFrom map[string][]Binding
	Policies     []Policy
	// Fences are the fences that no deletion of this process needs. Policies does not contain them.
	Fences []Fence
	// DeadLetterRoutes has the routes, in the whole vhost, of queues that may dead-letter to a selected object. It is empty without
	// Selection.IncludeDeadLetterSources.
	DeadLetterRoutes []DeadLetterRoute
	// Alternates has the names of the possible alternate exchanges, by exchange. Selection.FollowFrom adds the exchanges that can be
	// reached from it, and Selection.IncludeDeadLetterSources all exchanges of the vhost. Without both, Alternates is nil, and a
	// DeadLetterSearch evaluates Policies itself. Route and MayLead evaluate Policies for an exchange that is missing here.
	Alternates map[string][]string
	// Nodes is the number of nodes in the cluster, or zero if unknown.
	Nodes int
	// Members has the number of members of each selected quorum queue with fewer members than Nodes.
	Members map[string]int
	// Cluster is the Key of the observed cluster.
	Cluster string
}

// Has reports whether the vhost has an object, whatever its arguments and type.
func (o Observed) Has(id ID) bool {
	switch id.Kind {
	case KindExchange:
		_, exists := o.Exchanges[id.Name]
		return exists
	case KindQueue:
		_, exists := o.Queues[id.Name]
		return exists
	}
	return slices.ContainsFunc(o.BindingsTo[id.Destination], func(b Binding) bool { return b.Is(id) })
}

// Selection names the objects of a vhost to observe.
type Selection struct {
	Exchanges []string
	Queues    []string
	// Bindings that dead letters may need; see IncludeDeadLetterSources.
	Bindings []ID
	// BindingsFrom are exchanges whose bindings to observe.
	BindingsFrom []string
	// FollowFrom is an exchange whose bindings to observe, together with all exchanges that they reach; empty for none.
	FollowFrom string
	// IncludeDeadLetterSources also observes the objects through which dead letters reach the selected ones: the bindings from each
	// selected exchange, all bindings between exchanges, all exchanges with an alternate exchange, and the queues that dead-letter
	// to a selected object.
	IncludeDeadLetterSources bool
}
