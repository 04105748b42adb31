package consumerqueue

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/trigger"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// locationOf returns where the connection of a ConsumerQueue leads, from the open connection or else from the status of the
// BrokerConnection. The cluster is unknown before the first connection.
func (r *Reconciler) locationOf(ctx context.Context, cq *v1alpha1.ConsumerQueue) ownership.Location {
	bc, err := brokers.ConnectionOf(ctx, r.client, cq)
	if err != nil || bc == nil {
		return ownership.Location{}
	}
	leads := ownership.Location{Cluster: ownership.Recorded(bc.Status.Location).Cluster, VHost: bc.Spec.VHost}
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

// view returns the peers of a ConsumerQueue: the ConsumerQueues that name its objects, through any connection. To find out where
// connections of other namespaces lead, it may ask the management API of this ConsumerQueue's connection.
func (r *Reconciler) view(
	ctx context.Context, cq *v1alpha1.ConsumerQueue, own *brokers.Broker, here ownership.Location, version vhost.Version,
) (ownership.View, error) {
	others, err := r.pool.OtherNamespaces(ctx, cq.Namespace, own)
	if err != nil {
		return ownership.View{}, fmt.Errorf("find out which connections of other namespaces lead to vhost %q: %w", here.VHost, err)
	}
	known := map[client.ObjectKey]ownership.Location{} // by connection, because thousands of peers may have the same one
	locate := func(other *v1alpha1.ConsumerQueue) ownership.Location {
		if other.Namespace == cq.Namespace {
			return r.locationOf(ctx, other)
		}
		leadsHere, open := others[brokers.ConnectionKey(other)]
		if leadsHere || !open && r.openedVHostBefore(ctx, other, own.Health(), here) {
			return here
		}
		return ownership.Location{}
	}
	return r.index.View(cq, here, version, func(other *v1alpha1.ConsumerQueue) ownership.Location {
		connection := brokers.ConnectionKey(other)
		location, found := known[connection]
		if !found {
			location = locate(other)
			known[connection] = location
		}
		return location
	}).OpenedAt(own.Health().Place.Address), nil
}

// openedVHostBefore reports whether the BrokerConnection of a ConsumerQueue in another namespace has opened this vhost before, at the
// address of this ConsumerQueue's connection. Use it if the other connection is not open, for example because it is suspended.
func (r *Reconciler) openedVHostBefore(
	ctx context.Context, other *v1alpha1.ConsumerQueue, own rabbit.Health, here ownership.Location,
) bool {
	bc, err := brokers.ConnectionOf(ctx, r.client, other)
	if err != nil || bc == nil || bc.Status.Location.VHost == "" || own.Place.Address != bc.Status.Location.ClusterEndpoint {
		return false
	}
	return bc.Status.Location.VHost == here.VHost && ownership.Recorded(bc.Status.Location).Cluster.Is(here.Cluster)
}

// SharesQueue reports whether another ConsumerQueue wants the queue at a location that may be the same. A ConsumerQueue of another
// namespace counts at any location if this namespace shares the queue with it. known is false if cq has no open connection, if the index
// lacks cq, or if the broker does not show which connections lead to the location.
func (r *Reconciler) SharesQueue(
	ctx context.Context, cq *v1alpha1.ConsumerQueue, queue string, version vhost.Version,
) (shares, known bool) {
	if !r.index.Await(ctx, cq, trigger.CacheSyncDelay) {
		return false, false
	}
	connection := r.pool.Get(brokers.ConnectionKey(cq))
	if connection == nil {
		return false, false
	}
	peers, err := r.view(ctx, cq, connection, r.locationOf(ctx, cq), version)
	if err != nil {
		return false, false
	}
	id := vhost.QueueID(queue)
	return peers.Wants(id) || peers.WantedByConsent(id), true
}

// switchLocation clears the inventory of another cluster or vhost, so that Warren deletes nothing here because of that inventory. It
// records a new address of the same location only if no conflict was found, because the inventory may come from another broker. See ADR
// 0015.
func (r *report) switchLocation(here ownership.Location) {
	before := ownership.Recorded(r.cq.Status.Location)
	switch {
	case here.IsIn(before) && here.Cluster.Endpoint != before.Cluster.Endpoint:
		return
	case here.IsIn(before), !before.Cluster.Known():
		here.Record(&r.status.Location)
		return
	}
	stays := formatObjects(topology.Owned(r.status.Topology))
	if r.status.Recreation.IsUnderWay() && r.status.Recreation.Hold != "" {
		hold := fmt.Sprintf("queues %q and %q, which may hold messages of queue %q",
			r.status.Recreation.Backlog, r.status.Recreation.Hold, r.status.Recreation.Queue)
		stays = strings.TrimPrefix(stays+", "+hold, ", ")
	}
	if stays != "" {
		now := here.String()
		if now == before.String() {
			now = fmt.Sprintf("another cluster with that name, at %s", here.Cluster.Endpoint)
			if here.Cluster.MayBe(before.Cluster) {
				now = "possibly " + now
			}
		}
		r.addEvent(corev1.EventTypeWarning, eventRetained, "Move", fmt.Sprintf(
			"BrokerConnection %q now leads to %s. Warren retains these objects in %s: %s", r.cq.ConnectionName(), now, before, stays))
	}
	r.status.Topology, r.status.TopologyOmitted, r.status.Advisories, r.status.Recreation = nil, 0, nil, nil
	here.Record(&r.status.Location)
}
