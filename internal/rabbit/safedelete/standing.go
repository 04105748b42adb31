package safedelete

import (
	"maps"
	"sync"
)

// Standing is the set of fences of all running deletions of this process, by policy name, on any connection. The zero value is
// empty.
type Standing struct {
	mu    sync.Mutex
	names map[string]bool
}

// Has reports whether a deletion of this process needs a fence.
func (s *Standing) Has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name]
}

// All returns a copy of the set.
func (s *Standing) All() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.names)
}

func (s *Standing) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[name] = true
}

func (s *Standing) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, name)
}
