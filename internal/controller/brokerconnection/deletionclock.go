package brokerconnection

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deletionClock records for each deleted BrokerConnection when this manager first saw the deletion, and when the deletion of its
// ConsumerQueues last made progress.
type deletionClock struct {
	mu sync.Mutex
	of map[client.ObjectKey]deletionTimes
}

type deletionTimes struct {
	uid      types.UID
	seen     time.Time
	waiting  int       // ConsumerQueues that are being deleted
	progress time.Time // when waiting last decreased, or queues were last deleted; at first, when the deletion was seen
}

func newDeletionClock() *deletionClock {
	return &deletionClock{of: map[client.ObjectKey]deletionTimes{}}
}

// since returns for how long a BrokerConnection has waited: since the last progress while ConsumerQueues are being deleted, and
// otherwise since its deletion was seen. A deleted queue is progress, too: of thousands of ConsumerQueues, all main queues may be
// deleted before the first dead-letter queue.
func (c *deletionClock) since(bc client.Object, waiting int, lastDeletion, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(bc)
	one, known := c.of[key]
	if !known || one.uid != bc.GetUID() {
		one = deletionTimes{uid: bc.GetUID(), seen: now, progress: now}
	}
	if waiting < one.waiting {
		one.progress = now
	}
	if lastDeletion.After(one.progress) {
		one.progress = lastDeletion
	}
	one.waiting = waiting
	c.of[key] = one
	if waiting > 0 {
		return now.Sub(one.progress)
	}
	return now.Sub(one.seen)
}

// seen returns for how long this manager has known of the deletion; zero if it just learned of it.
func (c *deletionClock) seen(bc client.Object) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, known := c.of[client.ObjectKeyFromObject(bc)]
	if !known || one.uid != bc.GetUID() {
		return 0
	}
	return time.Since(one.seen)
}

func (c *deletionClock) forget(key client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, key)
}
