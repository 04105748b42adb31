package vhost

import (
	"fmt"
	"maps"
	"slices"
)

// This file finds the objects that dead letters of the observed queues still need. Warren must not delete these objects: RabbitMQ
// drops a dead letter without a route, or keeps it in its source queue forever.

// DeadLetterRoute is the route of a queue's dead letters, which its arguments or a policy set.
type DeadLetterRoute struct {
	Queue, Exchange string
	// RoutingKey is nil if each message keeps its own key.
	RoutingKey *string
}

// DeadLetterRouteOf returns the route of a queue's dead letters under a policy with this definition, which may be nil. An argument
// overrides a policy. It returns false if the queue does not dead-letter.
func DeadLetterRouteOf(name string, queue Queue, policy Arguments) (DeadLetterRoute, bool) {
	value := func(argument, key string) any {
		if own, given := queue.Arguments[argument]; given {
			return own
		}
		return policy[key]
	}
	exchange, dead := value(ArgDeadLetterExchange, KeyDeadLetterExchange).(string)
	route := DeadLetterRoute{Queue: name, Exchange: exchange}
	if key, given := value(ArgDeadLetterRoutingKey, KeyDeadLetterRoutingKey).(string); given {
		route.RoutingKey = &key
	}
	return route, dead
}

// DeadLetterRoutesIn returns the routes of the queues that dead-letter by their arguments, sorted by queue.
func DeadLetterRoutesIn(queues map[string]Queue) []DeadLetterRoute {
	var found []DeadLetterRoute
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		if route, dead := DeadLetterRouteOf(name, queues[name], nil); dead {
			found = append(found, route)
		}
	}
	return found
}

// searchLimit is how many steps a deadLetterSearch takes. A real vhost with ten thousand queues needs a tenth of that.
const searchLimit = 5_000_000

// deadLetterSearch finds where dead letters can go. A vhost can be made so that a search would take hours. After searchLimit steps, the
// search therefore finds that dead letters can go anywhere: Warren then retains what it need not retain.
type deadLetterSearch struct {
	Observed

	steps int
	// before has, for each exchange, the exchanges that can pass messages to it: exchanges to which it is bound, and those whose
	// alternate exchange it is.
	before map[string][]string
	// leading has, for each exchange of which the search was asked, the exchanges from which messages can reach it.
	leading map[string]map[string]bool
}

// spend counts steps, and returns true after the last one.
func (s *deadLetterSearch) spend(steps int) bool {
	s.steps += steps
	return s.steps > searchLimit
}

// leads reports whether messages can reach an exchange from another one, directly or through further exchanges. It ignores the keys of
// the bindings between exchanges, so Warren may retain too much, but never too little.
func (s *deadLetterSearch) leads(from, to string) bool {
	if from == "" || from == to {
		return from != ""
	}
	if s.leading[to] == nil {
		s.findLeading(to)
	}
	return s.leading[to][from]
}

func (s *deadLetterSearch) findLeading(to string) {
	if s.before == nil {
		s.before = map[string][]string{}
		for name := range s.BindingsFrom {
			for _, next := range s.boundExchanges(name) {
				s.before[next] = append(s.before[next], name)
			}
		}
		for name, exchange := range s.Exchanges {
			if alternate, given := exchange.Alternate(); given {
				s.before[alternate] = append(s.before[alternate], name)
			}
		}
		s.leading = map[string]map[string]bool{}
	}
	leading := map[string]bool{}
	for name := range Reach([]string{to}, func(name string) []string { return s.before[name] }) {
		leading[name] = true
	}
	s.leading[to] = leading
	s.spend(len(leading))
}

// mayRoute reports whether a binding can route a queue's dead letters.
func (s *deadLetterSearch) mayRoute(from DeadLetterRoute, binding Binding) bool {
	return s.spend(1) || s.leads(from.Exchange, binding.Source) && from.MayTake(binding, s.Exchanges[binding.Source].Type)
}

// MayTake reports whether the binding of an exchange of this type may match a dead letter at that exchange.
func (d DeadLetterRoute) MayTake(binding Binding, exchangeType string) bool {
	if d.RoutingKey == nil {
		return true // it depends on each message's key
	}
	matches, known := MatchesKey(exchangeType, binding.RoutingKey, *d.RoutingKey)
	return matches || !known
}

// alwaysRoutes reports whether a binding matches every dead letter of a queue that reaches the binding's exchange.
func (o Observed) alwaysRoutes(from DeadLetterRoute, binding Binding) bool {
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

// straightTo reports whether the default exchange can route a queue's dead letters to another queue.
func (d DeadLetterRoute) straightTo(queue string) bool {
	return d.Exchange == "" && (d.RoutingKey == nil || *d.RoutingKey == queue)
}

// NeededByDeadLettersOf returns a queue whose dead letters need the binding: no other binding from the same exchange would route
// them to a queue. It returns the empty string if there is none. Another binding counts only if it is not in leaving, and replaces is
// true for it and the queue.
func (o Observed) NeededByDeadLettersOf(binding Binding, leaving IDs, replaces func(from string, other Binding) bool) string {
	search := deadLetterSearch{Observed: o}
	for _, from := range o.DeadLetterRoutes {
		if !search.mayRoute(from, binding) {
			continue
		}
		stays := !search.spend(len(o.BindingsFrom[binding.Source])) && o.leadsToQueue(binding.Source, leaving, func(other Binding) bool {
			return (other.sameMatch(binding) || o.alwaysRoutes(from, other)) && replaces(from.Queue, other)
		})
		if !stays {
			return from.Queue
		}
	}
	return ""
}

// HasAlternative reports whether another binding of the exchange routes all messages of this binding to a queue. Bindings in
// leaving are no alternative. Neither are those for which replaces is false.
func (o Observed) HasAlternative(binding Binding, leaving IDs, replaces func(other Binding) bool) bool {
	isFanout := o.Exchanges[binding.Source].Type == TypeFanout
	return o.leadsToQueue(binding.Source, leaving, func(other Binding) bool {
		return other.ID() != binding.ID() && (isFanout || other.sameMatch(binding)) && replaces(other)
	})
}

// leadsToQueue reports whether an exchange has a binding to a queue that satisfies takes and is not in leaving.
func (o Observed) leadsToQueue(exchange string, leaving IDs, takes func(Binding) bool) bool {
	return slices.ContainsFunc(o.BindingsFrom[exchange], func(binding Binding) bool {
		return !binding.ToExchange && !leaving.hasBinding(binding) && takes(binding)
	})
}

// hasBinding reports whether a binding of a queue is in the set. Bindings between exchanges never are.
func (s IDs) hasBinding(binding Binding) bool {
	return len(s) > 0 && !binding.ToExchange && s[binding.ID()]
}

// sameMatch reports whether two bindings of one exchange match the same messages, whatever the exchange's type.
func (b Binding) sameMatch(other Binding) bool {
	return b.RoutingKey == other.RoutingKey && b.Arguments.Equal(other.Arguments)
}

// DeadLettersInto returns a queue whose dead letters can reach the given queue, ignoring queues in except. It returns the empty
// string if there is none.
func (o Observed) DeadLettersInto(queue string, except []string) string {
	search := deadLetterSearch{Observed: o}
	mayRoute := func(from DeadLetterRoute) bool {
		return slices.ContainsFunc(o.BindingsTo[queue], func(binding Binding) bool { return search.mayRoute(from, binding) })
	}
	for _, from := range o.DeadLetterRoutes {
		if from.Queue == queue || slices.Contains(except, from.Queue) {
			continue
		}
		if from.straightTo(queue) || mayRoute(from) {
			return from.Queue
		}
	}
	return ""
}

// UsedBy describes what still needs an exchange: a binding that is not in leaving, another exchange, or a queue that dead-letters
// to it. It returns the empty string if nothing does.
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
	for _, from := range o.DeadLetterRoutes {
		if from.Exchange == exchange {
			return fmt.Sprintf("queue %q dead-letters to it", from.Queue)
		}
	}
	return ""
}
