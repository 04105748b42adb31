package consumerqueue

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// location is a vhost of a cluster. Connections may spell the way to it differently.
type location struct {
	cluster vhost.Cluster
	vhost   string
}

// String names the place for people.
func (p location) String() string {
	return fmt.Sprintf("vhost %q of cluster %q", p.vhost, p.cluster.Name)
}

// isIn says whether the place is the one that a status speaks of.
func (p location) isIn(recorded location) bool {
	return p.vhost == recorded.vhost && p.cluster.Continues(recorded.cluster)
}

// recordedLocation is where a ConsumerQueue has its topology.
func recordedLocation(status v1alpha1.ConsumerQueueStatus) location {
	return location{vhost.Cluster{ID: status.ClusterID, Name: status.ClusterName, Endpoint: status.ClusterEndpoint}, status.VHost}
}

// record writes the place into the status. An ID that cannot be read any more stays known.
func (p location) record(status *v1alpha1.ConsumerQueueStatus) {
	known := p.cluster.Keeping(recordedLocation(*status).cluster)
	status.ClusterID, status.ClusterName, status.ClusterEndpoint, status.VHost = known.ID, known.Name, known.Endpoint, p.vhost
}

// nearness is how sure it is that a ConsumerQueue is at the place of another one, or is going to be.
type nearness int

const (
	// elsewhere: it is at another place.
	elsewhere nearness = iota
	// unplaced: nobody knows where its connection leads, as long as the connection is being made.
	unplaced
	// perhaps: the clusters have one name. Nothing is taken away from it, and nothing refused for its sake.
	perhaps
	// same: it is at the same place.
	same
)

// nearness finds out how near a ConsumerQueue is to a place: by where it has its topology, and by where its connection leads.
func (r *Reconciler) nearness(ctx context.Context, cq *v1alpha1.ConsumerQueue, here location) nearness {
	recorded, leads := recordedLocation(cq.Status), r.locationOf(ctx, cq)
	if recorded.cluster.Endpoint == "" && leads.isIn(recorded) { // it was recorded by an older version
		recorded = leads
	}
	if !recorded.cluster.Known() && !leads.cluster.Known() {
		return unplaced
	}
	return max(recorded.nearnessTo(here), leads.nearnessTo(here))
}

func (p location) nearnessTo(here location) nearness {
	switch {
	case p.vhost != here.vhost:
		return elsewhere
	case p.cluster.Is(here.cluster):
		return same
	case p.cluster.MayBe(here.cluster):
		return perhaps
	}
	return elsewhere
}

// locationOf is where a ConsumerQueue's connection leads, as the open connection knows, or else the status of the
// BrokerConnection. The cluster is not known of a connection that has not been made yet.
func (r *Reconciler) locationOf(ctx context.Context, cq *v1alpha1.ConsumerQueue) location {
	bc, err := r.connectionOf(ctx, cq)
	if err != nil || bc == nil {
		return location{}
	}
	leads := location{
		vhost.Cluster{ID: bc.Status.ClusterID, Name: bc.Status.ClusterName, Endpoint: bc.Status.ClusterEndpoint}, bc.Spec.VHost,
	}
	if r.pool == nil {
		return leads
	}
	if connection := r.pool.Get(client.ObjectKeyFromObject(bc)); connection != nil {
		if cluster := connection.Health().Cluster; cluster.Known() {
			leads.cluster = cluster.Keeping(leads.cluster)
		}
	}
	return leads
}
