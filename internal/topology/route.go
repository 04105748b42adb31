package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warren-mq/warren/api/v1alpha1"
)

const lostOrStuck = "messages whose delay is over would be lost or stay in their delay tier"

// returnRoute looks where messages go when their delay is over. It says when they do not come to the main queue, and when
// they come to further queues too.
// What this topology itself lacks on the way is a change of its own, and counts as being there.
func (c *Comparison) returnRoute(desired Topology, observed Observed) {
	route := desired.Return
	if route == nil {
		return
	}
	observed = observed.with(desired)
	if _, exists := observed.Exchanges[route.Exchange]; !exists {
		c.missingReturn(route, fmt.Sprintf("exchange %q of retry.returnTo does not exist: "+lostOrStuck+
			"; declare it, or give a binding to it a type", route.Exchange))
		return
	}
	uncertain := len(route.Keys) == 0
	for _, key := range route.Keys {
		queues, known := observed.route(route.Exchange, key)
		if !known { // a headers exchange or the like: what it does depends on each message
			uncertain = true
			continue
		}
		others := slices.DeleteFunc(slices.Clone(queues), func(q string) bool { return q == route.Queue })
		if len(others) == len(queues) {
			c.missingReturn(route, wrongReturn(route, key, others))
			return
		}
		if len(others) > 0 {
			c.Advisories = append(c.Advisories, v1alpha1.Advisory{
				Code: v1alpha1.AdvisoryReturnRouteFansOut, Name: route.Exchange,
				Message: fmt.Sprintf("exchange %q routes key %q to further queues (%s): each retry is copied there",
					route.Exchange, key, strings.Join(quoted(others), ", ")),
			})
		}
	}
	if uncertain && !observed.mayLead(route.Exchange, route.Queue) {
		c.missingReturn(route, fmt.Sprintf("no binding leads from exchange %q of retry.returnTo to queue %q: %s; bind the queue to it",
			route.Exchange, route.Queue, lostOrStuck))
	}
}

// wrongReturn says where a key leads that does not lead to the main queue.
func wrongReturn(route *Return, key string, queues []string) string {
	remedy := fmt.Sprintf("; bind queue %q to it with that key", route.Queue)
	if len(queues) == 0 {
		return fmt.Sprintf("exchange %q of retry.returnTo routes key %q to no queue: %s%s", route.Exchange, key, lostOrStuck, remedy)
	}
	return fmt.Sprintf("exchange %q of retry.returnTo routes key %q to other queues (%s) and not to queue %q: "+
		"messages whose delay is over go there and do not come back%s",
		route.Exchange, key, strings.Join(quoted(queues), ", "), route.Queue, remedy)
}

// has says whether a binding is part of the route: somebody made it so that messages find back.
func (r *Return) has(binding BindingID, observed Observed) bool {
	if r == nil || binding.Source != r.Exchange || binding.Destination != r.Queue {
		return false
	}
	return slices.ContainsFunc(r.Keys, func(key string) bool {
		matches, known := matchesKey(v1alpha1.ExchangeType(observed.Exchanges[r.Exchange].Type), binding.RoutingKey, key)
		return matches || !known
	})
}

func (c *Comparison) missingReturn(route *Return, message string) {
	c.MissingReturn = message
	c.Changes = append(c.Changes, v1alpha1.Change{
		Kind: v1alpha1.KindExchange, Name: route.Exchange, Path: "route", Desired: route.Queue,
		Effect: v1alpha1.EffectNone, Message: message,
	})
}

// with is what the broker will have when the exchanges and bindings of a topology have been declared.
func (o Observed) with(desired Topology) Observed {
	exchanges, from := map[string]ObservedExchange{}, map[string][]ObservedBinding{}
	for _, exchange := range desired.Exchanges {
		if exchange.Declare {
			exchanges[exchange.Name] = ObservedExchange{Type: string(exchange.Type)}
		}
	}
	maps.Copy(exchanges, o.Exchanges)
	maps.Copy(from, o.BindingsFrom)
	for _, binding := range desired.Bindings {
		wanted := ObservedBinding{Source: binding.Source, Destination: binding.Destination, RoutingKey: binding.RoutingKey}
		from[binding.Source] = append(slices.Clip(from[binding.Source]), wanted)
	}
	return Observed{Exchanges: exchanges, BindingsFrom: from}
}

// route lists the queues, sorted, that an exchange leads a routing key to, through further exchanges too. It is not
// known where an exchange decides by more than the key.
func (o Observed) route(exchange, key string) (queues []string, known bool) {
	seen := map[string]bool{exchange: true}
	for open := []string{exchange}; len(open) > 0; open = open[1:] {
		source := o.Exchanges[open[0]]
		if _, alternate := source.Arguments["alternate-exchange"]; alternate {
			return nil, false
		}
		for _, binding := range o.BindingsFrom[open[0]] {
			matches, known := matchesKey(v1alpha1.ExchangeType(source.Type), binding.RoutingKey, key)
			switch {
			case !known:
				return nil, false
			case !matches:
			case !binding.ToExchange:
				queues = append(queues, binding.Destination)
			case !seen[binding.Destination]:
				seen[binding.Destination] = true
				open = append(open, binding.Destination)
			}
		}
	}
	slices.Sort(queues)
	return slices.Compact(queues), true
}

// mayLead says whether bindings lead from an exchange to a queue, whatever their keys. What an alternate exchange leads to is
// not observed, and counts as leading there.
func (o Observed) mayLead(exchange, queue string) bool {
	seen := map[string]bool{exchange: true}
	for open := []string{exchange}; len(open) > 0; open = open[1:] {
		if _, alternate := o.Exchanges[open[0]].Arguments["alternate-exchange"]; alternate {
			return true
		}
		for _, binding := range o.BindingsFrom[open[0]] {
			switch {
			case !binding.ToExchange && binding.Destination == queue:
				return true
			case binding.ToExchange && !seen[binding.Destination]:
				seen[binding.Destination] = true
				open = append(open, binding.Destination)
			}
		}
	}
	return false
}

func matchesKey(exchange v1alpha1.ExchangeType, bindingKey, key string) (matches, known bool) {
	switch exchange {
	case v1alpha1.ExchangeFanout:
		return true, true
	case v1alpha1.ExchangeDirect:
		return bindingKey == key, true
	case v1alpha1.ExchangeTopic:
		return matchesTopic(topicWords(bindingKey), topicWords(key)), true
	}
	return false, false
}

// matchesTopic compares words: * stands for one, # for any number, none included.
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

// topicWords splits a key; the empty key has no word.
func topicWords(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}
