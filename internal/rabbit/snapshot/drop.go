package snapshot

import (
	"slices"

	"github.com/warren-mq/warren/internal/vhost"
)

// DropBinding removes a binding, and reports whether it existed. Slices that callers have observed do not change.
func (s *Snapshot) DropBinding(binding vhost.Binding) bool {
	same := func(other vhost.Binding) bool { return sameBinding(binding, other) }
	if !binding.ToExchange && !drop(s.bindingsTo, binding.Destination, same) {
		return false
	}
	existed := drop(s.BindingsFrom, binding.Source, same)
	if binding.ToExchange {
		s.deadLetters.setForwarding(binding.Source, s.BindingsFrom[binding.Source])
	}
	return existed
}

// DropQueue removes a queue with its bindings, and reports whether the queue existed.
func (s *Snapshot) DropQueue(name string) bool {
	_, existed := s.Queues[name]
	delete(s.Queues, name)
	s.deadLetters.dropQueue(name)
	for _, binding := range s.bindingsTo[name] {
		drop(s.BindingsFrom, binding.Source, func(other vhost.Binding) bool {
			return !other.ToExchange && other.Destination == name
		})
	}
	delete(s.bindingsTo, name)
	return existed
}

// DropExchange removes an exchange with the bindings from it and to it, and reports whether the exchange existed.
func (s *Snapshot) DropExchange(name string) bool {
	_, existed := s.exchanges[name]
	delete(s.exchanges, name)
	s.deadLetters.dropExchange(name)
	for _, binding := range s.BindingsFrom[name] {
		if !binding.ToExchange {
			drop(s.bindingsTo, binding.Destination, func(other vhost.Binding) bool { return other.Source == name })
		}
	}
	delete(s.BindingsFrom, name)
	for source := range s.BindingsFrom {
		if drop(s.BindingsFrom, source, func(other vhost.Binding) bool { return other.ToExchange && other.Destination == name }) {
			s.deadLetters.setForwarding(source, s.BindingsFrom[source])
		}
	}
	return existed
}

// drop removes bindings from the index under a key, and the key with its last binding. It reports whether it removed any. It creates a new
// slice, because callers may hold the old one.
func drop(index map[string][]vhost.Binding, key string, gone func(vhost.Binding) bool) bool {
	if !slices.ContainsFunc(index[key], gone) {
		return false
	}
	stay := slices.DeleteFunc(slices.Clone(index[key]), gone)
	index[key] = stay
	if len(stay) == 0 {
		delete(index, key)
	}
	return true
}
