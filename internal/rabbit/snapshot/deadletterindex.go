package snapshot

import (
	"maps"
	"slices"
	"sync"

	"github.com/warren-mq/warren/internal/vhost"
)

// deadLetterIndex knows which queues may dead-letter where, and which exchanges lead to others. It is built when somebody asks for the
// first time, which takes a walk through the whole vhost, and kept from then on: thousands of ConsumerQueues may ask, one after the
// other, while their queues go.
type deadLetterIndex struct {
	building sync.Mutex // whoever changes the snapshot has it for itself
	built    bool

	policies []vhost.Policy // that say something about dead letters
	letters  map[string][]vhost.DeadLetter
	sources  map[deadLetterTarget][]string // sorted: where queues share a target, they are thousands
	keyed    map[keyedTarget][]string      // sorted; of the same queues, those that dead-letter to an exchange
	// forwarding are the exchanges from which another exchange is bound, and alternates those with an alternate exchange.
	forwarding, alternates map[string]bool
}

// deadLetterTarget is where a queue dead-letters to: an exchange; a queue, by way of the default exchange; or, if both are empty, by
// way of the default exchange to a queue that the message names.
type deadLetterTarget struct{ exchange, queue string }

func targetOf(letter vhost.DeadLetter) deadLetterTarget {
	if letter.Exchange == "" && letter.RoutingKey != nil {
		return deadLetterTarget{queue: *letter.RoutingKey}
	}
	return deadLetterTarget{exchange: letter.Exchange}
}

// keyedTarget is an exchange and the routing key with which a queue dead-letters there; ownKey if each message keeps its own.
type keyedTarget struct {
	exchange, key string
	ownKey        bool
}

func keyedTargetOf(letter vhost.DeadLetter) keyedTarget {
	if letter.RoutingKey == nil {
		return keyedTarget{exchange: letter.Exchange, ownKey: true}
	}
	return keyedTarget{exchange: letter.Exchange, key: *letter.RoutingKey}
}

// index returns the index of dead letters.
func (s *Snapshot) index() *deadLetterIndex {
	index := &s.deadLetters
	index.building.Lock()
	defer index.building.Unlock()
	if index.built {
		return index
	}
	index.built = true
	index.policies = deadLetterPolicies(s.Policies)
	index.letters, index.sources = map[string][]vhost.DeadLetter{}, map[deadLetterTarget][]string{}
	index.keyed = map[keyedTarget][]string{}
	index.forwarding, index.alternates = map[string]bool{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.Queues)) { // so that each is the last one in sources
		index.addQueue(name, s.Queues[name])
	}
	for name, exchange := range s.exchanges {
		index.addExchange(name, exchange)
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
	letters := deadLettersOf(name, queue, i.policies)
	if len(letters) == 0 {
		return
	}
	i.letters[name] = letters
	for _, letter := range letters {
		addName(i.sources, targetOf(letter), name)
		addName(i.keyed, keyedTargetOf(letter), name)
	}
}

func (i *deadLetterIndex) dropQueue(name string) {
	for _, letter := range i.letters[name] {
		dropName(i.sources, targetOf(letter), name)
		dropName(i.keyed, keyedTargetOf(letter), name)
	}
	delete(i.letters, name)
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

func (i *deadLetterIndex) addExchange(name string, exchange vhost.Exchange) {
	if _, alternate := exchange.Alternate(); i.built && alternate {
		i.alternates[name] = true
	}
}

func (i *deadLetterIndex) dropExchange(name string) {
	delete(i.alternates, name)
	delete(i.forwarding, name)
}

// setForwarding takes note of the bindings from an exchange.
func (i *deadLetterIndex) setForwarding(source string, bindings []vhost.Binding) {
	switch {
	case !i.built:
	case slices.ContainsFunc(bindings, func(b vhost.Binding) bool { return b.ToExchange }):
		i.forwarding[source] = true
	default:
		delete(i.forwarding, source)
	}
}
