package topology

import (
	"fmt"
	"maps"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// This file answers what the dead letters of the observed queues still need. What they lead to must not go: a dead letter
// without a way is dropped, or stuck in its source for ever.

// leadsTo says whether dead letters can come to an exchange: straight, or by way of others. Which of the ways a message
// takes is not looked at, so that too much rather than too little is kept.
func (o Observed) leadsTo(from DeadLetter, exchange string) bool {
	if from.Exchange == "" {
		return false
	}
	seen := map[string]bool{from.Exchange: true}
	for open := []string{from.Exchange}; len(open) > 0; open = open[1:] {
		if open[0] == exchange {
			return true
		}
		for _, next := range o.onward(open[0]) {
			if !seen[next] {
				seen[next] = true
				open = append(open, next)
			}
		}
	}
	return false
}

// onward lists the exchanges that an exchange can hand messages on to: those bound to it, and its alternate.
func (o Observed) onward(exchange string) []string {
	var next []string
	for _, binding := range o.BindingsFrom[exchange] {
		if binding.ToExchange {
			next = append(next, binding.Destination)
		}
	}
	if alternate, given := o.Exchanges[exchange].Arguments["alternate-exchange"].(string); given {
		next = append(next, alternate)
	}
	return next
}

// takes says whether an exchange can hand a queue's dead letters on by a binding.
func (o Observed) takes(from DeadLetter, binding Binding) bool {
	if !o.leadsTo(from, binding.Source) {
		return false
	}
	if from.RoutingKey == nil {
		return true // it depends on each message
	}
	matches, known := matchesKey(v1alpha1.ExchangeType(o.Exchanges[binding.Source].Type), binding.RoutingKey, *from.RoutingKey)
	return matches || !known
}

// straightTo says whether a queue's dead letters can come to another one by the default exchange.
func (d DeadLetter) straightTo(queue string) bool {
	return d.Exchange == "" && (d.RoutingKey == nil || *d.RoutingKey == queue)
}

// neededBy names a queue whose dead letters take a binding and would have no other to a queue from the same exchange; empty
// if there is none. Bindings in leaving do not count as another way.
func (o Observed) neededBy(binding Binding, leaving bindingSet) string {
	for _, from := range o.DeadLetters {
		if !o.takes(from, binding) {
			continue
		}
		stays := slices.ContainsFunc(o.BindingsFrom[binding.Source], func(other ObservedBinding) bool {
			return !other.ToExchange && !leaving.has(other) && (other.alike(binding) || o.surelyTakes(from, other))
		})
		if !stays {
			return from.Queue
		}
	}
	return ""
}

// alike says whether two bindings of one exchange take the same messages, whatever the type of the exchange.
func (o ObservedBinding) alike(other Binding) bool {
	return o.RoutingKey == other.RoutingKey && o.Arguments.Equal(other.Arguments)
}

// surelyTakes says whether a binding takes every dead letter of a queue that comes to its exchange.
func (o Observed) surelyTakes(from DeadLetter, binding ObservedBinding) bool {
	exchange := v1alpha1.ExchangeType(o.Exchanges[binding.Source].Type)
	if exchange == v1alpha1.ExchangeFanout {
		return true
	}
	if from.RoutingKey == nil {
		return false
	}
	matches, known := matchesKey(exchange, binding.RoutingKey, *from.RoutingKey)
	return matches && known
}

// feeds names a queue, other than those in without, whose dead letters come to a queue; empty if there is none.
func (o Observed) feeds(queue string, without []string) string {
	for _, from := range o.DeadLetters {
		if from.Queue == queue || slices.Contains(without, from.Queue) {
			continue
		}
		bound := slices.ContainsFunc(o.BindingsTo[queue], func(b ObservedBinding) bool { return o.takes(from, b.binding()) })
		if bound || from.straightTo(queue) {
			return from.Queue
		}
	}
	return ""
}

// uses says what still needs an exchange: a binding other than those that are leaving, another exchange, or a queue that
// dead-letters to it; empty if nothing does.
func (o Observed) uses(exchange string, leaving bindingSet) string {
	for _, binding := range o.BindingsFrom[exchange] {
		if !leaving.has(binding) {
			return fmt.Sprintf("%q is bound to it", binding.Destination)
		}
	}
	for _, source := range slices.Sorted(maps.Keys(o.BindingsFrom)) {
		if slices.ContainsFunc(o.BindingsFrom[source], func(b ObservedBinding) bool { return b.ToExchange && b.Destination == exchange }) {
			return fmt.Sprintf("it is bound to exchange %q", source)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Exchanges)) {
		if o.Exchanges[name].Arguments["alternate-exchange"] == exchange {
			return fmt.Sprintf("it is the alternate exchange of %q", name)
		}
	}
	for _, from := range o.DeadLetters {
		if from.Exchange == exchange {
			return fmt.Sprintf("queue %q dead-letters to it", from.Queue)
		}
	}
	return ""
}
