package safedelete

import (
	"maps"
	"slices"

	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// Fences returns the names of this Owner's policies that may make queues refuse messages: fences that this connection has put up and not
// taken down, and fences that the last refresh showed. After each refresh the Deleter takes down the leftover fences of the owner.
func (d *Deleter) Fences() []string {
	standing := d.deletions.all()
	d.observer.View(func(known *snapshot.Snapshot) {
		for _, policy := range known.Fences {
			if name, _ := fence.ParseName(policy.Name); name.Owner == d.Owner {
				standing[policy.Name] = true
			}
		}
	})
	return slices.Sorted(maps.Keys(standing))
}

// all returns the fences of deletions, by policy name: true while in use, false if a fence could not be taken down.
func (r *register) all() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]bool, len(r.fences))
	for name, left := range r.fences {
		all[name] = left.IsZero()
	}
	return all
}
