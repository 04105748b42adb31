package observe

import (
	"slices"
	"time"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/eventfeed"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// effect is what a change does to a snapshot. The values are labels of a metric.
type effect string

const (
	effectNone    effect = "ignored"
	effectOwn     effect = "own"     // the snapshot has the change, or will soon have it
	effectApply   effect = "applied" // apply the change to the snapshot
	effectRefresh effect = "refresh" // only a refresh shows the change
)

// effectOf decides how a change affects the snapshot. ordered is as in takeAll.
func (v *view) effectOf(change eventfeed.Change, ordered bool) effect {
	switch {
	case !eventfeed.Concerns(change) || v.events.IsExclusive(change):
		return effectNone
	case change.Kind == eventfeed.PolicyChanged:
		return effectRefresh
	case change.Kind == eventfeed.Deleted && v.isDeleting(change.ID):
		return v.leaveToDeletion(change.ID)
	}
	switch v.own.Receive(change.ID, change.Kind) {
	case eventfeed.OriginOwn:
		return effectOwn
	case eventfeed.OriginUnclear:
		return effectRefresh
	}
	switch {
	case !ordered:
		return effectRefresh
	case change.ID.Kind == vhost.KindBinding && !change.Exact:
		return effectRefresh
	case change.Kind == eventfeed.Created && (!change.Exact || !v.events.MayCreate(v.lastRead()) || !v.hasEnds(change)):
		return effectRefresh
	}
	return effectApply
}

// apply applies a change to the snapshot, and returns the notice of the objects that it concerns.
func (v *view) apply(change eventfeed.Change) snapshot.Notice {
	apply := func(s *snapshot.Snapshot) bool { return deleted(s, change) }
	if change.Kind == eventfeed.Created {
		apply = func(s *snapshot.Snapshot) bool { return created(s, change) }
	}
	if !change.Binding.ToExchange {
		return v.store.WriteWithNotice(snapshot.Write{ID: change.ID, Apply: apply})
	}
	if !v.store.Write(snapshot.Write{Apply: apply}) {
		return snapshot.Notice{}
	}
	return snapshot.Notice{Routes: []string{change.Binding.Source}}
}

func deleted(s *snapshot.Snapshot, change eventfeed.Change) bool {
	switch change.ID.Kind {
	case vhost.KindQueue:
		return s.DropQueue(change.ID.Name)
	case vhost.KindExchange:
		return s.DropExchange(change.ID.Name)
	}
	return s.DropBinding(change.Binding)
}

func created(s *snapshot.Snapshot, change eventfeed.Change) bool {
	switch change.ID.Kind {
	case vhost.KindQueue:
		return s.PutQueue(change.ID.Name, change.Queue)
	case vhost.KindExchange:
		return s.PutExchange(change.ID.Name, change.Exchange)
	}
	return s.PutBinding(change.Binding)
}

// hasEnds reports whether the snapshot has both ends of a binding.
func (v *view) hasEnds(change eventfeed.Change) bool {
	if change.ID.Kind != vhost.KindBinding {
		return true
	}
	source, destination := false, false
	v.store.View(func(s *snapshot.Snapshot) {
		_, source = s.Exchange(change.Binding.Source)
		if change.Binding.ToExchange {
			_, destination = s.Exchange(change.Binding.Destination)
		} else {
			_, destination = s.Queues[change.Binding.Destination]
		}
	})
	return source && destination
}

// takeAll applies changes to the snapshot, and sends all connections a notice of the objects that the changes concern; see
// eventfeed.PendingNotices. ordered reports whether events arrive in the order of the changes. If not, they only lead to a refresh.
// sufficed is false if the vhost must be refreshed.
func (v *view) takeAll(changes []eventfeed.Change, ordered bool) (sufficed bool) {
	sufficed = true
	for _, change := range changes {
		effect, concerned := v.effectOf(change, ordered), snapshot.Notice{}
		switch effect {
		case effectApply:
			concerned = v.apply(change)
		case effectRefresh:
			sufficed = false
		}
		v.pending.Add(change, concerned)
		metrics.Events.Inc(string(effect))
		metrics.EventLag.Observe(time.Since(change.At))
	}
	if !sufficed {
		v.events.Unclear()
	}
	v.broadcastForeign(v.pending.Take(v.viewer.bindingWait, func() { v.broadcastForeign(v.pending.TakeAll()) }))
	return sufficed
}

// broadcastForeign sends every connection a notice of changes by other clients.
func (v *view) broadcastForeign(notice snapshot.Notice) {
	if notice.Empty() {
		return
	}
	v.store.View(func(s *snapshot.Snapshot) { notice = s.WithUpstream(notice) })
	v.broadcast(notice)
}

// broadcast sends every connection a notice.
func (v *view) broadcast(notice snapshot.Notice) {
	for _, other := range v.all() {
		other.viewer.notify(notice)
	}
}

// Events that a queue or its bindings were deleted are ignored while a deletion of this process works on the queue.

// isDeleting reports whether one of the connections is deleting a queue, or the queue of a binding.
func (v *view) isDeleting(id vhost.ID) bool {
	queue, is := queueOf(id)
	return is && slices.ContainsFunc(v.all(), func(other *view) bool { return other.viewer.isDeleting(queue) })
}

// leaveToDeletion leaves an event about a queue to the running deletion, which updates the snapshot itself. If the deletion fails,
// another client may have deleted the queue, and the deletion requests a refresh.
func (v *view) leaveToDeletion(id vhost.ID) effect {
	queue, _ := queueOf(id)
	v.events.Ignore(queue)
	if !v.isDeleting(id) { // the deletion has ended, perhaps before Ignore
		return effectRefresh
	}
	return effectOwn
}

// queueOf returns the queue of an ID: the queue itself, or the queue of a binding.
func queueOf(id vhost.ID) (name string, is bool) {
	if id.Kind == vhost.KindBinding {
		return id.Destination, true
	}
	return id.Name, id.Kind == vhost.KindQueue
}
