package safedelete

// Stopping is closed when Stop is called.
func (s *Deleter) Stopping() <-chan struct{} { return s.deletions.closing.Done() }

// Clearing reports whether the Deleter is taking down leftover fences.
func (s *Deleter) Clearing() bool {
	s.deletions.mu.Lock()
	defer s.deletions.mu.Unlock()
	return s.deletions.clearing
}
