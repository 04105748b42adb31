package topologytest

import (
	"maps"
	"slices"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// This file changes an Observed as a broker would.

// Declare adds the objects that are missing.
func Declare(t testing.TB, o *vhost.Observed, topo topology.Topology) {
	t.Helper()
	wanted := Observe(t, topo)
	for name, exchange := range wanted.Exchanges {
		if _, exists := o.Exchanges[name]; !exists {
			o.Exchanges[name] = exchange
		}
	}
	for name, queue := range wanted.Queues {
		if _, exists := o.Queues[name]; !exists {
			o.Queues[name] = queue
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted.BindingsTo)) {
		for _, binding := range wanted.BindingsTo[name] {
			if !slices.ContainsFunc(o.BindingsTo[name], func(b vhost.Binding) bool { return SameBinding(b, binding) }) {
				Bind(o, binding)
			}
		}
	}
}

// AddDeadLettering adds a queue that dead-letters to an exchange. With an empty key, each message keeps its own.
func AddDeadLettering(o *vhost.Observed, queue, exchange, key string) {
	arguments := vhost.Arguments{vhost.ArgQueueType: "quorum", vhost.ArgDeadLetterExchange: exchange}
	if key != "" {
		arguments[vhost.ArgDeadLetterRoutingKey] = key
	}
	o.Queues[queue] = vhost.Queue{Durable: true, Arguments: arguments}
}

// DropQueue deletes a queue and its bindings.
func DropQueue(o *vhost.Observed, name string) {
	delete(o.Queues, name)
	DropBindings(o, func(b vhost.Binding) bool { return !b.ToExchange && b.Destination == name })
}

// DropExchange deletes an exchange and its bindings.
func DropExchange(o *vhost.Observed, name string) {
	delete(o.Exchanges, name)
	DropBindings(o, func(b vhost.Binding) bool {
		return b.Source == name || (b.ToExchange && b.Destination == name)
	})
}

// DropBindings removes the bindings for which gone returns true.
func DropBindings(o *vhost.Observed, gone func(vhost.Binding) bool) {
	for _, index := range []map[string][]vhost.Binding{o.BindingsTo, o.BindingsFrom} {
		for end, bindings := range index {
			index[end] = slices.DeleteFunc(slices.Clone(bindings), gone)
			if len(index[end]) == 0 {
				delete(index, end)
			}
		}
	}
}

// SetArgument changes an argument of a queue.
func SetArgument(o *vhost.Observed, queue, argument string, value any) {
	changed := maps.Clone(o.Queues[queue].Arguments)
	changed[argument] = value
	o.Queues[queue] = vhost.Queue{Durable: true, Arguments: changed}
}

// UnbindFrom removes all bindings of a queue to an exchange.
func UnbindFrom(o *vhost.Observed, source, destination string) {
	DropBindings(o, func(b vhost.Binding) bool { return b.Source == source && b.Destination == destination })
}

// Unbind removes the binding of a change.
func Unbind(o *vhost.Observed, change v1alpha1.Change) {
	DropBindings(o, func(b vhost.Binding) bool {
		return !b.ToExchange && b.Source == change.Source && b.Destination == change.Destination && b.RoutingKey == change.RoutingKey &&
			b.Arguments.JSON() == change.Arguments
	})
}

// SameBinding reports whether a broker treats two bindings as the same.
func SameBinding(a, b vhost.Binding) bool {
	return a.Source == b.Source && a.Destination == b.Destination && a.ToExchange == b.ToExchange && a.RoutingKey == b.RoutingKey &&
		a.Arguments.Equal(b.Arguments)
}

// DeadLetter is a dead letter that is being routed.
type DeadLetter struct{ Key, Reason string }

// Arrives returns the queues that receive a message which is dead-lettered to an exchange.
func Arrives(o vhost.Observed, exchange string, message DeadLetter) map[string]bool {
	queues, seen := map[string]bool{}, map[string]bool{}
	if exchange == "" {
		if _, exists := o.Queues[message.Key]; exists {
			queues[message.Key] = true
		}
		return queues
	}
	for open := []string{exchange}; len(open) > 0; open = open[1:] {
		if seen[open[0]] {
			continue
		}
		seen[open[0]] = true
		routed := false
		for _, binding := range o.BindingsFrom[open[0]] {
			if !accepts(o.Exchanges[open[0]].Type, binding, message) {
				continue
			}
			routed = true
			if binding.ToExchange {
				open = append(open, binding.Destination)
			} else {
				queues[binding.Destination] = true
			}
		}
		if alternate, given := o.Exchanges[open[0]].Arguments["alternate-exchange"].(string); given && !routed {
			open = append(open, alternate)
		}
	}
	return queues
}

func accepts(exchange string, binding vhost.Binding, message DeadLetter) bool {
	if exchange == vhost.TypeHeaders {
		return binding.Arguments["x-last-death-reason"] == message.Reason
	}
	matches, _ := vhost.MatchesKey(exchange, binding.RoutingKey, message.Key)
	return matches
}
