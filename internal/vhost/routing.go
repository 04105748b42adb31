package vhost

import (
	"slices"
	"strings"
)

// Route returns the sorted queues that a message with this key may reach through an exchange, directly or through other exchanges. known
// is false if an exchange decides by more than the key, or has no matching binding and may have an alternate exchange. Then some messages
// do not reach all of the queues.
func (o Observed) Route(exchange, key string) (queues []string, known bool) {
	known = true
	onward := func(name string) (exchanges []string) {
		source, routed := o.Exchanges[name], false
		for _, binding := range o.BindingsFrom[name] {
			matches, decided := MatchesKey(source.Type, binding.RoutingKey, key)
			switch {
			case decided && !matches:
			case binding.ToExchange:
				exchanges = append(exchanges, binding.Destination)
			default:
				queues = append(queues, binding.Destination)
			}
			routed, known = routed || matches, known && decided
		}
		if !routed {
			alternates := o.alternatesOf(name)
			exchanges, known = append(exchanges, alternates...), known && len(alternates) == 0
		}
		return exchanges
	}
	for range Reach([]string{exchange}, onward) { // onward collects the queues
	}
	slices.Sort(queues)
	return slices.Compact(queues), known
}

// MayLead reports whether bindings and alternate exchanges lead from an exchange to a queue, whatever the keys of the bindings.
func (o Observed) MayLead(exchange, queue string) bool {
	onward := func(name string) []string { return append(o.boundExchanges(name), o.alternatesOf(name)...) }
	for name := range Reach([]string{exchange}, onward) {
		if slices.ContainsFunc(o.BindingsFrom[name], func(b Binding) bool { return !b.ToExchange && b.Destination == queue }) {
			return true
		}
	}
	return false
}

func (o Observed) boundExchanges(exchange string) (names []string) {
	for _, binding := range o.BindingsFrom[exchange] {
		if binding.ToExchange {
			names = append(names, binding.Destination)
		}
	}
	return names
}

// MatchesKey reports whether a binding of an exchange of this type matches a routing key. known is false if more than the key
// decides.
func MatchesKey(exchangeType, bindingKey, key string) (matches, known bool) {
	switch exchangeType {
	case TypeFanout:
		return true, true
	case TypeDirect:
		return bindingKey == key, true
	case TypeTopic:
		return matchesTopic(topicWords(bindingKey), topicWords(key)), true
	}
	return false, false
}

// Overlap reports whether an exchange of this type matches some routing key with both bindings.
func Overlap(exchangeType, a, b string) bool {
	switch exchangeType {
	case TypeFanout:
		return true
	case TypeDirect:
		return a == b
	case TypeTopic:
		return topicsOverlap(topicWords(a), topicWords(b))
	}
	return false
}

// matchesTopic compares words: * stands for one word, # for any number, including none.
func matchesTopic(pattern, words []string) bool {
	reached := make([]bool, len(words)+1) // reached[i]: the pattern so far matches the first i words
	reached[0] = true
	for _, part := range pattern {
		next := make([]bool, len(words)+1)
		for i := range next {
			switch {
			case part == "#":
				next[i] = reached[i] || (i > 0 && next[i-1])
			case i > 0 && (part == "*" || part == words[i-1]):
				next[i] = reached[i-1]
			}
		}
		reached = next
	}
	return reached[len(words)]
}

// topicWords splits a key into words. The empty key has none.
func topicWords(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// topicsOverlap reports whether some key matches both patterns.
func topicsOverlap(a, b []string) bool {
	below := make([]bool, len(b)+1) // below[j] reports whether some key matches both a[i+1:] and b[j:]
	for i := len(a); i >= 0; i-- {
		row := make([]bool, len(b)+1)
		for j := len(b); j >= 0; j-- {
			switch {
			case i == len(a) && j == len(b):
				row[j] = true
			case i < len(a) && a[i] == "#":
				row[j] = below[j] || j < len(b) && row[j+1]
			case j < len(b) && b[j] == "#":
				row[j] = row[j+1] || i < len(a) && below[j]
			case i < len(a) && j < len(b):
				row[j] = below[j+1] && (a[i] == "*" || b[j] == "*" || a[i] == b[j])
			}
		}
		below = row
	}
	return below[0]
}
