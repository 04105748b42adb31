package plan

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/text"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

const lostOrStuck = "messages would be lost after their delay, or stay in their delay tier"

// checkReturnRoute checks the destination of messages after their delay. It reports a change if they do not reach the main queue, and an
// advisory if they also reach other queues. Parts of the route that this topology declares count as existing, because Diff reports them
// separately.
func (c *Comparison) checkReturnRoute(desired topology.Topology, observed vhost.Observed) {
	route := desired.Return
	if route == nil {
		return
	}
	observed = withDesired(observed, desired)
	if _, exists := observed.Exchanges[route.Exchange]; !exists {
		c.missingReturn(route, fmt.Sprintf("exchange %q of retry.returnTo does not exist: "+lostOrStuck+
			"; declare the exchange, or add it to spec.bindings with a type", route.Exchange))
		return
	}
	mayLead := sync.OnceValue(func() bool { return observed.MayLead(route.Exchange, route.Queue) })
	uncertain := len(route.Keys) == 0
	for _, key := range route.Keys {
		queues, known := observed.Route(route.Exchange, key)
		others := slices.DeleteFunc(slices.Clone(queues), func(q string) bool { return q == route.Queue })
		if len(others) == len(queues) && (known || mayLead()) {
			c.missingReturn(route, wrongReturn(route, key, others))
			return
		}
		if !known { // a headers exchange or similar: the route depends on each message
			uncertain = true
			continue
		}
		if len(others) > 0 {
			c.Advisories = append(c.Advisories, v1alpha1.Advisory{
				Code: v1alpha1.AdvisoryReturnRouteFansOut, Name: route.Exchange,
				Message: fmt.Sprintf("exchange %q routes key %q to other queues, too (%s): each retry is copied there",
					route.Exchange, key, text.Quoted(others)),
			})
		}
	}
	if uncertain && !mayLead() {
		c.missingReturn(route, fmt.Sprintf("no binding leads from exchange %q of retry.returnTo to queue %q: %s; bind the queue to it",
			route.Exchange, route.Queue, lostOrStuck))
	}
}

// wrongReturn describes the destination of a key that does not lead to the main queue.
func wrongReturn(route *topology.ReturnRoute, key string, queues []string) string {
	remedy := fmt.Sprintf("; bind queue %q to it with that key", route.Queue)
	if len(queues) == 0 {
		return fmt.Sprintf("exchange %q of retry.returnTo routes key %q to no queue: %s%s", route.Exchange, key, lostOrStuck, remedy)
	}
	return fmt.Sprintf("exchange %q of retry.returnTo routes key %q to other queues (%s) and not to queue %q: "+
		"messages go there after their delay and do not return%s",
		route.Exchange, key, text.Quoted(queues), route.Queue, remedy)
}

// isReturnBinding reports whether a binding is part of the return route: a user created it so that messages return.
func isReturnBinding(route *topology.ReturnRoute, binding vhost.ID, observed vhost.Observed) bool {
	if route == nil || binding.Source != route.Exchange || binding.Destination != route.Queue {
		return false
	}
	return slices.ContainsFunc(route.Keys, func(key string) bool {
		matches, known := vhost.MatchesKey(observed.Exchanges[route.Exchange].Type, binding.RoutingKey, key)
		return matches || !known
	})
}

func (c *Comparison) missingReturn(route *topology.ReturnRoute, message string) {
	c.MissingReturn = message
	c.Changes = append(c.Changes, v1alpha1.Change{
		Kind: v1alpha1.KindExchange, Name: route.Exchange, Path: "route", Desired: route.Queue,
		Effect: v1alpha1.EffectNone, Message: message,
	})
}

// withDesired returns the observed topology as it will be once Warren has declared the desired exchanges and bindings.
func withDesired(observed vhost.Observed, desired topology.Topology) vhost.Observed {
	exchanges, from := map[string]vhost.Exchange{}, map[string][]vhost.Binding{}
	for _, exchange := range desired.Exchanges {
		if exchange.Declare {
			exchanges[exchange.Name] = vhost.Exchange{Type: string(exchange.Type)}
		}
	}
	maps.Copy(exchanges, observed.Exchanges)
	maps.Copy(from, observed.BindingsFrom)
	for _, binding := range desired.Bindings {
		wanted := vhost.Binding{Source: binding.Source, Destination: binding.Destination, RoutingKey: binding.RoutingKey}
		from[binding.Source] = append(slices.Clip(from[binding.Source]), wanted)
	}
	return vhost.Observed{Exchanges: exchanges, BindingsFrom: from, Policies: observed.Policies, Alternates: observed.Alternates}
}
