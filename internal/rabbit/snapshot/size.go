package snapshot

// Size is the number of objects in a snapshot, and its memory.
type Size struct {
	Queues, Exchanges, Bindings, Policies int
	// Bytes is an estimate of the memory that the snapshot takes.
	Bytes int64
}

// Size counts all objects of the vhost, fences and objects of other clients included.
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
