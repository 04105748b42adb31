package vhost

import (
	"fmt"
	"iter"
	"maps"
	"slices"
)

// This file answers what the dead letters of the observed queues still need. What they lead to must not go: a dead letter
// without a way is dropped, or stuck in its source for ever.

// DeadLetter says where a queue sends its dead letters, by its arguments or by the policy that applies to it.
type DeadLetter struct {
	Queue, Exchange string
	// RoutingKey is nil where each message keeps its own.
	RoutingKey *string
}

// DeadLettersOf says where a queue sends its dead letters under a policy with this definition, which may be nil: an argument
// wins over a policy. It is false if the queue sends them nowhere.
func DeadLettersOf(name string, queue Queue, policy Arguments) (DeadLetter, bool) {
	value := func(argument, key string) any {
		if own, given := queue.Arguments[argument]; given {
			return own
		}
		return policy[key]
	}
	exchange, dead := value(ArgDeadLetterExchange, KeyDeadLetterExchange).(string)
	letter := DeadLetter{Queue: name, Exchange: exchange}
	if key, given := value(ArgDeadLetterRoutingKey, KeyDeadLetterRoutingKey).(string); given {
		letter.RoutingKey = &key
	}
	return letter, dead
}

// leadingTo tells whether dead letters can come to an exchange: straight, or by way of others. The keys on the way are not looked at,
// so that too much rather than too little is kept. Each exchange that queues dead-letter to is looked at once: thousands of queues
// may share one, with thousands of bindings.
func (o Observed) leadingTo(exchange string) func(from DeadLetter) bool {
	known := map[string]bool{"": false}
	return func(from DeadLetter) bool {
		leads, asked := known[from.Exchange]
		if !asked {
			leads = contains(Reach([]string{from.Exchange}, o.onward), exchange)
			known[from.Exchange] = leads
		}
		return leads
	}
}

func contains(names iter.Seq[string], name string) bool {
	for each := range names {
		if each == name {
			return true
		}
	}
	return false
}

// onward lists the exchanges that an exchange can hand messages on to: those bound to it, and its alternate.
func (o Observed) onward(exchange string) []string {
	next := o.boundExchanges(exchange)
	if alternate, given := o.Exchanges[exchange].Alternate(); given {
		next = append(next, alternate)
	}
	return next
}

// mayRouteBy tells whether an exchange can hand a queue's dead letters on by a binding.
func (o Observed) mayRouteBy(binding Binding) func(from DeadLetter) bool {
	leads := o.leadingTo(binding.Source)
	return func(from DeadLetter) bool { return leads(from) && o.mayMatch(from, binding) }
}

// mayMatch reports whether a dead letter that comes to the exchange of a binding may match the binding.
func (o Observed) mayMatch(from DeadLetter, binding Binding) bool {
	return from.MayTake(binding, o.Exchanges[binding.Source].Type)
}

// MayTake reports whether a dead letter that comes to the exchange of a binding, which has this type, may match the binding.
func (d DeadLetter) MayTake(binding Binding, exchangeType string) bool {
	if d.RoutingKey == nil {
		return true // it depends on each message
	}
	matches, known := MatchesKey(exchangeType, binding.RoutingKey, *d.RoutingKey)
	return matches || !known
}

// alwaysRoutes says whether an exchange hands on, by a binding, every dead letter of a queue that comes to the exchange.
func (o Observed) alwaysRoutes(from DeadLetter, binding Binding) bool {
	exchange := o.Exchanges[binding.Source].Type
	if exchange == TypeFanout {
		return true
	}
	if from.RoutingKey == nil {
		return false
	}
	matches, known := MatchesKey(exchange, binding.RoutingKey, *from.RoutingKey)
	return matches && known
}

// straightTo says whether a queue's dead letters can come to another queue by the default exchange.
func (d DeadLetter) straightTo(queue string) bool {
	return d.Exchange == "" && (d.RoutingKey == nil || *d.RoutingKey == queue)
}

// NeededByDeadLettersOf names a queue whose dead letters take a binding and would have no other binding to a queue from the
// same exchange; empty if there is none. Bindings in leaving do not count as another way.
func (o Observed) NeededByDeadLettersOf(binding Binding, leaving IDs) string {
	mayRoute := o.mayRouteBy(binding)
	for _, from := range o.DeadLetters {
		if !mayRoute(from) {
			continue
		}
		stays := o.leadsToQueue(binding.Source, leaving, func(other Binding) bool {
			return other.sameMatch(binding) || o.alwaysRoutes(from, other)
		})
		if !stays {
			return from.Queue
		}
	}
	return ""
}

// HasAlternative says whether all messages that take a binding to a queue take another binding of the exchange to a queue, too. Bindings in
// leaving are no alternative.
func (o Observed) HasAlternative(binding Binding, leaving IDs) bool {
	isFanout := o.Exchanges[binding.Source].Type == TypeFanout
	return o.leadsToQueue(binding.Source, leaving, func(other Binding) bool {
		return other.ID() != binding.ID() && (isFanout || other.sameMatch(binding))
	})
}

// leadsToQueue says whether an exchange has a binding to a queue, other than those that are leaving, that takes certain messages.
func (o Observed) leadsToQueue(exchange string, leaving IDs, takes func(Binding) bool) bool {
	return slices.ContainsFunc(o.BindingsFrom[exchange], func(binding Binding) bool {
		return !binding.ToExchange && !leaving.hasBinding(binding) && takes(binding)
	})
}

// hasBinding says whether a binding is in the set. Bindings of exchanges never are.
func (s IDs) hasBinding(binding Binding) bool {
	return len(s) > 0 && !binding.ToExchange && s[binding.ID()]
}

// sameMatch says whether two bindings of one exchange take the same messages, whatever the type of the exchange.
func (b Binding) sameMatch(other Binding) bool {
	return b.RoutingKey == other.RoutingKey && b.Arguments.Equal(other.Arguments)
}

// DeadLettersInto names a queue, other than those in except, whose dead letters come to a queue; empty if there is none.
func (o Observed) DeadLettersInto(queue string, except []string) string {
	leads := map[string]func(from DeadLetter) bool{} // by source exchange
	mayRoute := func(from DeadLetter) bool {
		return slices.ContainsFunc(o.BindingsTo[queue], func(binding Binding) bool {
			if leads[binding.Source] == nil {
				leads[binding.Source] = o.leadingTo(binding.Source)
			}
			return leads[binding.Source](from) && o.mayMatch(from, binding)
		})
	}
	for _, from := range o.DeadLetters {
		if from.Queue == queue || slices.Contains(except, from.Queue) {
			continue
		}
		if from.straightTo(queue) || mayRoute(from) {
			return from.Queue
		}
	}
	return ""
}

// UsedBy says what still needs an exchange: a binding other than those that are leaving, another exchange, or a queue that
// dead-letters to it; empty if nothing does.
func (o Observed) UsedBy(exchange string, leaving IDs) string {
	for _, binding := range o.BindingsFrom[exchange] {
		if !leaving.hasBinding(binding) {
			return fmt.Sprintf("%q is bound to it", binding.Destination)
		}
	}
	for _, source := range slices.Sorted(maps.Keys(o.BindingsFrom)) {
		if slices.Contains(o.boundExchanges(source), exchange) {
			return fmt.Sprintf("it is bound to exchange %q", source)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Exchanges)) {
		if alternate, given := o.Exchanges[name].Alternate(); given && alternate == exchange {
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
