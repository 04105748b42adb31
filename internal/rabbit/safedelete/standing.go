package safedelete

import "sync"

// Standing is the set of fences of all running deletions of this process, by policy name, on any connection. The zero value is
// empty.
type Standing struct{ names sync.Map }

// Has reports whether a deletion of this process needs a fence.
func (s *Standing) Has(name string) bool {
	_, stands := s.names.Load(name)
	return stands
}

// All returns a copy of the set.
func (s *Standing) All() map[string]bool {
	all := map[string]bool{}
	s.names.Range(func(name, _ any) bool {
		all[name.(string)] = true
		return true
	})
	return all
}
