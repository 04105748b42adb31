package ownership

import (
	"fmt"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// Location is a vhost of a cluster. Connections can reach it through different addresses.
type Location struct {
	Cluster vhost.Cluster
	VHost   string
}

// String formats the location for messages.
func (l Location) String() string {
	return fmt.Sprintf("vhost %q of cluster %q", l.VHost, l.Cluster.Name)
}

// IsIn reports whether the location is the recorded one.
func (l Location) IsIn(recorded Location) bool {
	return l.VHost == recorded.VHost && l.Cluster.Is(recorded.Cluster)
}

// Recorded returns the location in a status.
func Recorded(status v1alpha1.Location) Location {
	return Location{
		Cluster: vhost.Cluster{ID: status.ClusterID, Name: status.ClusterName, Endpoint: status.ClusterEndpoint}, VHost: status.VHost,
	}
}

// Record writes the location into a status. It keeps the recorded ID of the cluster if the ID can no longer be read.
func (l Location) Record(status *v1alpha1.Location) {
	known := l.Cluster.Keeping(Recorded(*status).Cluster)
	*status = v1alpha1.Location{ClusterID: known.ID, ClusterName: known.Name, ClusterEndpoint: known.Endpoint, VHost: l.VHost}
}

// Nearness is the certainty that a ConsumerQueue is, or will be, at a location.
type Nearness int

const (
	// Elsewhere means that the ConsumerQueue is at another location.
	Elsewhere Nearness = iota
	// Unplaced means that the location of the ConsumerQueue is unknown until its connection opens.
	Unplaced
	// Perhaps means that the ConsumerQueue is at a cluster of the same name. Warren removes no object that the ConsumerQueue may need, but
	// does not refuse another ConsumerQueue because of this one.
	Perhaps
	// Same means that the ConsumerQueue is at the location.
	Same
)

// NearnessTo compares the recorded location and the connection's target of a ConsumerQueue with a location. Use it for
// ConsumerQueues of one namespace, which trust each other's statuses. For others, see View.nearness.
func NearnessTo(here Location, status v1alpha1.ConsumerQueueStatus, leads Location) Nearness {
	recorded := Recorded(status.Location)
	if !recorded.Cluster.Known() && !leads.Cluster.Known() {
		return Unplaced
	}
	return max(recorded.nearnessTo(here), leads.nearnessTo(here))
}

func (l Location) nearnessTo(here Location) Nearness {
	switch {
	case l.VHost != here.VHost:
		return Elsewhere
	case l.Cluster.Is(here.Cluster):
		return Same
	case l.Cluster.MayBe(here.Cluster):
		return Perhaps
	}
	return Elsewhere
}
