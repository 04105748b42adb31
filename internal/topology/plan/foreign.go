package plan

import (
	"maps"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// listedForeign is how many foreign bindings are listed. The others are counted.
const listedForeign = 64

// addForeign lists bindings into our queues that nobody wants, the first ones in order. They are never removed: they may be
// somebody's.
func (c *Comparison) addForeign(desired topology.Topology, observed vhost.Observed, input Input, older *topology.Topology) {
	known := topology.IDsOf(desired.Bindings)
	if older != nil {
		maps.Copy(known, topology.IDsOf(older.Bindings))
	}
	for _, orphan := range c.Orphans {
		known[topology.IDOf(orphan.Entry)] = true
	}
	var foreign []vhost.ID
	for _, queue := range desired.Queues {
		for _, id := range input.unwanted(queue.Name, observed.BindingsTo[queue.Name]) {
			if !known[id] && !isReturnBinding(desired.Return, id, observed) {
				foreign = append(foreign, id)
			}
		}
	}
	slices.SortFunc(foreign, vhost.ID.Compare)
	c.Unlisted = max(0, len(foreign)-listedForeign)
	for _, id := range foreign[:len(foreign)-c.Unlisted] {
		entry := topology.EntryOf(id)
		entry.State = v1alpha1.StateForeign
		c.Entries = append(c.Entries, Entry{TopologyEntry: entry})
	}
}

// unwanted lists those bindings of a queue that no other ConsumerQueue wants.
func (i Input) unwanted(queue string, bindings []vhost.Binding) []vhost.ID {
	if i.Unwanted == nil {
		return vhost.BindingIDs(bindings)
	}
	return i.Unwanted(queue, bindings)
}
