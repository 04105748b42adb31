package rabbit

import (
	"maps"
	"slices"
)

// Fences names the policies of this connection's Owner that keep queues from taking messages: those that deletions which
// are under way have put up, and those that the last look showed. What the owner left behind is taken down after each look.
func (c *Connection) Fences() []string {
	standing := c.deletions.all()
	c.store.view(func(s *snapshot) {
		for _, policy := range s.fences {
			if name, _ := parseFenceName(policy.Name); name.owner == c.config.Owner {
				standing[policy.Name] = true
			}
		}
	})
	return slices.Sorted(maps.Keys(standing))
}

// all are the fences of deletions that are under way.
func (d *deletions) all() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.fences)
}
