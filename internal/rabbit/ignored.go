package rabbit

import (
	"slices"

	"github.com/warren-mq/warren/internal/vhost"
)

// Events that a queue or its bindings were deleted are ignored while a deletion of this process is about the queue.

// isDeleting reports whether one of the connections is deleting a queue, or the queue of a binding.
func (v *view) isDeleting(id vhost.ID) bool {
	queue, is := queueOf(id)
	return is && slices.ContainsFunc(v.all(), func(other *view) bool { return other.viewer.isDeleting(queue) })
}

// leaveToDeletion leaves an event about a queue to the deletion that is under way, which writes what it deletes into the snapshot. If it
// does not delete the queue, another client may have: then it requests a refresh.
func (v *view) leaveToDeletion(id vhost.ID) effect {
	queue, _ := queueOf(id)
	v.events.ignore(queue)
	if !v.isDeleting(id) { // the deletion has ended, perhaps before the event was recorded
		return effectRefresh
	}
	return effectOwn
}

// queueOf returns the queue that an ID is of, or the one that a binding binds.
func queueOf(id vhost.ID) (name string, is bool) {
	if id.Kind == vhost.KindBinding {
		return id.Destination, true
	}
	return id.Name, id.Kind == vhost.KindQueue
}

// ignore records that an event about a queue was left to a deletion.
func (h *heard) ignore(queue string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ignored == nil {
		h.ignored = map[string]bool{}
	}
	h.ignored[queue] = true
}

// takeIgnored reports whether events about one of the queues were left to a deletion, and forgets that.
func (h *heard) takeIgnored(queues []string) (some bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, queue := range queues {
		some = some || h.ignored[queue]
		delete(h.ignored, queue)
	}
	return some
}
