package safedelete

import (
	"maps"
	"slices"

	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// Fences names the policies of this connection's Owner that keep queues from taking messages: those that deletions which
// are under way have put up, and those that the last refresh showed. What the owner left behind is taken down after each refresh.
func (s *Deleter) Fences() []string {
	standing := s.deletions.all()
	s.broker.View(func(known *snapshot.Snapshot) {
		for _, policy := range known.Fences {
			if name, _ := fence.ParseName(policy.Name); name.Owner == s.Owner {
				standing[policy.Name] = true
			}
		}
	})
	return slices.Sorted(maps.Keys(standing))
}

// all are the fences of deletions, by the names of their policies: true while in use, false if they could not be lifted.
func (d *register) all() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[string]bool, len(d.fences))
	for name, left := range d.fences {
		all[name] = left.IsZero()
	}
	return all
}
