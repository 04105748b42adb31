package snapshot

// Size is how much a snapshot holds.
type Size struct {
	Queues, Exchanges, Bindings, Policies int
	// Bytes is the memory that the snapshot takes, about.
	Bytes int64
}

// Size counts objects, whoever made them.
func (s *Snapshot) Size() Size {
	size := Size{Queues: len(s.Queues), Exchanges: len(s.exchanges), Policies: len(s.Policies) + len(s.Fences)}
	for _, bindings := range s.BindingsFrom {
		size.Bindings += len(bindings)
	}
	if s.Room != nil {
		size.Bytes = s.Room.Size()
	}
	return size
}
