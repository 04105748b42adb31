package observe

import (
	"cmp"
	"maps"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/vhost"
)

// consumerSettle is how long the broker may count Warren as a consumer after Warren has stopped.
const consumerSettle = 2 * time.Second

// clusterQueue identifies a queue. Another tenant can forge a cluster, so place is the address at which AMQP has opened the vhost, or
// Settings.Broker if the connection cannot prove the address.
type clusterQueue struct {
	cluster             vhost.Cluster
	place, vhost, queue string
}

// queueUses records queues that Warren itself consumes to browse or move messages, or to which it moves messages, through all
// connections of the process. An entry is removed some seconds after its last browse or move has ended.
type queueUses struct {
	mu sync.Mutex
	of map[clusterQueue]queueUse
}

// queueUse is how many browses and moves of a queue run, and when the last one ended.
type queueUse struct {
	now   int
	ended time.Time
}

// begin records a browse or a move until end is called.
func (u *queueUses) begin(at clusterQueue) (end func()) {
	u.change(at, +1)
	return func() { u.change(at, -1) }
}

// change changes the number of browses and moves of a queue, and removes entries that no count needs.
func (u *queueUses) change(at clusterQueue, by int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(u.of, func(_ clusterQueue, each queueUse) bool {
		return each.now == 0 && now.Sub(each.ended) > consumersLimit+consumerSettle
	})
	if u.of == nil {
		u.of = map[clusterQueue]queueUse{}
	}
	u.of[at] = queueUse{u.of[at].now + by, now}
}

// includes reports whether a browse or a move of a queue runs.
func (u *queueUses) includes(at clusterQueue) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.of[at].now > 0
}

// since reports whether the broker may have counted Warren among the consumers of a queue since the given time, at any place.
func (u *queueUses) since(then time.Time, at clusterQueue) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	for each, use := range u.of {
		if each.vhost == at.vhost && each.queue == at.queue && each.cluster.MayBe(at.cluster) &&
			(use.now > 0 || use.ended.After(then.Add(-consumerSettle))) {
			return true
		}
	}
	return false
}

// BeginConsuming records that Warren consumes a queue on the cluster with this key until the returned function is called.
func (o *Observer) BeginConsuming(cluster, queue string) (end func()) {
	return o.Observations.consumed.begin(o.queueOn(cluster, queue))
}

// BeginFilling records that Warren moves messages to a queue on the cluster with this key until the returned function is called.
func (o *Observer) BeginFilling(cluster, queue string) (end func()) {
	return o.Observations.filled.begin(o.queueOn(cluster, queue))
}

// IsMoving reports whether Warren consumes a queue, or moves messages to it, now and through any connection of the process.
func (o *Observer) IsMoving(queue string) bool {
	at := o.queueOn(o.Health.Read().Cluster.Key(), queue)
	return o.Observations.consumed.includes(at) || o.Observations.filled.includes(at)
}

func (o *Observer) queueOn(cluster, queue string) clusterQueue {
	return clusterQueue{vhost.ClusterOf(cluster), cmp.Or(o.Health.Read().Place.Address, o.Broker), o.VHost, queue}
}
