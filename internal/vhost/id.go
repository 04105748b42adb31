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

// ID identifies an exchange, a queue, or a binding of a queue to an exchange. It is comparable, so that maps can index tens of
// thousands of bindings by it.
type ID struct {
	Kind Kind
	// Name of an exchange or queue; empty for a binding.
	Name string
	// Source, Destination and RoutingKey of a binding; empty for other objects.
	Source, Destination, RoutingKey string
	// Arguments of a binding, as JSON.
	Arguments string
}

// ExchangeID identifies an exchange.
func ExchangeID(name string) ID { return ID{Kind: KindExchange, Name: name} }

// QueueID identifies a queue.
func QueueID(name string) ID { return ID{Kind: KindQueue, Name: name} }

// Compare returns the order of two IDs, as cmp.Compare does.
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

// HasEitherEnd reports whether the set contains the exchange or the queue of a binding.
func (s IDs) HasEitherEnd(binding ID) bool {
	return s[ExchangeID(binding.Source)] || s[QueueID(binding.Destination)]
}
