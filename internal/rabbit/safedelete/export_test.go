package safedelete

// Stopping is closed when Stop is called.
func (d *Deleter) Stopping() <-chan struct{} { return d.deletions.closing.Done() }

// Clearing reports whether the Deleter is taking down leftover fences.
func (d *Deleter) Clearing() bool {
	d.deletions.mu.Lock()
	defer d.deletions.mu.Unlock()
	return d.deletions.clearing
}
