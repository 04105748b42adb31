package snapshot

import (
	"slices"
	"strconv"

	"github.com/warren-mq/warren/internal/vhost"
)

// A refresh does not see a vhost at one moment: the broker reads queues, exchanges, bindings and policies one after the other, even for
// one answer. If a client removes a policy that dead-letters to an exchange, and binds the exchange instead, a refresh may see the
// bindings before the change and the policies after it. Such a snapshot shows that nothing leads to the exchange, and Warren would delete
// the exchange.
//
// If a refresh misses an object of the previous refresh, Warren doubts that the object is gone. The object stays in the snapshot, and the
// vhost is refreshed again immediately. The second refresh begins after the change that the first one saw in part, so it sees the new
// binding. If the second refresh also misses the object, it is gone.

// doubt adds to the fresh snapshot the objects that it lacks and the snapshot before has. It returns a snapshot of these objects, or nil if
// there are none. It leaves out objects that were already doubted, and exclusive queues with their bindings. Exclusive queues come and go
// with their connections, and their absence causes no action.
func (s *Snapshot) doubt(before, doubted *Snapshot) *Snapshot {
	if before.Cluster != s.Cluster {
		return nil // the objects of another cluster are not missing here
	}
	if doubted == nil {
		doubted = New()
	}
	kept := New()
	always := func(vhost.Exchange) bool { return true }
	shared := func(q vhost.Queue) bool { return !q.Exclusive }
	found := keepMissing(before.exchanges, s.exchanges, doubted.exchanges, kept.exchanges, always)
	found = keepMissing(before.Queues, s.Queues, doubted.Queues, kept.Queues, shared) || found
	for source, bindings := range before.BindingsFrom {
		if sameBindings(bindings, s.BindingsFrom[source]) {
			continue
		}
		for _, binding := range missingBindings(bindings, s.BindingsFrom[source], doubted.BindingsFrom[source]) {
			if queue, exists := before.Queues[binding.Destination]; !binding.ToExchange && (!exists || queue.Exclusive) {
				continue
			}
			s.addBinding(binding)
			kept.addBinding(binding)
			found = true
		}
	}
	known := policyNames(s.Policies, doubted.Policies)
	for _, policy := range before.Policies {
		if !known[policyName{policy.Operator, policy.Name}] {
			s.Policies = append(s.Policies, policy)
			kept.Policies = append(kept.Policies, policy)
			found = true
		}
	}
	if !found {
		return nil
	}
	s.sort()
	return kept
}

func keepMissing[V any](before, fresh, doubted, kept map[string]V, counts func(V) bool) (found bool) {
	for name, value := range before {
		_, there := fresh[name]
		_, known := doubted[name]
		if there || known || !counts(value) {
			continue
		}
		fresh[name], kept[name] = value, value
		found = true
	}
	return found
}

// missingBindings lists the bindings of a source that none of the other lists contains.
func missingBindings(before []vhost.Binding, others ...[]vhost.Binding) []vhost.Binding {
	known := map[string]bool{}
	for _, bindings := range others {
		for _, binding := range bindings {
			known[bindingKey(binding)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(before), func(binding vhost.Binding) bool { return known[bindingKey(binding)] })
}

// bindingKey is unique among the bindings of one source.
func bindingKey(binding vhost.Binding) string {
	key := strconv.Quote(binding.Destination) + strconv.Quote(binding.RoutingKey) + strconv.FormatBool(binding.ToExchange)
	if len(binding.Arguments) > 0 {
		key += binding.Arguments.JSON()
	}
	return key
}

type policyName struct {
	operator bool
	name     string
}

func policyNames(lists ...[]vhost.Policy) map[policyName]bool {
	names := map[policyName]bool{}
	for _, policies := range lists {
		for _, policy := range policies {
			names[policyName{policy.Operator, policy.Name}] = true
		}
	}
	return names
}
