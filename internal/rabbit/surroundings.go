package rabbit

import (
	"cmp"
	"maps"
	"slices"

	"github.com/warren-mq/warren/internal/topology"
)

// surround adds to what is observed the bindings from the named exchanges and those around exchanges that lead to
// others, and returns the queues that may dead-letter to what is named. It walks the whole vhost.
func (s *snapshot) surround(names topology.Names, observed topology.Observed) []topology.DeadLetter {
	targets := map[string]bool{}
	add := func(source string) {
		targets[source] = true
		if bindings := s.bindingsFrom[source]; len(bindings) > 0 {
			observed.BindingsFrom[source] = slices.Clip(bindings)
			s.copyExchange(source, observed)
		}
	}
	for _, name := range names.Exchanges {
		add(name)
	}
	for source, bindings := range s.bindingsFrom {
		if slices.ContainsFunc(bindings, func(b topology.ObservedBinding) bool { return b.ToExchange }) {
			add(source)
		}
	}
	for name, exchange := range s.exchanges {
		if _, alternate := exchange.Arguments["alternate-exchange"]; alternate {
			observed.Exchanges[name] = exchange
			targets[name] = true // what it cannot route goes on from it
		}
	}
	queues := make(map[string]bool, len(names.Queues))
	for _, name := range names.Queues {
		queues[name] = true
	}
	var found []topology.DeadLetter
	policies := deadLetterPolicies(s.policies)
	for name, queue := range s.queues {
		for _, letter := range deadLettersOf(name, queue, policies) {
			byName := letter.Exchange == "" && (letter.RoutingKey == nil || queues[*letter.RoutingKey])
			if byName || letter.Exchange != "" && targets[letter.Exchange] {
				found = append(found, letter)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b topology.DeadLetter) int { return cmp.Compare(a.Queue, b.Queue) })
	return found
}

const (
	keyDeadLetterExchange   = "dead-letter-exchange"
	keyDeadLetterRoutingKey = "dead-letter-routing-key"
)

// deadLetterPolicies are those that say something about dead letters.
func deadLetterPolicies(policies []topology.Policy) []topology.Policy {
	var about []topology.Policy
	for _, policy := range policies {
		_, exchange := policy.Definition[keyDeadLetterExchange]
		_, key := policy.Definition[keyDeadLetterRoutingKey]
		if exchange || key {
			about = append(about, policy)
		}
	}
	return about
}

// deadLettersOf says where a queue may send its dead letters. Each policy that may match counts, whatever its priority:
// which is in effect the broker may see otherwise, and too many ways rather than too few are kept.
func deadLettersOf(name string, queue topology.ObservedQueue, policies []topology.Policy) []topology.DeadLetter {
	var letters []topology.DeadLetter
	if letter, dead := deadLetterOf(name, queue, nil); dead {
		letters = append(letters, letter)
	}
	for _, policy := range policies {
		if policy.Match(name, typeOf(queue)) == topology.MatchNo {
			continue
		}
		if letter, dead := deadLetterOf(name, queue, policy.Definition); dead {
			letters = append(letters, letter)
		}
	}
	return letters
}

// deadLetterOf says where a queue sends its dead letters: an argument wins over a policy; false if nowhere.
func deadLetterOf(name string, queue topology.ObservedQueue, policy topology.Arguments) (topology.DeadLetter, bool) {
	effective := maps.Clone(policy)
	if effective == nil {
		effective = topology.Arguments{}
	}
	for key, argument := range map[string]string{
		keyDeadLetterExchange: topology.ArgDeadLetterExchange, keyDeadLetterRoutingKey: topology.ArgDeadLetterRoutingKey,
	} {
		if value, given := queue.Arguments[argument]; given {
			effective[key] = value
		}
	}
	exchange, dead := effective[keyDeadLetterExchange].(string)
	letter := topology.DeadLetter{Queue: name, Exchange: exchange}
	if key, given := effective[keyDeadLetterRoutingKey].(string); given {
		letter.RoutingKey = &key
	}
	return letter, dead
}
