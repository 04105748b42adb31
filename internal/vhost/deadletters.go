package vhost

import (
	"cmp"
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

// DeadLettersAtLeastOnce reports whether a quorum queue that dead-letters does so at least once, whichever of the policies RabbitMQ
// applies. Without overflow reject-publish, RabbitMQ dead-letters at most once, whatever the strategy (3.10, 4.0, 4.3). An argument
// overrides the strategy of a policy, but a policy overrides the overflow of an argument. The policies must not contain fences, which set
// overflow.
func DeadLettersAtLeastOnce(queue string, arguments Arguments, policies []Policy) bool {
	mayLose := func(policy Arguments) bool {
		return cmp.Or(arguments[ArgDeadLetterStrategy], policy[KeyDeadLetterStrategy]) != StrategyAtLeastOnce ||
			cmp.Or(policy[KeyOverflow], arguments[ArgOverflow]) != OverflowRejectPublish
	}
	mayDrop := func(operator Arguments) bool {
		return cmp.Or[any](operator[KeyOverflow], OverflowRejectPublish) != OverflowRejectPublish
	}
	return !slices.ContainsFunc(PossibleDefinitions(queue, policies, false), mayLose) &&
		!slices.ContainsFunc(PossibleDefinitions(queue, policies, true), mayDrop)
}

// searchLimit is the maximum number of steps of a DeadLetterSearch: enough for 7,000 queues that share a dead-letter exchange with as many
// bindings. The steps take some seconds at most.
const searchLimit = 50_000_000

// DeadLetterSearch finds the objects that dead letters need. A hostile vhost could make the search take hours. So after searchLimit steps,
// the search reports every object as needed, and Warren retains objects that may be unneeded.
type DeadLetterSearch struct {
	Observed

	steps int
	// before maps each exchange to the exchanges that can pass messages to it: exchanges to which it is bound, and exchanges whose
	// alternate it is.
	before map[string][]string
	// target is an exchange, and leading has the exchanges from which messages can reach it.
	target  string
	leading map[string]bool
}

// SearchDeadLetters begins a search.
func (o Observed) SearchDeadLetters() *DeadLetterSearch { return &DeadLetterSearch{Observed: o} }

// spend counts a number of steps, and returns true once the limit is reached.
func (s *DeadLetterSearch) spend(steps int) bool {
	s.steps += steps
	return s.steps > searchLimit
}

// leads reports whether messages can reach an exchange from another one, directly or through further exchanges. It ignores the keys of the
// bindings between exchanges, so Warren may retain too much, but never too little. It caches the exchanges that lead to one target, so
// group the calls by target.
func (s *DeadLetterSearch) leads(from, to string) bool {
	if from == "" || from == to {
		return from != ""
	}
	if s.leading == nil || s.target != to {
		s.findLeading(to)
	}
	return s.leading[from]
}

func (s *DeadLetterSearch) findLeading(to string) {
	if s.before == nil {
		s.before = map[string][]string{}
		for name := range s.BindingsFrom {
			for _, next := range s.boundExchanges(name) {
				s.before[next] = append(s.before[next], name)
			}
		}
		alternates := s.Alternates
		if alternates == nil {
			alternates = alternatesIn(s.Exchanges, AlternatePolicies(s.Policies))
		}
		for name, exchanges := range alternates {
			for _, alternate := range exchanges {
				s.before[alternate] = append(s.before[alternate], name)
			}
		}
	}
	s.target, s.leading = to, map[string]bool{}
	for name := range Reach([]string{to}, func(name string) []string { return s.before[name] }) {
		s.leading[name] = true
		s.spend(1 + len(s.before[name]))
	}
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

// StraightTo reports whether the default exchange can route a queue's dead letters to another queue.
func (d DeadLetterRoute) StraightTo(queue string) bool {
	return d.Exchange == "" && (d.RoutingKey == nil || *d.RoutingKey == queue)
}

// NeededBy returns a queue whose dead letters need the binding: no other binding from the same exchange would route them to a queue. It
// returns the empty string if there is none. Another binding counts only if it is not in leaving, and if replaces returns true for the
// queue and the binding.
func (s *DeadLetterSearch) NeededBy(binding Binding, leaving IDs, replaces func(from string, other Binding) bool) string {
	kind := s.Exchanges[binding.Source].Type
	for _, from := range s.DeadLetterRoutes {
		if s.spend(1) {
			return from.Queue
		}
		if !s.leads(from.Exchange, binding.Source) || !from.MayTake(binding, kind) {
			continue
		}
		stays := s.leadsToQueue(binding.Source, leaving, func(other Binding) bool {
			return !s.spend(1) && (other.sameMatch(binding) || s.alwaysRoutes(from, other)) && replaces(from.Queue, other)
		})
		if !stays {
			return from.Queue
		}
	}
	return ""
}

// HasAlternative reports whether another binding of the exchange routes all messages of this binding to a queue. A binding is no
// alternative if it is in leaving, or if replaces returns false for it.
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

// Into returns a queue whose dead letters can reach the given queue, ignoring queues in except. It returns the empty string if there is
// none.
func (s *DeadLetterSearch) Into(queue string, except []string) string {
	counts := func(from DeadLetterRoute) bool { return from.Queue != queue && !slices.Contains(except, from.Queue) }
	for _, from := range s.DeadLetterRoutes {
		if counts(from) && from.StraightTo(queue) {
			return from.Queue
		}
	}
	bindings := map[string][]Binding{} // by source
	for _, binding := range s.BindingsTo[queue] {
		bindings[binding.Source] = append(bindings[binding.Source], binding)
	}
	for _, source := range slices.Sorted(maps.Keys(bindings)) {
		takes := func(from DeadLetterRoute) bool {
			return slices.ContainsFunc(bindings[source], func(binding Binding) bool {
				return s.spend(1) || from.MayTake(binding, s.Exchanges[source].Type)
			})
		}
		for _, from := range s.DeadLetterRoutes {
			if counts(from) && (s.spend(1) || s.leads(from.Exchange, source) && takes(from)) {
				return from.Queue
			}
		}
	}
	return ""
}

// UsedBy describes why an exchange is still in use: by a binding that is not in leaving, by another exchange, or by a queue that
// dead-letters to it. It returns the empty string if the exchange is unused.
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
		if alternate, given := o.Exchanges[name].alternate(); given && alternate == exchange {
			return fmt.Sprintf("it is the alternate exchange of %q", name)
		}
	}
	for i := range o.Policies {
		if alternate, given := o.Policies[i].alternate(); given && alternate == exchange {
			return fmt.Sprintf("policy %q makes it an alternate exchange", o.Policies[i].Name)
		}
	}
	for _, from := range o.DeadLetterRoutes {
		if from.Exchange == exchange {
			return fmt.Sprintf("queue %q dead-letters to it", from.Queue)
		}
	}
	return ""
}
