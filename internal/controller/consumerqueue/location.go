package consumerqueue

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/vhost"
)

// locationOf is where a ConsumerQueue's connection leads, as the open connection knows, or else the status of the
// BrokerConnection. The cluster is not known of a connection that has not been made yet.
func (r *Reconciler) locationOf(ctx context.Context, cq *v1alpha1.ConsumerQueue) ownership.Location {
	bc, err := r.connectionOf(ctx, cq)
	if err != nil || bc == nil {
		return ownership.Location{}
	}
	leads := ownership.Location{
		Cluster: vhost.Cluster{ID: bc.Status.ClusterID, Name: bc.Status.ClusterName, Endpoint: bc.Status.ClusterEndpoint}, VHost: bc.Spec.VHost,
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
	return r.index.View(cq, here, version, func(other *v1alpha1.ConsumerQueue) ownership.Location { return r.locationOf(ctx, other) })
}
