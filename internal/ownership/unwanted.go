package ownership

import (
	"maps"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/vhost"
)

// Thousands of ConsumerQueues may share a dead-letter queue, and the status of each lists the queue's unwanted bindings.
// Searching for the owner of each binding, for each ConsumerQueue, would take quadratic time. The answers are therefore cached,
// and only new bindings are checked.

// Unwanted returns those bindings of a queue that no peer specifies. It may leave out bindings of the ConsumerQueue itself.
func (v View) Unwanted(queue string, bindings []vhost.Binding) []vhost.ID {
	key := unwantedKey{vhost.QueueID(queue), v.here, v.version, v.self.Namespace}
	return slices.DeleteFunc(v.index.unwantedIn(key, bindings), v.Wants)
}

// UnwantedFrom returns those bindings of an exchange that no peer with a right to the exchange specifies. A peer has this right
// in the same namespace, or with consent. It may leave out bindings of the ConsumerQueue itself.
func (v View) UnwantedFrom(exchange string, bindings []vhost.Binding) []vhost.ID {
	id := vhost.ExchangeID(exchange)
	consent := v.consent(id)
	mayBind := func(p Peer) bool {
		return !p.foreign || consent[p.key.Namespace] && p.Desired.Shareable()[id] != ""
	}
	mayHave := func(binding vhost.ID) bool {
		for p := range v.peers(func() []client.ObjectKey { return v.index.wants[markOf(binding)] }) {
			if p.near != Unplaced && p.Desired.Wants(binding) && mayBind(p) {
				return true
			}
		}
		return false
	}
	return slices.DeleteFunc(v.index.unwantedIn(unwantedKey{id, v.here, v.version, v.self.Namespace}, bindings), mayHave)
}

// unwantedKey identifies an answer.
type unwantedKey struct {
	id      vhost.ID // of the queue or exchange
	here    Location
	version vhost.Version
	// namespace is the namespace whose statuses are trusted.
	namespace string
}

// unwantedBindings caches answers for queues and exchanges that several ConsumerQueues share. The zero value is ready to use.
type unwantedBindings struct {
	mu      sync.Mutex
	answers map[unwantedKey]unwantedAnswer
}

// unwantedAnswer has those bindings of a queue or exchange that no ConsumerQueue of a namespace at a location specifies.
type unwantedAnswer struct {
	withdrawals uint64          // Index.withdrawals at that time
	bindings    []vhost.Binding // all checked bindings
	unwanted    []vhost.ID
}

// forget drops the answers for objects that are no longer shared.
func (u *unwantedBindings) forget(isShared func(vhost.ID) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.answers, func(key unwantedKey, _ unwantedAnswer) bool { return !isShared(key.id) })
}

func (u *unwantedBindings) get(key unwantedKey) unwantedAnswer {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.answers[key]
}

func (u *unwantedBindings) put(key unwantedKey, answer unwantedAnswer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.answers == nil {
		u.answers = map[unwantedKey]unwantedAnswer{}
	}
	u.answers[key] = answer
}

// unwantedIn returns those bindings that no ConsumerQueue specifies among those whose namespace and recorded location are in the
// key. Connections of further ConsumerQueues may lead to this location at any time, so the callers also ask the peers of the view.
func (x *Index) unwantedIn(key unwantedKey, bindings []vhost.Binding) []vhost.ID {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if len(bindings) == 0 || !x.isShared(key.id) {
		return vhost.BindingIDs(bindings)
	}
	known := x.unwanted.get(key)
	if known.withdrawals != x.withdrawals || !shareArray(known.bindings, bindings) {
		known = unwantedAnswer{withdrawals: x.withdrawals}
	}
	unwanted := slices.Clone(known.unwanted)
	if asked := len(known.bindings); asked < len(bindings) { // otherwise an earlier check covered more bindings
		unwanted = append(unwanted, vhost.BindingIDs(bindings[asked:])...)
		known.bindings = bindings
	}
	known.unwanted = slices.DeleteFunc(unwanted, func(id vhost.ID) bool { return x.isWantedAt(key, id) })
	x.unwanted.put(key, known)
	return slices.Clone(known.unwanted)
}

func (x *Index) isShared(id vhost.ID) bool { return len(x.wants[markOf(id)]) > 1 }

func (x *Index) isWantedAt(key unwantedKey, id vhost.ID) bool {
	for _, member := range x.wants[markOf(id)] {
		r := x.records[member]
		if member.Namespace != key.namespace || r.released() {
			continue
		}
		if Recorded(r.cq.Status.Location).nearnessTo(key.here) == Same && r.candidate(key.version).Desired.Wants(id) {
			return true
		}
	}
	return false
}

// shareArray reports whether two slices begin at the same element of an array. Then one is a prefix of the other, because observed
// slices are only appended to or replaced.
func shareArray(a, b []vhost.Binding) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }
