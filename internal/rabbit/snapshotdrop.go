package rabbit

import (
	"slices"

	"github.com/warren-mq/warren/internal/vhost"
)

// dropBinding takes out a binding to a queue, and says whether it was there. Slices that were given out stay as they are.
func (s *snapshot) dropBinding(binding vhost.Binding) bool {
	same := func(other vhost.Binding) bool { return sameBinding(binding, other) }
	existed := drop(s.bindingsTo, binding.Destination, same)
	drop(s.bindingsFrom, binding.Source, same)
	return existed
}

// dropQueue takes out a queue with its bindings.
func (s *snapshot) dropQueue(name string) bool {
	_, existed := s.queues[name]
	delete(s.queues, name)
	for _, binding := range s.bindingsTo[name] {
		drop(s.bindingsFrom, binding.Source, func(other vhost.Binding) bool {
			return !other.ToExchange && other.Destination == name
		})
	}
	delete(s.bindingsTo, name)
	return existed
}

// dropExchange takes out an exchange with the bindings from it and to it.
func (s *snapshot) dropExchange(name string) bool {
	_, existed := s.exchanges[name]
	delete(s.exchanges, name)
	for _, binding := range s.bindingsFrom[name] {
		if !binding.ToExchange {
			drop(s.bindingsTo, binding.Destination, func(other vhost.Binding) bool { return other.Source == name })
		}
	}
	delete(s.bindingsFrom, name)
	for source := range s.bindingsFrom {
		drop(s.bindingsFrom, source, func(other vhost.Binding) bool {
			return other.ToExchange && other.Destination == name
		})
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
