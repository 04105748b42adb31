package rabbit

import (
	"maps"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/vhost"
)

// takesSettle is how long the broker may take Warren for a consumer after Warren has stopped taking messages.
const takesSettle = 2 * time.Second

// clusterQueue is a queue of a cluster.
type clusterQueue struct {
	cluster      vhost.Cluster
	vhost, queue string
}

// takes knows out of which queues Warren takes messages itself, to look at them or to move them, through whichever connection of the
// process. An entry leaves some seconds after the last look or transfer has ended. A restart forgets all: it ends them all, too.
type takes struct {
	mu sync.Mutex
	of map[clusterQueue]take
}

// take is how many look at a queue, or move messages, and when the last of them ended.
type take struct {
	now   int
	ended time.Time
}

// begin takes note of a look or a transfer until end is called.
func (t *takes) begin(at clusterQueue) (end func()) {
	t.change(at, +1)
	return func() { t.change(at, -1) }
}

// change adds to those that take messages out of a queue, and removes what no count asks about any more.
func (t *takes) change(at clusterQueue, by int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(t.of, func(_ clusterQueue, each take) bool {
		return each.now == 0 && now.Sub(each.ended) > consumersLimit+takesSettle
	})
	if t.of == nil {
		t.of = map[clusterQueue]take{}
	}
	t.of[at] = take{t.of[at].now + by, now}
}

// since says whether the broker may have counted Warren among the consumers of a queue since then.
func (t *takes) since(then time.Time, at clusterQueue) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for each, take := range t.of {
		if each.vhost == at.vhost && each.queue == at.queue && each.cluster.MayBe(at.cluster) &&
			(take.now > 0 || take.ended.After(then.Add(-takesSettle))) {
			return true
		}
	}
	return false
}
