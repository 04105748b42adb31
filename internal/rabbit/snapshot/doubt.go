package snapshot

import (
	"slices"
	"strconv"

	"github.com/warren-mq/warren/internal/vhost"
)

// A reading is not one moment: queues, exchanges, bindings and policies are read one after the other, within one answer too.
// What moves meanwhile can be seen in neither place: if a policy that dead-letters to an exchange is replaced by a binding,
// a reading may see the bindings before the change and the policies after. Such a reading would say that nothing leads to the
// exchange any more, which would be deleted.
//
// So what the last reading saw and this reading does not see is doubted: it stays in the snapshot, and the vhost is read once
// more at once. What is not seen then either is gone. Whatever led somewhere all the time is seen in one of the two places,
// for the second reading begins after the first has ended.

// doubt adds what the snapshot before has and the fresh snapshot lacks, and returns a snapshot of just that; nil if there is
// nothing. What was doubted already is left out. So are exclusive queues with their bindings, which come and go with their
// connections; nothing is concluded from their absence.
func (s *Snapshot) doubt(before, doubted *Snapshot) *Snapshot {
	if before.Cluster != s.Cluster {
		return nil // what is in another cluster is not missing here
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

// missingBindings are those of a source that are in none of the others.
func missingBindings(before []vhost.Binding, others ...[]vhost.Binding) []vhost.Binding {
	known := map[string]bool{}
	for _, bindings := range others {
		for _, binding := range bindings {
			known[bindingKey(binding)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(before), func(binding vhost.Binding) bool { return known[bindingKey(binding)] })
}

// bindingKey tells the bindings of one source apart.
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
