package consumerqueue

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// locationOf is where a ConsumerQueue's connection leads, as the open connection knows, or else the status of the
// BrokerConnection. The cluster is not known of a connection that has not been made yet.
func (r *Reconciler) locationOf(ctx context.Context, cq *v1alpha1.ConsumerQueue) ownership.Location {
	bc, err := brokers.ConnectionOf(ctx, r.client, cq)
	if err != nil || bc == nil {
		return ownership.Location{}
	}
	leads := ownership.Location{
		Cluster: vhost.Cluster{ID: bc.Status.ClusterID, Name: bc.Status.ClusterName, Endpoint: bc.Status.ClusterEndpoint},
		VHost:   bc.Spec.VHost,
	}
	if r.pool == nil {
		return leads
	}
	if connection := r.pool.Get(client.ObjectKeyFromObject(bc)); connection != nil {
		if cluster := connection.Health().Cluster; cluster.Known() {
			leads.Cluster = cluster.Keeping(leads.Cluster)
		}
	}
	return leads
}

// view shows a ConsumerQueue its peers: those that have to do with its objects, whichever connection leads them there.
func (r *Reconciler) view(ctx context.Context, cq *v1alpha1.ConsumerQueue, here ownership.Location, version vhost.Version) ownership.View {
	known := map[client.ObjectKey]ownership.Location{} // of connections: thousands of peers may have the same
	return r.index.View(cq, here, version, func(other *v1alpha1.ConsumerQueue) ownership.Location {
		connection := brokers.ConnectionKey(other)
		location, found := known[connection]
		if !found {
			location = r.locationOf(ctx, other)
			known[connection] = location
		}
		return location
	})
}

// SharesQueue says whether another ConsumerQueue wants a queue, too, at what may be the same location; false for known if the index has
// not heard of the ConsumerQueue yet.
func (r *Reconciler) SharesQueue(
	ctx context.Context, cq *v1alpha1.ConsumerQueue, queue string, version vhost.Version,
) (shares, known bool) {
	if !r.index.Await(ctx, cq, trigger.CacheSyncDelay) {
		return false, false
	}
	return r.view(ctx, cq, r.locationOf(ctx, cq), version).Wants(vhost.QueueID(queue)), true
}

// switchLocation forgets what was remembered of another cluster or vhost: nothing here may be cleaned up on the strength of it.
func (r *report) switchLocation(here ownership.Location) {
	before := ownership.Recorded(r.cq.Status)
	if !before.Cluster.Known() || here.IsIn(before) {
		here.Record(r.status)
		return
	}
	if stays := formatObjects(topology.Owned(r.status.Topology)); stays != "" {
		now := here.String()
		if now == before.String() {
			now = fmt.Sprintf("another cluster of that name, at %s,", here.Cluster.Endpoint)
			if here.Cluster.MayBe(before.Cluster) {
				now = "what may be " + now
			}
		}
		r.addEvent(corev1.EventTypeWarning, eventRetained, "Move", fmt.Sprintf(
			"BrokerConnection %q leads to %s now; what is in %s stays there: %s", r.cq.ConnectionName(), now, before, stays))
	}
	r.status.Topology, r.status.TopologyOmitted, r.status.Advisories = nil, 0, nil
	here.Record(r.status)
}
