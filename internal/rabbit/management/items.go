package management

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/warren-mq/warren/internal/vhost"
)

// The items of definitions and of listings have the same fields.

// QueueItem is a queue as the management API lists it.
type QueueItem struct {
	Name       string
	Type       string // in definitions from 4.3 on, in listings always
	Durable    bool
	AutoDelete bool `json:"auto_delete"`
	Exclusive  bool // only in listings; definitions leave exclusive queues out
	Arguments  map[string]any
}

// ExchangeItem is an exchange as the management API lists it.
type ExchangeItem struct {
	Name       string
	Type       string
	Durable    bool
	AutoDelete bool `json:"auto_delete"`
	Internal   bool
	Arguments  map[string]any
}

// BindingItem is a binding as the management API lists it.
type BindingItem struct {
	Source          string
	Destination     string
	DestinationType string `json:"destination_type"`
	RoutingKey      string `json:"routing_key"`
	Arguments       map[string]any
}

// PolicyItem is a policy or operator policy as the management API lists it.
type PolicyItem struct {
	Name       string
	Pattern    string
	Priority   Priority
	ApplyTo    string `json:"apply-to"`
	Definition map[string]any
}

// Priority is the priority of a policy. RabbitMQ (3.10, 4.0, 4.3) stores any number: 1.5, 1.0e300, or an integer of any length.
type Priority float64

// UnmarshalJSON decodes a number. A number that a float64 cannot represent becomes the largest or smallest finite one, which JSON can
// represent.
func (p *Priority) UnmarshalJSON(text []byte) error {
	number, err := strconv.ParseFloat(string(text), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return json.Unmarshal(text, (*float64)(p)) // null, or no number
	}
	*p = Priority(min(max(number, -math.MaxFloat64), math.MaxFloat64))
	return nil
}

// The columns of the listings from which the items are decoded.
const (
	QueueColumns    = "name,type,durable,auto_delete,exclusive,arguments"
	ExchangeColumns = "name,type,durable,auto_delete,internal,arguments"
	BindingColumns  = "source,destination,destination_type,routing_key,arguments"
)

// Observed returns the queue with arguments in normal form, and with its type among them, because package topology compares arguments.
// RabbitMQ 3.x leaves the type out for classic queues, and its definitions have no field for it.
func (q QueueItem) Observed() vhost.Queue {
	arguments := vhost.Normalize(q.Arguments)
	if _, given := arguments[vhost.ArgQueueType]; !given {
		if arguments == nil {
			arguments = vhost.Arguments{}
		}
		arguments[vhost.ArgQueueType] = vhost.TypeClassic
		if q.Type != "" {
			arguments[vhost.ArgQueueType] = q.Type
		}
	}
	return vhost.Queue{Durable: q.Durable, AutoDelete: q.AutoDelete, Exclusive: q.Exclusive, Arguments: arguments}
}

// Observed returns the exchange with arguments in normal form.
func (e ExchangeItem) Observed() vhost.Exchange {
	return vhost.Exchange{
		Type: e.Type, Durable: e.Durable, AutoDelete: e.AutoDelete, Internal: e.Internal,
		Arguments: vhost.Normalize(e.Arguments),
	}
}

// Observed returns the binding with arguments in normal form.
func (b BindingItem) Observed() vhost.Binding {
	return vhost.Binding{
		Source: b.Source, Destination: b.Destination, RoutingKey: b.RoutingKey,
		ToExchange: b.DestinationType == "exchange", Arguments: vhost.Normalize(b.Arguments),
	}
}

// Observed returns the policy with its definition in normal form. operator is true for an operator policy.
func (p PolicyItem) Observed(patterns *vhost.Patterns, operator bool) vhost.Policy {
	return vhost.Policy{
		Name: p.Name, Pattern: patterns.Read(p.Pattern), Priority: float64(p.Priority), ApplyTo: p.ApplyTo, Operator: operator,
		Definition: vhost.Normalize(p.Definition),
	}
}

// Size is the memory that the policy takes, in bytes.
func (p PolicyItem) Size() int64 {
	return sizeOfPolicy + int64(len(p.Name)+len(p.Pattern)+len(p.ApplyTo)) + SizeOf(p.Definition)
}
