package ownership

import (
	"maps"
	"slices"
	"sync"
	"weak"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/vhost"
)

// Thousands of ConsumerQueues may share a dead-letter queue, and the status of each lists the queue's unwanted bindings.
// Searching for the owner of each binding, for each ConsumerQueue, would take quadratic time. The answers are therefore cached,
// and only new bindings are checked.

// Unwanted returns those bindings of a queue that no peer specifies. It may leave out bindings of the ConsumerQueue itself.
func (v View) Unwanted(queue string, bindings []vhost.Binding) []vhost.ID {
	return slices.DeleteFunc(v.unwantedIn(vhost.QueueID(queue), bindings), v.Wants)
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
	return slices.DeleteFunc(v.unwantedIn(id, bindings), mayHave)
}

// unwantedKey is a queue or exchange, and the namespace whose statuses are trusted.
type unwantedKey struct {
	id        vhost.ID
	namespace string
}

const (
	// keptAnswers limits the number of answers for one key, for different locations or versions. The broker of another tenant can show a
	// new location or version at each refresh.
	keptAnswers = 4
	// maxAnswer limits an answer, and maxAnswers all answers, in bytes. The memory limit of snapshots does not count them. An answer can
	// hold 6,000 unwanted bindings with short names. There are many answers only if several namespaces share queues.
	maxAnswer  = 1 << 20
	maxAnswers = 16 * maxAnswer
)

// unwantedBindings caches answers for queues and exchanges that several ConsumerQueues share. The zero value is ready to use.
type unwantedBindings struct {
	mu sync.Mutex
	// answers has the newest answer of each key first.
	answers map[unwantedKey][]unwantedAnswer
	// size is the sum of the answers that were added since the map was made, in bytes. It includes replaced and forgotten answers.
	size int
}

// unwantedAnswer has those bindings of a queue or exchange that no ConsumerQueue of a namespace at a location specifies.
type unwantedAnswer struct {
	here        Location
	version     vhost.Version
	withdrawals uint64 // Index.withdrawals at that time
	// first is the first of the checked bindings. Two observed slices that begin with the same element have a common prefix, because
	// observed slices are only appended to or replaced. The pointer is weak, so that an answer does not keep an old snapshot in memory.
	first    weak.Pointer[vhost.Binding]
	checked  int // number of checked bindings
	unwanted []vhost.ID
}

// bytes returns the approximate memory of an answer with its key.
func (a unwantedAnswer) bytes() int {
	const sizeOfAnswer, sizeOfID = 512, 96
	size := sizeOfAnswer
	for _, id := range a.unwanted {
		size += sizeOfID + len(id.Source) + len(id.Destination) + len(id.RoutingKey) + len(id.Arguments)
	}
	return size
}

// forget removes the answers for objects that are no longer shared.
func (u *unwantedBindings) forget(isShared func(vhost.ID) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.answers, func(key unwantedKey, _ []unwantedAnswer) bool { return !isShared(key.id) })
}

// get returns the answer for a location and a version; an empty one if there is none.
func (u *unwantedBindings) get(key unwantedKey, here Location, version vhost.Version) unwantedAnswer {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, answer := range u.answers[key] {
		if answer.here == here && answer.version == version {
			return answer
		}
	}
	return unwantedAnswer{here: here, version: version}
}

// put adds an answer unless it is too large. If all answers together become too large, it removes the others.
func (u *unwantedBindings) put(key unwantedKey, answer unwantedAnswer) {
	size := answer.bytes()
	if size > maxAnswer {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.size += size
	if u.answers == nil || u.size > maxAnswers {
		u.answers, u.size = map[unwantedKey][]unwantedAnswer{}, size
	}
	others := slices.DeleteFunc(u.answers[key], func(a unwantedAnswer) bool { return a.here == answer.here && a.version == answer.version })
	u.answers[key] = append([]unwantedAnswer{answer}, others[:min(keptAnswers-1, len(others))]...)
}

// unwantedIn returns those bindings of a queue or exchange that no ConsumerQueue of the namespace with this recorded location specifies.
// The connections of other ConsumerQueues may lead to this location at any time, so the callers also ask the peers of the view.
func (v View) unwantedIn(id vhost.ID, bindings []vhost.Binding) []vhost.ID {
	x, key := v.index, unwantedKey{id, v.self.Namespace}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if len(bindings) == 0 || !x.isShared(id) {
		return vhost.BindingIDs(bindings)
	}
	first := weak.Make(&bindings[0])
	known := x.unwanted.get(key, v.here, v.version)
	if known.withdrawals != x.withdrawals || known.first != first {
		known = unwantedAnswer{here: v.here, version: v.version, withdrawals: x.withdrawals, first: first}
	}
	unwanted := slices.DeleteFunc(slices.Clone(known.unwanted), v.isWanted)
	if known.checked >= len(bindings) && len(unwanted) == len(known.unwanted) {
		return unwanted
	}
	for _, binding := range bindings[min(known.checked, len(bindings)):] {
		if id := binding.ID(); !v.isWanted(id) {
			unwanted = append(unwanted, id)
		}
	}
	known.checked, known.unwanted = max(known.checked, len(bindings)), unwanted
	x.unwanted.put(key, known)
	return slices.Clone(unwanted)
}

func (x *Index) isShared(id vhost.ID) bool { return len(x.wants[markOf(id)]) > 1 }

// isWanted reports whether a ConsumerQueue of the namespace with this recorded location specifies a binding. The caller must hold the
// lock of the index.
func (v View) isWanted(id vhost.ID) bool {
	for _, member := range v.index.wants[markOf(id)] {
		r := v.index.records[member]
		if member.Namespace != v.self.Namespace || r.released() {
			continue
		}
		if Recorded(r.cq.Status.Location).nearnessTo(v.here) == Same && r.candidate(v.version).Desired.Wants(id) {
			return true
		}
	}
	return false
}
