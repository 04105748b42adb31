package snapshot

import (
	"slices"

	"github.com/warren-mq/warren/internal/vhost"
)

// surround adds to observed the bindings from the named exchanges, from the exchanges from which the named queues are bound, and from
// the exchanges that lead to others. It returns the queues that may dead-letter to a named object.
func (s *Snapshot) surround(names vhost.Selection, observed vhost.Observed) []vhost.DeadLetter {
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
	for name := range index.alternates {
		observed.Exchanges[name] = s.exchanges[name]
		targets[deadLetterTarget{exchange: name}] = true // what it cannot route goes on from it
	}
	for _, name := range names.Queues {
		targets[deadLetterTarget{queue: name}] = true
		for _, source := range s.exchangesInto(name, names) {
			add(source)
		}
	}
	var sources []string
	for target := range targets {
		if s.routesByKey(target.exchange) {
			sources = append(sources, s.sourcesByKey(target.exchange, names)...)
		} else {
			sources = append(sources, index.sources[target]...)
		}
	}
	slices.Sort(sources)
	var found []vhost.DeadLetter
	for _, queue := range slices.Compact(sources) {
		for _, letter := range index.letters[queue] {
			if targets[targetOf(letter)] {
				found = append(found, letter)
			}
		}
	}
	return found
}

// exchangesInto lists the exchanges from which a queue is bound, up to the first one by which the dead letters of a queue that is not
// named come to it: one such queue is enough to keep it, and thousands of exchanges may share a dead-letter queue.
func (s *Snapshot) exchangesInto(queue string, names vhost.Selection) (exchanges []string) {
	for _, binding := range s.bindingsTo[queue] {
		exchanges = append(exchanges, binding.Source)
		if s.othersDeadLetterBy(binding, names) {
			break
		}
	}
	return exchanges
}

// othersDeadLetterBy reports whether a queue that is not named dead-letters to the exchange of a binding, which may take its dead letters.
func (s *Snapshot) othersDeadLetterBy(binding vhost.Binding, names vhost.Selection) bool {
	index := &s.deadLetters
	exchangeType := s.exchanges[binding.Source].Type
	sources := index.sources[deadLetterTarget{exchange: binding.Source}]
	if exchangeType == vhost.TypeDirect { // thousands of queues may share it, with a key each
		sources = slices.Concat(
			index.keyed[keyedTarget{exchange: binding.Source, ownKey: true}],
			index.keyed[keyedTarget{exchange: binding.Source, key: binding.RoutingKey}])
	}
	return slices.ContainsFunc(sources, func(queue string) bool {
		return !slices.Contains(names.Queues, queue) && slices.ContainsFunc(index.letters[queue], func(letter vhost.DeadLetter) bool {
			return letter.Exchange == binding.Source && letter.MayTake(binding, exchangeType)
		})
	})
}

// routesByKey says whether what comes to an exchange can go nowhere but to the queues that are bound with its routing key.
func (s *Snapshot) routesByKey(exchange string) bool {
	index := &s.deadLetters
	return exchange != "" && s.exchanges[exchange].Type == vhost.TypeDirect && !index.forwarding[exchange] && !index.alternates[exchange]
}

// sourcesByKey lists the queues whose dead letters may come from an exchange by one of the named bindings, and enough of those whose dead
// letters may come to a named queue to show whether there is any but the named queues themselves. Thousands of queues may share the
// exchange, with a key each. The first of all sources is listed in any case: the exchange is in use.
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

// deadLetterPolicies are those that say something about dead letters.
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

// deadLettersOf says where a queue may send its dead letters. Each policy that may match counts, whatever its priority:
// which is in effect the broker may see otherwise, and too many ways rather than too few are kept.
func deadLettersOf(name string, queue vhost.Queue, policies []vhost.Policy) []vhost.DeadLetter {
	var letters []vhost.DeadLetter
	if letter, dead := vhost.DeadLettersOf(name, queue, nil); dead {
		letters = append(letters, letter)
	}
	for _, policy := range policies {
		if policy.Match(name, queue.Type()) == vhost.MatchNo {
			continue
		}
		if letter, dead := vhost.DeadLettersOf(name, queue, policy.Definition); dead {
			letters = append(letters, letter)
		}
	}
	return letters
}

// ExpiresTo lists the queues that a sentinel may have expired to.
func (s *Snapshot) ExpiresTo(name string, policy vhost.Arguments) []string {
	queue := s.Queues[name]
	_, byArgument := queue.Arguments[vhost.ArgMessageTTL]
	_, byPolicy := policy[vhost.KeyMessageTTL]
	letter, dead := vhost.DeadLettersOf(name, queue, policy)
	if !dead || !byArgument && !byPolicy {
		return nil
	}
	key := name // the sentinel's own
	if letter.RoutingKey != nil {
		key = *letter.RoutingKey
	}
	if letter.Exchange == "" {
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
	for exchange := range vhost.Reach([]string{letter.Exchange}, onward) {
		for _, binding := range s.BindingsFrom[exchange] {
			if !binding.ToExchange && takes(binding) {
				queues = append(queues, binding.Destination)
			}
		}
	}
	slices.Sort(queues)
	return slices.Compact(queues)
}
