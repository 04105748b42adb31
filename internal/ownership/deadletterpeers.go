package ownership

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// DeadLetterQueue is the dead-letter queue of a ConsumerQueue with its location. The zero value means none.
type DeadLetterQueue struct {
	Queue string
	At    Location
}

// DeadLetterQueueOf returns the dead-letter queue that a ConsumerQueue needs and owns. A deleted ConsumerQueue has none.
func DeadLetterQueueOf(cq *v1alpha1.ConsumerQueue) DeadLetterQueue {
	queue := deadLetterQueueName(cq)
	if queue == "" {
		return DeadLetterQueue{}
	}
	return DeadLetterQueue{Queue: queue, At: Recorded(cq.Status.Location)}
}

// deadLetterQueueName returns the name of the queue; empty for none.
func deadLetterQueueName(cq *v1alpha1.ConsumerQueue) string {
	found, err := topology.QueueNamesOf(cq, vhost.Version{}) // the name is the same on all versions
	if err != nil || !cq.DeletionTimestamp.IsZero() || found.Queue == "" {
		return ""
	}
	for i := range cq.Status.Topology {
		entry := &cq.Status.Topology[i]
		if entry.Kind == v1alpha1.KindQueue && entry.Name == found.Queue && topology.Owns(*entry) {
			return entry.Name // the string of the status, which takes no new memory
		}
	}
	return ""
}

// Shares reports whether a peer has the same dead-letter queue.
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

// DeadLetterPeer returns another ConsumerQueue that shares a dead-letter queue, if there is one, and whether it is the only one. The
// advisory of the only one changes when sharing begins or ends. DeadLetterPeer ignores ConsumerQueues that may be at another location.
func (x *Index) DeadLetterPeer(than client.ObjectKey, shared DeadLetterQueue) (peer client.ObjectKey, only bool) {
	if shared == (DeadLetterQueue{}) {
		return client.ObjectKey{}, false
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, member := range x.active[markOf(vhost.QueueID(shared.Queue))] {
		other := x.records[member]
		if member == than || other.deadLetters != shared.Queue || Recorded(other.cq.Status.Location).nearnessTo(shared.At) != Same {
			continue
		}
		if only {
			return peer, false
		}
		peer, only = member, true
	}
	return peer, only
}
