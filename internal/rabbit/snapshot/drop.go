package snapshot

import (
	"slices"

	"github.com/warren-mq/warren/internal/vhost"
)

// DropBinding takes out a binding, and says whether it was there. Slices that were given out stay as they are.
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

// DropQueue takes out a queue with its bindings.
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

// DropExchange takes out an exchange with the bindings from it and to it.
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

// drop replaces the bindings under a key by those that stay, and removes the key with the last one. It says whether any
// is gone.
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
