package vhost

import (
	"cmp"
	"fmt"
)

// Kind is a kind of object in a vhost.
type Kind string

// The kinds of objects.
const (
	KindExchange Kind = "Exchange"
	KindQueue    Kind = "Queue"
	KindBinding  Kind = "Binding"
)

// ID identifies an exchange, a queue, or a binding of a queue to an exchange. It can be compared and used as the key of a
// map: bindings come in tens of thousands, and are looked up rather than searched for.
type ID struct {
	Kind Kind
	// Name is that of an exchange or queue.
	Name string
	// Source, Destination and RoutingKey are those of a binding.
	Source, Destination, RoutingKey string
	// Arguments are those of a binding, as JSON.
	Arguments string
}

// ExchangeID identifies an exchange.
func ExchangeID(name string) ID { return ID{Kind: KindExchange, Name: name} }

// QueueID identifies a queue.
func QueueID(name string) ID { return ID{Kind: KindQueue, Name: name} }

// Compare orders IDs.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Kind, other.Kind), cmp.Compare(id.Name, other.Name),
		cmp.Compare(id.Source, other.Source), cmp.Compare(id.Destination, other.Destination),
		cmp.Compare(id.RoutingKey, other.RoutingKey), cmp.Compare(id.Arguments, other.Arguments))
}

// String names the object in messages.
func (id ID) String() string {
	switch id.Kind {
	case KindExchange:
		return fmt.Sprintf("exchange %q", id.Name)
	case KindQueue:
		return fmt.Sprintf("queue %q", id.Name)
	}
	return fmt.Sprintf("the binding of queue %q to exchange %q", id.Destination, id.Source)
}

// IDs is a set of objects.
type IDs map[ID]bool

// HasEitherEnd says whether the set has the exchange or the queue that a binding binds.
func (s IDs) HasEitherEnd(binding ID) bool {
	return s[ExchangeID(binding.Source)] || s[QueueID(binding.Destination)]
}
