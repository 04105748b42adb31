package definitions

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/warren-mq/warren/internal/vhost"
)

// roles are the roles of a vhost's queues. The routes of dead letters decide the roles; names decide only if the routes are ambiguous.
type roles struct {
	vhost.Observed

	// tiers maps a main queue to the delay tiers that return messages to it, by ascending delay.
	tiers map[string][]string
	// tierOf maps a delay tier to its main queue.
	tierOf map[string]string
	// deadLetter maps a main queue to its dead-letter exchange and queue; it has no entry if there are none.
	deadLetter map[string]deadLetter
	// isDeadLetter has the dead-letter queues.
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

// mains returns the queues that are neither delay tiers nor dead-letter queues.
func (r *roles) mains() []string {
	others := func(name string) bool { return r.tierOf[name] != "" || r.isDeadLetter[name] }
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.Queues)), others)
}

// deadLettering returns the route of a queue's dead letters.
func (r *roles) deadLettering(name string) (vhost.DeadLetterRoute, bool) {
	return vhost.DeadLetterRouteOf(name, r.Queues[name], nil)
}

func (r *roles) ttl(name string) int64 {
	ttl, _ := r.Queues[name].Arguments[vhost.ArgMessageTTL].(int64)
	return ttl
}

// targets returns the queues that may receive the dead letters of a queue.
func (r *roles) targets(dlx vhost.DeadLetterRoute) []string {
	switch {
	case dlx.Exchange == "" && dlx.RoutingKey == nil:
		return nil // each message goes to the queue that its own key names
	case dlx.Exchange == "":
		if _, exists := r.Queues[*dlx.RoutingKey]; exists {
			return []string{*dlx.RoutingKey}
		}
		return nil
	case dlx.RoutingKey != nil:
		if queues, known := r.Route(dlx.Exchange, *dlx.RoutingKey); known {
			return queues
		}
		return r.boundTo(dlx.Exchange)
	}
	if r.Exchanges[dlx.Exchange].Type == vhost.TypeFanout || len(r.BindingsTo[dlx.Queue]) == 0 {
		return r.boundTo(dlx.Exchange)
	}
	var queues []string // each message keeps the key with which it arrived
	for _, binding := range r.BindingsTo[dlx.Queue] {
		if reached, known := r.Route(dlx.Exchange, binding.RoutingKey); known {
			queues = append(queues, reached...)
		}
	}
	if len(queues) == 0 {
		return r.boundTo(dlx.Exchange)
	}
	slices.Sort(queues)
	return slices.Compact(queues)
}

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

// returnsTo returns the main queue of a delay tier; empty if the queue is not a tier. A tier has a TTL, and its dead letters reach its
// main queue.
func (r *roles) returnsTo(name string) string {
	dlx, sends := r.deadLettering(name)
	if !sends || r.ttl(name) == 0 {
		return ""
	}
	var mains []string
	for _, main := range r.targets(dlx) {
		if main != name && r.isTierOf(name, main) {
			mains = append(mains, main)
		}
	}
	if len(mains) == 0 {
		return ""
	}
	// If messages return to several queues, the tier belongs to the queue with the longest name that is a prefix of the tier's name.
	return slices.MaxFunc(mains, func(a, b string) int { return cmp.Compare(namedAfter(name, a), namedAfter(name, b)) })
}

// isTierOf reports whether a queue that returns messages to main is a tier of main. Main dead-letters to a tier or elsewhere, or the
// name of the tier begins with the name of main.
func (r *roles) isTierOf(name, main string) bool {
	back, sends := r.deadLettering(main)
	mutual := sends && slices.Contains(r.targets(back), name)
	switch {
	case mutual && r.ttl(main) > 0: // both have a TTL: names decide
		return namedAfter(name, main) > 0
	case mutual || namedAfter(name, main) > 0:
		return true
	}
	return sends && namedAfter(main, name) == 0
}

// namedAfter returns the length of other if name is other, a separator and more text. Otherwise it returns zero.
func namedAfter(name, other string) int {
	rest, begins := strings.CutPrefix(name, other)
	if !begins || rest == "" || !strings.ContainsAny(rest[:1], ".-_:/") {
		return 0
	}
	return len(other)
}

// findDeadLetter returns the dead-letter exchange of a main queue, and the queue to which it leads.
func (r *roles) findDeadLetter(main string) (deadLetter, bool) {
	dlx, sends := r.deadLettering(main)
	if !sends {
		return deadLetter{}, false
	}
	reached := r.targets(dlx)
	ends := slices.DeleteFunc(slices.Clone(reached), func(name string) bool { return r.tierOf[name] != "" || name == main })
	if dlx.Exchange != "" && len(ends) == 1 {
		return r.deadLetterThrough(dlx.Exchange, ends[0]), true
	}
	if len(reached) > 0 && len(ends) == 0 { // all are rejected to the tier, so consumers park
		return r.parking(main)
	}
	return deadLetter{}, false
}

// deadLetterThrough returns the dead-letter queue of an exchange, with the key of its binding.
func (r *roles) deadLetterThrough(exchange, queue string) deadLetter {
	found := deadLetter{exchange: exchange, queue: queue}
	for _, binding := range r.BindingsTo[queue] {
		if binding.Source == exchange {
			found.key = binding.RoutingKey
		}
	}
	return found
}

// deadWords are common parts of the names of dead-letter exchanges and queues.
var deadWords = []string{"dlq", "dlx", "dead", "fail", "error", "park", "poison"}

// parking finds the exchange and queue for parked messages by name, because no argument leads there.
func (r *roles) parking(main string) (deadLetter, bool) {
	var found []deadLetter
	for _, queue := range slices.Sorted(maps.Keys(r.Queues)) {
		if _, sends := r.deadLettering(queue); sends || !isDead(queue, main) {
			continue
		}
		for _, binding := range r.BindingsTo[queue] {
			if !slices.Contains(r.boundTo(binding.Source), main) {
				found = append(found, r.deadLetterThrough(binding.Source, queue))
			}
		}
	}
	if len(found) != 1 {
		return deadLetter{}, false
	}
	return found[0], true
}

// isDead reports whether a queue is named like the dead-letter queue of a main queue.
func isDead(queue, main string) bool {
	rest := strings.ToLower(strings.TrimPrefix(queue, main))
	return namedAfter(queue, main) > 0 && slices.ContainsFunc(deadWords, func(word string) bool { return strings.Contains(rest, word) })
}
