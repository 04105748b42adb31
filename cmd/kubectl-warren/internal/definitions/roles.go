package definitions

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/warren-mq/warren/internal/vhost"
)

// roles are the parts that the queues of a vhost play, made out of where their dead letters go, and where that does not tell, of names.
type roles struct {
	vhost.Observed

	// tiers are the delay tiers by the main queue that their messages return to, by rising delay.
	tiers map[string][]string
	// tierOf is the main queue of a delay tier.
	tierOf map[string]string
	// deadLetter are the dead-letter exchange and queue by the main queue; absent where there is none.
	deadLetter map[string]deadLetter
	// isDeadLetter are the dead-letter queues.
	isDeadLetter map[string]bool
}

type deadLetter struct{ exchange, queue, key string }

func rolesOf(observed vhost.Observed) *roles {
	r := &roles{
		Observed: observed, tiers: map[string][]string{}, tierOf: map[string]string{},
		deadLetter: map[string]deadLetter{}, isDeadLetter: map[string]bool{},
	}
	names := slices.Sorted(maps.Keys(observed.Queues))
	for _, name := range names {
		if main := r.returnsTo(name); main != "" {
			r.tierOf[name] = main
			r.tiers[main] = append(r.tiers[main], name)
		}
	}
	for main := range r.tiers {
		slices.SortStableFunc(r.tiers[main], func(a, b string) int { return cmp.Compare(r.ttl(a), r.ttl(b)) })
	}
	for _, name := range names {
		if r.tierOf[name] != "" {
			continue
		}
		if found, ok := r.findDeadLetter(name); ok {
			r.deadLetter[name] = found
			r.isDeadLetter[found.queue] = true
		}
	}
	return r
}

// mains lists the queues that are neither delay tiers nor dead-letter queues.
func (r *roles) mains() []string {
	others := func(name string) bool { return r.tierOf[name] != "" || r.isDeadLetter[name] }
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.Queues)), others)
}

// letters says where a queue sends its dead letters.
func (r *roles) letters(name string) (vhost.DeadLetter, bool) {
	return vhost.DeadLettersOf(name, r.Queues[name], nil)
}

func (r *roles) ttl(name string) int64 {
	ttl, _ := r.Queues[name].Arguments[vhost.ArgMessageTTL].(int64)
	return ttl
}

// leads lists the queues that the dead letters of a queue may come to.
func (r *roles) leads(letter vhost.DeadLetter) []string {
	switch {
	case letter.Exchange == "" && letter.RoutingKey == nil:
		return nil // to the queue that is called as the key of each message
	case letter.Exchange == "":
		if _, exists := r.Queues[*letter.RoutingKey]; exists {
			return []string{*letter.RoutingKey}
		}
		return nil
	case letter.RoutingKey != nil:
		if queues, known := r.Route(letter.Exchange, *letter.RoutingKey); known {
			return queues
		}
		return r.boundTo(letter.Exchange)
	}
	if r.Exchanges[letter.Exchange].Type == vhost.TypeFanout || len(r.BindingsTo[letter.Queue]) == 0 {
		return r.boundTo(letter.Exchange)
	}
	var queues []string // a message has kept the key that it came with
	for _, binding := range r.BindingsTo[letter.Queue] {
		if reached, known := r.Route(letter.Exchange, binding.RoutingKey); known {
			queues = append(queues, reached...)
		}
	}
	if len(queues) == 0 {
		return r.boundTo(letter.Exchange)
	}
	slices.Sort(queues)
	return slices.Compact(queues)
}

// boundTo lists the queues that are bound to an exchange.
func (r *roles) boundTo(exchange string) []string {
	var queues []string
	for _, binding := range r.BindingsFrom[exchange] {
		if !binding.ToExchange {
			queues = append(queues, binding.Destination)
		}
	}
	slices.Sort(queues)
	return slices.Compact(queues)
}

// returnsTo is the main queue of a delay tier; empty if the queue is none. A tier has a TTL, and its dead letters come to a main queue:
// one that dead-letters to the tier, or that the tier is named after, or that has dead letters of its own.
func (r *roles) returnsTo(name string) string {
	letter, sends := r.letters(name)
	if !sends || r.ttl(name) == 0 {
		return ""
	}
	var mains []string
	for _, main := range r.leads(letter) {
		if main != name && r.isTierOf(name, main) {
			mains = append(mains, main)
		}
	}
	if len(mains) == 0 {
		return ""
	}
	// Where messages return to several queues, the tier is that of the queue whose name it begins with.
	return slices.MaxFunc(mains, func(a, b string) int { return cmp.Compare(namedAfter(name, a), namedAfter(name, b)) })
}

func (r *roles) isTierOf(name, main string) bool {
	back, sends := r.letters(main)
	mutual := sends && slices.Contains(r.leads(back), name)
	switch {
	case mutual && r.ttl(main) > 0: // both have a TTL: names tell
		return namedAfter(name, main) > 0
	case mutual || namedAfter(name, main) > 0:
		return true
	}
	return sends && namedAfter(main, name) == 0
}

// namedAfter is how many bytes of another name a name begins with, if a separator follows; zero if it does not.
func namedAfter(name, other string) int {
	rest, begins := strings.CutPrefix(name, other)
	if !begins || rest == "" || !strings.ContainsAny(rest[:1], ".-_:/") {
		return 0
	}
	return len(other)
}

// findDeadLetter finds where the dead letters of a main queue end.
func (r *roles) findDeadLetter(main string) (deadLetter, bool) {
	letter, sends := r.letters(main)
	if !sends {
		return deadLetter{}, false
	}
	reached := r.leads(letter)
	ends := slices.DeleteFunc(slices.Clone(reached), func(name string) bool { return r.tierOf[name] != "" || name == main })
	if letter.Exchange != "" && len(ends) == 1 {
		return r.by(letter.Exchange, ends[0]), true
	}
	if len(reached) > 0 && len(ends) == 0 { // all are rejected to the tier: consumers park
		return r.parking(main)
	}
	return deadLetter{}, false
}

func (r *roles) by(exchange, queue string) deadLetter {
	found := deadLetter{exchange: exchange, queue: queue}
	for _, binding := range r.BindingsTo[queue] {
		if binding.Source == exchange {
			found.key = binding.RoutingKey
		}
	}
	return found
}

// deadWords are parts of the names that people give to dead-letter exchanges and queues.
var deadWords = []string{"dlq", "dlx", "dead", "fail", "error", "park", "poison"}

// parking finds the exchange and queue that consumers park messages with, by names: no argument leads there.
func (r *roles) parking(main string) (deadLetter, bool) {
	var found []deadLetter
	for _, queue := range slices.Sorted(maps.Keys(r.Queues)) {
		if _, sends := r.letters(queue); sends || !isDead(queue, main) {
			continue
		}
		for _, binding := range r.BindingsTo[queue] {
			if !slices.Contains(r.boundTo(binding.Source), main) {
				found = append(found, r.by(binding.Source, queue))
			}
		}
	}
	if len(found) != 1 {
		return deadLetter{}, false
	}
	return found[0], true
}

// isDead says whether a queue is called as the dead-letter queue of a main queue.
func isDead(queue, main string) bool {
	rest := strings.ToLower(strings.TrimPrefix(queue, main))
	return namedAfter(queue, main) > 0 && slices.ContainsFunc(deadWords, func(word string) bool { return strings.Contains(rest, word) })
}
