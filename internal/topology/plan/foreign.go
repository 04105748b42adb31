package plan

import (
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// listedForeign is how many foreign bindings are listed. The others are counted.
const listedForeign = 64

// addForeign lists bindings into our queues that nobody wants, the first ones in order. They are never removed: they may be
// somebody's.
func (c *Comparison) addForeign(
	others []vhost.ID, route *topology.ReturnRoute, observed vhost.Observed, wanted func(vhost.ID) bool, older *topology.Topology,
) {
	known := vhost.IDs{}
	if older != nil {
		known = topology.IDsOf(older.Bindings)
	}
	for _, orphan := range c.Orphans {
		known[topology.IDOf(orphan.Entry)] = true
	}
	foreign := slices.DeleteFunc(others, func(id vhost.ID) bool {
		return known[id] || isReturnBinding(route, id, observed) || (wanted != nil && wanted(id))
	})
	slices.SortFunc(foreign, vhost.ID.Compare)
	c.Unlisted = max(0, len(foreign)-listedForeign)
	for _, id := range foreign[:len(foreign)-c.Unlisted] {
		entry := topology.EntryOf(id)
		entry.State = v1alpha1.StateForeign
		c.Entries = append(c.Entries, Entry{TopologyEntry: entry})
	}
}
