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

// Alternate is the alternate exchange, if there is one.
func (e Exchange) Alternate() (name string, given bool) {
	name, given = e.Arguments[ArgAlternateExchange].(string)
	return name, given
}

// Queue is a queue as the broker describes it. Its arguments include x-queue-type.
type Queue struct {
	Durable    bool
	AutoDelete bool
	Exclusive  bool
	Arguments  Arguments
}

// Type is classic, quorum, stream, or that of a plugin.
func (q Queue) Type() string {
	kind, _ := q.Arguments[ArgQueueType].(string)
	return kind
}

// Binding binds a queue, or another exchange, to an exchange.
type Binding struct {
	Source, Destination, RoutingKey string
	// ToExchange says that the destination is an exchange.
	ToExchange bool
	Arguments  Arguments
}

// ID identifies a binding of a queue.
func (b Binding) ID() ID {
	return ID{
		Kind: KindBinding, Source: b.Source, Destination: b.Destination, RoutingKey: b.RoutingKey, Arguments: b.Arguments.JSON(),
	}
}

// BindingIDs identify bindings of queues, in their order.
func BindingIDs(bindings []Binding) []ID {
	ids := make([]ID, len(bindings))
	for i, binding := range bindings {
		ids[i] = binding.ID()
	}
	return ids
}

// Is says whether an ID is that of the binding. The routing key is compared first: of a queue that thousands share, it tells the
// bindings apart. Arguments are compared last: rendering them takes longest.
func (b Binding) Is(id ID) bool {
	return b.RoutingKey == id.RoutingKey && !b.ToExchange && id.Kind == KindBinding && b.Source == id.Source &&
		b.Destination == id.Destination && b.Arguments.JSON() == id.Arguments
}

// Fence is a policy of Warren's own making.
type Fence struct {
	Policy

	// Closed: it refuses what is published to the queues that it applies to. If not, it is the record of sentinels that may be left in
	// them.
	Closed bool

	// Since is when the fence was put up, according to its name.
	Since time.Time
}

// Observed is the part of a vhost that a Selection asks for. Its slices are shared and must not be changed.
type Observed struct {
	Exchanges map[string]Exchange
	Queues    map[string]Queue
	// BindingsTo lists, by queue, the bindings into it, without the implicit one of the default exchange.
	BindingsTo map[string][]Binding
	// BindingsFrom lists, by exchange, the bindings from it.
	BindingsFrom map[string][]Binding
	Policies     []Policy
	// Fences are those that no deletion of this process needs. They are not among the policies.
	Fences []Fence
	// DeadLetters are those queues of the whole vhost that may dead-letter to a selected object; only with
	// Selection.IncludeDeadLetterSources.
	DeadLetters []DeadLetter
	// Nodes is how many nodes the cluster has; zero if that is not known. Members is how many members those of the selected
	// quorum queues have that have fewer than that.
	Nodes   int
	Members map[string]int
	// Cluster is the key of the identity of the cluster that was observed.
	Cluster string
}

// Has says whether the vhost has an object, whatever its arguments and type.
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

// Selection names the objects of a vhost that are to be observed.
type Selection struct {
	Exchanges []string
	Queues    []string
	// Bindings are those of which it is asked whether dead letters need them; see IncludeDeadLetterSources.
	Bindings []ID
	// BindingsFrom are exchanges whose bindings are observed.
	BindingsFrom []string
	// FollowFrom is an exchange whose bindings are observed, with all exchanges that can be reached from it; empty for none.
	FollowFrom string
	// IncludeDeadLetterSources asks also for what has to do with the selected objects: the bindings from each selected
	// exchange, those between any exchanges, exchanges with an alternate exchange, and the queues that dead-letter here.
	IncludeDeadLetterSources bool
}
