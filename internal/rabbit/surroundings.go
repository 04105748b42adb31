package rabbit

import (
	"cmp"
	"maps"
	"regexp"
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
		letter, dead := deadLetterOf(name, queue, inEffect(name, queue, policies))
		byName := letter.Exchange == "" && (letter.RoutingKey == nil || queues[*letter.RoutingKey])
		if dead && (byName || letter.Exchange != "" && targets[letter.Exchange]) {
			found = append(found, letter)
		}
	}
	slices.SortFunc(found, func(a, b topology.DeadLetter) int { return cmp.Compare(a.Queue, b.Queue) })
	return found
}

// compiled is a policy with its pattern read.
type compiled struct {
	topology.Policy
	pattern *regexp.Regexp
}

const (
	keyDeadLetterExchange   = "dead-letter-exchange"
	keyDeadLetterRoutingKey = "dead-letter-routing-key"
)

// deadLetterPolicies reads the patterns of all policies, if any of them is about dead letters: one that is not can hide
// one that is. The strongest come first, operator policies apart. A pattern that Go cannot read matches nothing, as in
// topology.
func deadLetterPolicies(policies []topology.Policy) map[bool][]compiled {
	if !slices.ContainsFunc(policies, func(p topology.Policy) bool {
		_, exchange := p.Definition[keyDeadLetterExchange]
		_, key := p.Definition[keyDeadLetterRoutingKey]
		return exchange || key
	}) {
		return nil
	}
	ordered := map[bool][]compiled{}
	for _, policy := range policies {
		if pattern, err := regexp.Compile(policy.Pattern); err == nil {
			ordered[policy.Operator] = append(ordered[policy.Operator], compiled{policy, pattern})
		}
	}
	for _, some := range ordered {
		slices.SortFunc(some, func(a, b compiled) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
		})
	}
	return ordered
}

// matches says whether a policy applies to a queue of this name and x-queue-type.
func (c compiled) matches(queue string, kind any) bool {
	switch c.ApplyTo {
	case "", "all", "queues":
	case "quorum_queues":
		if kind != "quorum" {
			return false
		}
	case "classic_queues":
		if kind != "classic" {
			return false
		}
	case "streams":
		if kind != "stream" {
			return false
		}
	default:
		return false
	}
	return c.pattern.MatchString(queue)
}

// inEffect is what policies say about a queue.
func inEffect(name string, queue topology.ObservedQueue, policies map[bool][]compiled) topology.Arguments {
	effective := topology.Arguments{}
	for _, operator := range []bool{false, true} {
		strongest := slices.IndexFunc(policies[operator], func(c compiled) bool {
			return c.matches(name, queue.Arguments[topology.ArgQueueType])
		})
		if strongest >= 0 {
			maps.Copy(effective, policies[operator][strongest].Definition)
		}
	}
	return effective
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
