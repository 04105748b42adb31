package observe

import (
	"maps"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/vhost"
)

// ownSettle is how long the broker may count Warren as a consumer after Warren has stopped.
const ownSettle = 2 * time.Second

type clusterQueue struct {
	cluster      vhost.Cluster
	vhost, queue string
}

// ownConsumers records queues that Warren itself consumes to browse or move messages, or to which it moves messages, through all
// connections of the process. An entry is removed some seconds after its last browse or move has ended.
type ownConsumers struct {
	mu sync.Mutex
	of map[clusterQueue]ownConsumer
}

// ownConsumer is how many browses and moves of a queue run, and when the last one ended.
type ownConsumer struct {
	now   int
	ended time.Time
}

// begin records a browse or a move until end is called.
func (o *ownConsumers) begin(at clusterQueue) (end func()) {
	o.change(at, +1)
	return func() { o.change(at, -1) }
}

// change changes the number of browses and moves of a queue, and removes entries that no count needs.
func (o *ownConsumers) change(at clusterQueue, by int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(o.of, func(_ clusterQueue, each ownConsumer) bool {
		return each.now == 0 && now.Sub(each.ended) > consumersLimit+ownSettle
	})
	if o.of == nil {
		o.of = map[clusterQueue]ownConsumer{}
	}
	o.of[at] = ownConsumer{o.of[at].now + by, now}
}

// includes reports whether a browse or a move of a queue runs.
func (o *ownConsumers) includes(at clusterQueue) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of[at].now > 0
}

// since reports whether the broker may have counted Warren among the consumers of a queue since the given time.
func (o *ownConsumers) since(then time.Time, at clusterQueue) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for each, own := range o.of {
		if each.vhost == at.vhost && each.queue == at.queue && each.cluster.MayBe(at.cluster) &&
			(own.now > 0 || own.ended.After(then.Add(-ownSettle))) {
			return true
		}
	}
	return false
}

// BeginConsuming records that Warren consumes a queue on the cluster with this key until the returned function is called.
func (o *Observer) BeginConsuming(cluster, queue string) (end func()) {
	return o.Observations.own.begin(clusterQueue{vhost.ClusterOf(cluster), o.VHost, queue})
}

// BeginFilling records that Warren moves messages to a queue on the cluster with this key until the returned function is called.
func (o *Observer) BeginFilling(cluster, queue string) (end func()) {
	return o.Observations.filled.begin(clusterQueue{vhost.ClusterOf(cluster), o.VHost, queue})
}

// IsMoving reports whether Warren consumes a queue, or moves messages to it, now and through any connection of the process.
func (o *Observer) IsMoving(queue string) bool {
	at := clusterQueue{vhost.ClusterOf(o.Health.Read().Cluster.Key()), o.VHost, queue}
	return o.Observations.own.includes(at) || o.Observations.filled.includes(at)
}
