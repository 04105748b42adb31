package rabbit

import (
	"maps"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/vhost"
)

// takesSettle is for how long the broker may count Warren as a consumer after Warren has stopped.
const takesSettle = 2 * time.Second

type clusterQueue struct {
	cluster      vhost.Cluster
	vhost, queue string
}

// takes records which queues Warren itself consumes to browse or move messages, through all connections of the process. An entry
// leaves some seconds after the last of them ended. A restart forgets all entries, and ends all consumers, too.
type takes struct {
	mu sync.Mutex
	of map[clusterQueue]take
}

// take is how many browses and moves of a queue run, and when the last one ended.
type take struct {
	now   int
	ended time.Time
}

// begin records a browse or a move until end is called.
func (t *takes) begin(at clusterQueue) (end func()) {
	t.change(at, +1)
	return func() { t.change(at, -1) }
}

// change changes the number of a queue, and removes entries that no count needs.
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

// isTaken reports whether Warren takes messages out of a queue now.
func (t *takes) isTaken(at clusterQueue) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[at].now > 0
}

// since reports whether the broker may have counted Warren among the consumers of a queue since then.
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
