package topology

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Arguments are the arguments of an exchange, queue or binding. Values that come from a spec are int64, string or bool;
// Normalize brings what a broker says to the same types.
type Arguments map[string]any

// Exchange is a durable exchange that is not auto-delete and not internal.
type Exchange struct {
	Name string
	Type v1alpha1.ExchangeType
	Role v1alpha1.Role
	// Declare is false for an exchange that must exist: Warren uses it and never declares it. Its Type is then empty.
	Declare bool
}

// Queue is a durable quorum queue.
type Queue struct {
	Name      string
	Role      v1alpha1.Role
	Arguments Arguments
}

// Binding binds a queue to an exchange. Source, Destination, RoutingKey and Arguments together are its identity.
type Binding struct {
	Source, Destination, RoutingKey string
	Arguments                       Arguments
	Role                            v1alpha1.Role
}

// Topology is everything that one ConsumerQueue is at the broker, in the order in which it is declared.
type Topology struct {
	Exchanges []Exchange
	Queues    []Queue
	Bindings  []Binding
	// Return is where expired messages of the delay tiers go if not straight to the main queue; nil otherwise.
	Return *Return
}

// Return is the route that messages take when their delay is over.
type Return struct {
	Exchange string
	// Keys are the routing keys that messages arrive with: retry.returnTo's, or those of the tiers; empty where that
	// depends on each message.
	Keys []string
	// Queue is the main queue, where messages should arrive.
	Queue string
}

// ObservedExchange is an exchange as the broker describes it.
type ObservedExchange struct {
	Type       string
	Durable    bool
	AutoDelete bool
	Internal   bool
	Arguments  Arguments
}

// ObservedQueue is a queue as the broker describes it. Its arguments include x-queue-type.
type ObservedQueue struct {
	Durable    bool
	AutoDelete bool
	Exclusive  bool
	Arguments  Arguments
}

// ObservedBinding is a binding of an exchange to a queue or to another exchange.
type ObservedBinding struct {
	Source, Destination, RoutingKey string
	ToExchange                      bool
	Arguments                       Arguments
}

// Policy is a policy or operator policy that applies to queues.
type Policy struct {
	Name     string
	Pattern  Pattern
	Priority int
	// ApplyTo is RabbitMQ's apply-to: all, queues, quorum_queues, exchanges and the like.
	ApplyTo    string
	Operator   bool
	Definition Arguments
}

// Observed is what a broker's vhost has of the objects that concern a topology. Its slices are shared and must not be
// changed.
type Observed struct {
	Exchanges map[string]ObservedExchange
	Queues    map[string]ObservedQueue
	// BindingsTo lists, by queue, the bindings into it, without the implicit one of the default exchange.
	BindingsTo map[string][]ObservedBinding
	// BindingsFrom lists, by exchange, the bindings from it.
	BindingsFrom map[string][]ObservedBinding
	Policies     []Policy
	// Fences refuse what is published to their queues, and no deletion of this connection needs them. They are not among the
	// policies.
	Fences []Fence
	// DeadLetters are those queues of the whole vhost that may dead-letter to a named object; only with
	// Names.Surroundings.
	DeadLetters []DeadLetter
	// Nodes is how many nodes the cluster has; zero if that is not known. Members is how many members those of the named
	// quorum queues have that have fewer than that.
	Nodes   int
	Members map[string]int
	// Cluster is the key of the identity of the cluster that was looked at; see rabbit.Identity.
	Cluster string
}

// DeadLetter says where a queue sends its dead letters, by its arguments or by the policy that applies to it.
type DeadLetter struct {
	Queue, Exchange string
	// RoutingKey is nil where each message keeps its own.
	RoutingKey *string
}

// Names are the broker objects that a topology has to do with: what must be observed to compare it.
type Names struct {
	Exchanges []string
	Queues    []string
	// Route is an exchange whose onward bindings matter; empty if none does.
	Route string
	// Surroundings asks also for what has to do with the named objects: the bindings from each named exchange, those
	// between any exchanges, exchanges with an alternate exchange, and the queues that dead-letter here.
	Surroundings bool
}

// Equal says whether two sets of arguments are the same to a broker: integer widths and the order of keys don't matter,
// absent and empty sets are the same.
func (a Arguments) Equal(b Arguments) bool {
	return maps.EqualFunc(a, b, sameValue)
}

// JSON renders arguments with sorted keys; an empty set as the empty string.
func (a Arguments) JSON() string {
	if len(a) == 0 {
		return ""
	}
	text, err := json.Marshal(a)
	if err != nil { // only values that JSON and AMQP tables do not share, such as NaN
		return "{}"
	}
	return string(text)
}

// Keys lists the names of the arguments in order.
func (a Arguments) Keys() []string {
	return slices.Sorted(maps.Keys(a))
}
