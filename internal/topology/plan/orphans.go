package plan

import (
	"fmt"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Orphan is an object of Warren that has left the spec.
type Orphan struct {
	Entry v1alpha1.TopologyEntry
	// BlockedBy is why Warren retains the object for now. If it is zero, Warren removes a binding or an exchange immediately, and a
	// queue once it is proven empty.
	BlockedBy Blocker
}

// Blocker is a reason to retain an object.
type Blocker struct {
	Reason v1alpha1.AdvisoryReason
	// Message describes the reason.
	Message string
}

// ID identifies the object.
func (o Orphan) ID() vhost.ID { return topology.IDOf(o.Entry) }

// Blocked reports whether Warren retains the object for now.
func (o Orphan) Blocked() bool { return o.BlockedBy != Blocker{} }

// collectOrphans finds the owned objects that have left the spec and still exist. It skips objects that another ConsumerQueue
// specifies or holds, and source exchanges, which Warren never deletes.
func (c *Comparison) collectOrphans(desired topology.Topology, observed vhost.Observed, input Input) {
	orphans := slices.DeleteFunc(slices.Clone(input.Owned), func(entry v1alpha1.TopologyEntry) bool {
		id := topology.IDOf(entry)
		return desired.Wants(id) || !observed.Has(id) || (input.Shared != nil && input.Shared(entry)) ||
			(entry.Kind == v1alpha1.KindExchange && entry.Role == v1alpha1.RoleSource)
	})
	if len(orphans) == 0 {
		return
	}
	leaving := topology.IDsOf(topology.BindingsOf(orphans))
	known, search := topology.InventoryOf(input.Owned), observed.SearchDeadLetters()
	blocks := make([]Blocker, len(orphans))
	unbound := vhost.IDs{}
	for i, entry := range orphans {
		if entry.Kind != v1alpha1.KindBinding {
			continue
		}
		blocks[i] = firstBlocker(bindingChecks, removal{entry, c, observed, input, leaving, known, search})
		if blocks[i] == (Blocker{}) {
			unbound[topology.IDOf(entry)] = true
		}
	}
	for i, entry := range orphans {
		switch entry.Kind {
		case v1alpha1.KindExchange:
			blocks[i] = firstBlocker(exchangeChecks, removal{entry, c, observed, input, unbound, known, search})
		case v1alpha1.KindQueue:
			blocks[i] = firstBlocker(queueChecks, removal{entry, c, observed, input, unbound, known, search})
		}
		entry.State = v1alpha1.StateOrphaned
		c.addOrphan(Orphan{Entry: entry, BlockedBy: blocks[i]})
	}
}

func (c *Comparison) addOrphan(orphan Orphan) {
	c.Orphans = append(c.Orphans, orphan)
	c.Entries = append(c.Entries, Entry{TopologyEntry: orphan.Entry})
	if change, now := orphan.change(); now {
		c.Changes = append(c.Changes, change)
	}
}

// change returns the immediate change of an orphan. A queue has none, because Warren deletes it once it is empty, and waiting for that is
// not drift.
func (o Orphan) change() (v1alpha1.Change, bool) {
	switch {
	case o.Blocked() || o.Entry.Kind == v1alpha1.KindQueue:
		return v1alpha1.Change{}, false
	case o.Entry.Kind == v1alpha1.KindExchange:
		return changeOf(o.Entry, v1alpha1.EffectDelete, fmt.Sprintf("exchange %q has left the spec", o.Entry.Name)), true
	}
	return changeOf(o.Entry, v1alpha1.EffectUnbind, fmt.Sprintf("queue %q is still bound to exchange %q with routing key %q",
		o.Entry.Destination, o.Entry.Source, o.Entry.RoutingKey)), true
}

// Block blocks the deletion of exchanges, for a reason that only the broker knows.
func (c *Comparison) Block(exchanges []string, why Blocker) {
	blocks := func(kind v1alpha1.ObjectKind, name string) bool {
		return kind == v1alpha1.KindExchange && slices.Contains(exchanges, name)
	}
	for i := range c.Orphans {
		if blocks(c.Orphans[i].Entry.Kind, c.Orphans[i].Entry.Name) {
			c.Orphans[i].BlockedBy = why
		}
	}
	c.Changes = slices.DeleteFunc(c.Changes, func(change v1alpha1.Change) bool {
		return change.Effect == v1alpha1.EffectDelete && blocks(change.Kind, change.Name)
	})
}
