package brokerconnection

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/byresource"
)

// deletionClock records for each deleted BrokerConnection when this manager first saw the deletion, and when the deletion of its
// ConsumerQueues last made progress. The zero value has none.
type deletionClock struct {
	byresource.Map[deletionTimes]
}

type deletionTimes struct {
	uid      types.UID
	seen     time.Time
	waiting  int       // ConsumerQueues that are being deleted
	progress time.Time // when waiting last decreased, or queues were last deleted; at first, when the deletion was seen
}

// since returns for how long a BrokerConnection has waited: since the last progress while ConsumerQueues are being deleted, and
// otherwise since its deletion was seen. A deleted queue is progress, too: of thousands of ConsumerQueues, all main queues may be
// deleted before the first dead-letter queue.
func (c *deletionClock) since(bc client.Object, waiting int, lastDeletion, now time.Time) time.Duration {
	times := c.Change(client.ObjectKeyFromObject(bc), func(one deletionTimes) deletionTimes {
		if one.seen.IsZero() || one.uid != bc.GetUID() {
			one = deletionTimes{uid: bc.GetUID(), seen: now, progress: now}
		}
		if waiting < one.waiting {
			one.progress = now
		}
		if lastDeletion.After(one.progress) {
			one.progress = lastDeletion
		}
		one.waiting = waiting
		return one
	})
	if waiting > 0 {
		return now.Sub(times.progress)
	}
	return now.Sub(times.seen)
}

// seen returns for how long this manager has known of the deletion; zero if it just learned of it.
func (c *deletionClock) seen(bc client.Object) time.Duration {
	one := c.Get(client.ObjectKeyFromObject(bc))
	if one.seen.IsZero() || one.uid != bc.GetUID() {
		return 0
	}
	return time.Since(one.seen)
}
