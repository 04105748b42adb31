package topology_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
)

// This file does to an Observed what a broker does.

// declare adds what is not there yet.
func declare(t testing.TB, o *topology.Observed, topo topology.Topology) {
	t.Helper()
	wanted := observe(t, topo)
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
			if !slices.ContainsFunc(o.BindingsTo[name], func(b topology.ObservedBinding) bool { return sameBinding(b, binding) }) {
				bind(o, binding)
			}
		}
	}
}

// addDeadLettering adds a queue that dead-letters to an exchange; with the key of each message if none is given.
func addDeadLettering(o *topology.Observed, queue, exchange, key string) {
	arguments := topology.Arguments{topology.ArgQueueType: "quorum", topology.ArgDeadLetterExchange: exchange}
	if key != "" {
		arguments[topology.ArgDeadLetterRoutingKey] = key
	}
	o.Queues[queue] = topology.ObservedQueue{Durable: true, Arguments: arguments}
}

// deadLetters are where queues dead-letter to, sorted by queue.
func deadLetters(o topology.Observed) []topology.DeadLetter {
	var found []topology.DeadLetter
	for _, name := range slices.Sorted(maps.Keys(o.Queues)) {
		exchange, dead := o.Queues[name].Arguments[topology.ArgDeadLetterExchange].(string)
		if !dead {
			continue
		}
		letter := topology.DeadLetter{Queue: name, Exchange: exchange}
		if key, given := o.Queues[name].Arguments[topology.ArgDeadLetterRoutingKey].(string); given {
			letter.RoutingKey = &key
		}
		found = append(found, letter)
	}
	return found
}

// dropQueue deletes a queue with the bindings to it.
func dropQueue(o *topology.Observed, name string) {
	delete(o.Queues, name)
	dropBindings(o, func(b topology.ObservedBinding) bool { return !b.ToExchange && b.Destination == name })
}

// dropExchange deletes an exchange with all its bindings.
func dropExchange(o *topology.Observed, name string) {
	delete(o.Exchanges, name)
	dropBindings(o, func(b topology.ObservedBinding) bool {
		return b.Source == name || (b.ToExchange && b.Destination == name)
	})
}

func dropBindings(o *topology.Observed, gone func(topology.ObservedBinding) bool) {
	for _, index := range []map[string][]topology.ObservedBinding{o.BindingsTo, o.BindingsFrom} {
		for end, bindings := range index {
			index[end] = slices.DeleteFunc(slices.Clone(bindings), gone)
			if len(index[end]) == 0 {
				delete(index, end)
			}
		}
	}
}

// unbind takes away the binding of a change.
func unbind(o *topology.Observed, change v1alpha1.Change) {
	dropBindings(o, func(b topology.ObservedBinding) bool {
		return !b.ToExchange && b.Source == change.Source && b.Destination == change.Destination && b.RoutingKey == change.RoutingKey &&
			b.Arguments.JSON() == change.Arguments
	})
}

func sameBinding(a, b topology.ObservedBinding) bool {
	return a.Source == b.Source && a.Destination == b.Destination && a.ToExchange == b.ToExchange && a.RoutingKey == b.RoutingKey &&
		a.Arguments.Equal(b.Arguments)
}

// letter is a dead letter on its way.
type letter struct{ key, reason string }

// arrives lists the queues that a message comes to that is dead-lettered to an exchange.
func arrives(o topology.Observed, exchange string, message letter) map[string]bool {
	queues, seen := map[string]bool{}, map[string]bool{}
	if exchange == "" {
		if _, exists := o.Queues[message.key]; exists {
			queues[message.key] = true
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

func accepts(exchange string, binding topology.ObservedBinding, message letter) bool {
	switch exchange {
	case "fanout":
		return true
	case "headers":
		return binding.Arguments["x-last-death-reason"] == message.reason
	case "direct":
		return binding.RoutingKey == message.key
	case "topic":
		return matches(words(binding.RoutingKey), words(message.key))
	}
	return false
}

func words(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

func matches(pattern, key []string) bool {
	switch {
	case len(pattern) == 0:
		return len(key) == 0
	case pattern[0] == "#":
		return matches(pattern[1:], key) || (len(key) > 0 && matches(pattern, key[1:]))
	}
	return len(key) > 0 && (pattern[0] == "*" || pattern[0] == key[0]) && matches(pattern[1:], key[1:])
}
