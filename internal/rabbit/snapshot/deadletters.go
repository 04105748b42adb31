package snapshot

import (
	"slices"

	"github.com/warren-mq/warren/internal/vhost"
)

// addDeadLetterSources adds the bindings from these exchanges to observed: the named exchanges, the exchanges to which the named queues are
// bound, and all exchanges that lead to other exchanges. It returns the routes of the queues that may dead-letter to a named object.
func (s *Snapshot) addDeadLetterSources(names vhost.Selection, observed vhost.Observed) []vhost.DeadLetterRoute {
	index := s.index()
	targets := map[deadLetterTarget]bool{{}: true}
	add := func(source string) {
		targets[deadLetterTarget{exchange: source}] = true
		if bindings := s.BindingsFrom[source]; len(bindings) > 0 {
			observed.BindingsFrom[source] = slices.Clip(bindings)
			s.copyExchange(source, observed)
		}
	}
	for _, name := range names.Exchanges {
		add(name)
	}
	for source := range index.forwarding {
		add(source)
	}
	for name, alternates := range index.alternates {
		observed.Exchanges[name], observed.Alternates[name] = s.exchanges[name], alternates
		targets[deadLetterTarget{exchange: name}] = true // messages that it cannot route go to its alternate exchange
	}
	for _, name := range names.Queues {
		targets[deadLetterTarget{queue: name}] = true
		for _, source := range s.exchangesInto(name, names) {
			add(source)
		}
	}
	var found []vhost.DeadLetterRoute
	for _, queue := range s.sourcesOf(targets, names) {
		for _, route := range index.routes[queue] {
			if targets[targetOf(route)] {
				found = append(found, route)
			}
		}
	}
	return found
}

// sourcesOf lists the queues that may dead-letter to one of the targets, sorted.
func (s *Snapshot) sourcesOf(targets map[deadLetterTarget]bool, names vhost.Selection) []string {
	var sources []string
	for target := range targets {
		if s.routesByKey(target.exchange) {
			sources = append(sources, s.sourcesByKey(target.exchange, names)...)
		} else {
			sources = append(sources, s.deadLetters.sources[target]...)
		}
	}
	slices.Sort(sources)
	return slices.Compact(sources)
}

// exchangesInto lists the exchanges that a queue is bound to. It stops after the first exchange that may route the dead letters of a queue
// that is not named. One such exchange is enough to retain a dead-letter queue, which thousands of exchanges may share.
func (s *Snapshot) exchangesInto(queue string, names vhost.Selection) (exchanges []string) {
	for _, binding := range s.bindingsTo[queue] {
		exchanges = append(exchanges, binding.Source)
		if s.othersDeadLetterBy(binding, names) {
			break
		}
	}
	return exchanges
}

// othersDeadLetterBy reports whether a queue that is not named dead-letters to the source of the binding with a routing key that the
// binding may match.
func (s *Snapshot) othersDeadLetterBy(binding vhost.Binding, names vhost.Selection) bool {
	index := &s.deadLetters
	exchangeType := s.exchanges[binding.Source].Type
	sources := index.sources[deadLetterTarget{exchange: binding.Source}]
	if exchangeType == vhost.TypeDirect { // thousands of queues may share the exchange, each with its own routing key
		sources = slices.Concat(
			index.keyed[keyedTarget{exchange: binding.Source, ownKey: true}],
			index.keyed[keyedTarget{exchange: binding.Source, key: binding.RoutingKey}])
	}
	return slices.ContainsFunc(sources, func(queue string) bool {
		return !slices.Contains(names.Queues, queue) && slices.ContainsFunc(index.routes[queue], func(route vhost.DeadLetterRoute) bool {
			return route.Exchange == binding.Source && route.MayTake(binding, exchangeType)
		})
	})
}

// routesByKey reports whether an exchange routes each message only to the queues that are bound with the message's routing key.
func (s *Snapshot) routesByKey(exchange string) bool {
	index := &s.deadLetters
	_, alternates := index.alternates[exchange]
	return exchange != "" && s.exchanges[exchange].Type == vhost.TypeDirect && !index.forwarding[exchange] && !alternates
}

// sourcesByKey lists the queues whose dead letters a named binding of the exchange may route. It also lists queues whose dead letters may
// reach a named queue, but stops at the first one that is not named, because thousands of queues may share the exchange. It always lists
// the first queue that dead-letters to the exchange, which shows that the exchange is in use.
func (s *Snapshot) sourcesByKey(exchange string, names vhost.Selection) []string {
	index := &s.deadLetters
	sources := slices.Clone(index.keyed[keyedTarget{exchange: exchange, ownKey: true}])
	if all := index.sources[deadLetterTarget{exchange: exchange}]; len(all) > 0 {
		sources = append(sources, all[0])
	}
	for _, binding := range names.Bindings {
		if binding.Source == exchange {
			sources = append(sources, index.keyed[keyedTarget{exchange: exchange, key: binding.RoutingKey}]...)
		}
	}
	isOther := func(queue string) bool { return !slices.Contains(names.Queues, queue) }
	for _, queue := range names.Queues {
		for _, binding := range s.bindingsTo[queue] {
			if binding.Source != exchange {
				continue
			}
			found := index.keyed[keyedTarget{exchange: exchange, key: binding.RoutingKey}]
			sources = append(sources, found...)
			if slices.ContainsFunc(found, isOther) {
				break
			}
		}
	}
	return sources
}

// deadLetterPolicies selects the policies that set a dead-letter exchange or routing key.
func deadLetterPolicies(policies []vhost.Policy) []vhost.Policy {
	var about []vhost.Policy
	for _, policy := range policies {
		_, exchange := policy.Definition[vhost.KeyDeadLetterExchange]
		_, key := policy.Definition[vhost.KeyDeadLetterRoutingKey]
		if exchange || key {
			about = append(about, policy)
		}
	}
	return about
}

// routesOf lists the routes of a queue's dead letters. It considers each policy that may match, whatever its priority, because the
// broker may choose another policy than Warren. Retaining an unneeded object is better than deleting a needed one.
func routesOf(name string, queue vhost.Queue, policies []vhost.Policy) []vhost.DeadLetterRoute {
	var routes []vhost.DeadLetterRoute
	if route, dead := vhost.DeadLetterRouteOf(name, queue, nil); dead {
		routes = append(routes, route)
	}
	for _, policy := range policies {
		if policy.Match(name, queue.Type()) == vhost.MatchNo {
			continue
		}
		if route, dead := vhost.DeadLetterRouteOf(name, queue, policy.Definition); dead {
			routes = append(routes, route)
		}
	}
	return routes
}

// ExpiresTo lists the queues to which a sentinel of the named queue may have been dead-lettered when it expired. policy is the
// definition of the policy in effect. It returns nil if messages of the queue do not expire, or are not dead-lettered.
func (s *Snapshot) ExpiresTo(name string, policy vhost.Arguments) []string {
	queue := s.Queues[name]
	_, byArgument := queue.Arguments[vhost.ArgMessageTTL]
	_, byPolicy := policy[vhost.KeyMessageTTL]
	route, dead := vhost.DeadLetterRouteOf(name, queue, policy)
	if !dead || !byArgument && !byPolicy {
		return nil
	}
	key := name // the sentinel's own
	if route.RoutingKey != nil {
		key = *route.RoutingKey
	}
	if route.Exchange == "" {
		return []string{key}
	}
	takes := func(binding vhost.Binding) bool {
		matches, known := vhost.MatchesKey(s.exchanges[binding.Source].Type, binding.RoutingKey, key)
		return matches || !known
	}
	onward := func(exchange string) (exchanges []string) {
		for _, binding := range s.BindingsFrom[exchange] {
			if binding.ToExchange && takes(binding) {
				exchanges = append(exchanges, binding.Destination)
			}
		}
		return exchanges
	}
	var queues []string
	for exchange := range vhost.Reach([]string{route.Exchange}, onward) {
		for _, binding := range s.BindingsFrom[exchange] {
			if !binding.ToExchange && takes(binding) {
				queues = append(queues, binding.Destination)
			}
		}
	}
	slices.Sort(queues)
	return slices.Compact(queues)
}
