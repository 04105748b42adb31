package ownership

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// DeadLetterQueue is a dead-letter queue that a ConsumerQueue has, and where; the zero value is none.
type DeadLetterQueue struct {
	Queue string
	At    Location
}

// DeadLetterQueueOf is the dead-letter queue that a ConsumerQueue wants and owns. One that is being deleted has none any more.
func DeadLetterQueueOf(cq *v1alpha1.ConsumerQueue) DeadLetterQueue {
	queue := deadLetterQueueName(cq)
	if queue == "" {
		return DeadLetterQueue{}
	}
	return DeadLetterQueue{Queue: queue, At: Recorded(cq.Status.Location)}
}

// deadLetterQueueName is the name of the queue; empty for none.
func deadLetterQueueName(cq *v1alpha1.ConsumerQueue) string {
	found, err := topology.DeadLettersOf(cq, vhost.Version{}) // the name depends on no version
	if err != nil || !cq.DeletionTimestamp.IsZero() || found.Queue == "" {
		return ""
	}
	for i := range cq.Status.Topology {
		entry := &cq.Status.Topology[i]
		if entry.Kind == v1alpha1.KindQueue && entry.Name == found.Queue && topology.Owns(*entry) {
			return entry.Name // and not the other copy of the name
		}
	}
	return ""
}

// Sharers are the ConsumerQueues other than one whose statuses say that they have a dead-letter queue too, sorted by name, at most so
// many. Those of which it is not sure that they are at the same location do not count.
func (x *Index) Sharers(than client.ObjectKey, shared DeadLetterQueue, most int) []client.ObjectKey {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var found []client.ObjectKey
	for _, member := range x.active[markOf(vhost.QueueID(shared.Queue))] {
		if len(found) == most {
			break
		}
		other := x.records[member]
		if member != than && other.deadLetters == shared.Queue && Recorded(other.cq.Status.Location).nearnessTo(shared.At) == Same {
			found = append(found, member)
		}
	}
	return found
}

// Shares reports whether a peer has a dead-letter queue too.
func (v View) Shares(queue string) bool {
	object := markOf(vhost.QueueID(queue))
	for other := range v.index.each(func() []client.ObjectKey { return v.index.active[object] }) {
		if other.deadLetters != queue {
			continue
		}
		near := Recorded(other.cq.Status.Location).nearnessTo(v.here)
		if v.isForeign(other.cq) {
			near = v.nearness(other.cq)
		}
		if near == Same && client.ObjectKeyFromObject(other.cq) != client.ObjectKeyFromObject(v.self) {
			return true
		}
	}
	return false
}

// LastSharer is the ConsumerQueue that alone shares a dead-letter queue of another one, which begins or ends to do so: for the third and
// those after it, nothing changes that way.
func (x *Index) LastSharer(than client.ObjectKey, shared DeadLetterQueue) (last client.ObjectKey, exists bool) {
	if shared == (DeadLetterQueue{}) {
		return client.ObjectKey{}, false
	}
	sharers := x.Sharers(than, shared, 2)
	if len(sharers) != 1 {
		return client.ObjectKey{}, false
	}
	return sharers[0], true
}
