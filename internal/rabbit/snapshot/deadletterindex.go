package snapshot

import (
	"maps"
	"slices"
	"sync"

	"github.com/warren-mq/warren/internal/vhost"
)

// deadLetterIndex maps each target to the queues that may dead-letter to it, and lists the exchanges that lead to other exchanges. The
// first use builds the index from the whole vhost; from then on, each change of the snapshot updates it. Thousands of ConsumerQueues may
// use the index one after the other while their queues are deleted.
type deadLetterIndex struct {
	building sync.Mutex // serializes concurrent readers; a change of the snapshot excludes all readers
	built    bool

	policies []vhost.Policy                     // policies that set a dead-letter exchange or routing key
	routes   map[string][]vhost.DeadLetterRoute // by queue
	sources  map[deadLetterTarget][]string      // names of queues, sorted: thousands of queues may share a target
	keyed    map[keyedTarget][]string           // the same queues, sorted, by exchange and routing key
	// forwarding are the exchanges that are the source of a binding to another exchange.
	forwarding map[string]bool
	// alternates are the exchanges that may have alternate exchanges, with these.
	alternates map[string][]string
}

// deadLetterTarget is the object that a queue dead-letters to: an exchange, or a queue through the default exchange. If both fields are
// empty, the routing key of each message names the queue.
type deadLetterTarget struct{ exchange, queue string }

func targetOf(route vhost.DeadLetterRoute) deadLetterTarget {
	if route.Exchange == "" && route.RoutingKey != nil {
		return deadLetterTarget{queue: *route.RoutingKey}
	}
	return deadLetterTarget{exchange: route.Exchange}
}

// keyedTarget is the exchange and the routing key of a queue's dead letters. If ownKey is true, each message keeps its routing key.
type keyedTarget struct {
	exchange, key string
	ownKey        bool
}

func keyedTargetOf(route vhost.DeadLetterRoute) keyedTarget {
	if route.RoutingKey == nil {
		return keyedTarget{exchange: route.Exchange, ownKey: true}
	}
	return keyedTarget{exchange: route.Exchange, key: *route.RoutingKey}
}

// index returns the index, and builds it on the first call.
func (s *Snapshot) index() *deadLetterIndex {
	index := &s.deadLetters
	index.building.Lock()
	defer index.building.Unlock()
	if index.built {
		return index
	}
	index.built = true
	index.policies = deadLetterPolicies(s.Policies)
	index.routes, index.sources = map[string][]vhost.DeadLetterRoute{}, map[deadLetterTarget][]string{}
	index.keyed = map[keyedTarget][]string{}
	index.forwarding, index.alternates = map[string]bool{}, s.allAlternates()
	for _, name := range slices.Sorted(maps.Keys(s.Queues)) { // in order, so that each name is appended to sources
		index.addQueue(name, s.Queues[name])
	}
	for source := range s.BindingsFrom {
		index.setForwarding(source, s.BindingsFrom[source])
	}
	return index
}

func (i *deadLetterIndex) addQueue(name string, queue vhost.Queue) {
	if !i.built {
		return
	}
	routes := routesOf(name, queue, i.policies)
	if len(routes) == 0 {
		return
	}
	i.routes[name] = routes
	for _, route := range routes {
		addName(i.sources, targetOf(route), name)
		addName(i.keyed, keyedTargetOf(route), name)
	}
}

func (i *deadLetterIndex) dropQueue(name string) {
	for _, route := range i.routes[name] {
		dropName(i.sources, targetOf(route), name)
		dropName(i.keyed, keyedTargetOf(route), name)
	}
	delete(i.routes, name)
}

func addName[target comparable](names map[target][]string, to target, name string) {
	if at, found := slices.BinarySearch(names[to], name); !found {
		names[to] = slices.Insert(names[to], at, name)
	}
}

func dropName[target comparable](names map[target][]string, from target, name string) {
	if at, found := slices.BinarySearch(names[from], name); found {
		names[from] = slices.Delete(names[from], at, at+1)
	}
	if len(names[from]) == 0 {
		delete(names, from)
	}
}

func (s *Snapshot) indexExchange(name string) {
	if !s.deadLetters.built {
		return
	}
	if alternates := s.alternatesOf(name); len(alternates) > 0 {
		s.deadLetters.alternates[name] = alternates
	}
}

func (i *deadLetterIndex) dropExchange(name string) {
	delete(i.alternates, name)
	delete(i.forwarding, name)
}

// setForwarding records whether one of the bindings from an exchange leads to another exchange.
func (i *deadLetterIndex) setForwarding(source string, bindings []vhost.Binding) {
	switch {
	case !i.built:
	case slices.ContainsFunc(bindings, func(b vhost.Binding) bool { return b.ToExchange }):
		i.forwarding[source] = true
	default:
		delete(i.forwarding, source)
	}
}
