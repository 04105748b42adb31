package ownership

import (
	"fmt"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// Location is a vhost of a cluster. Connections may spell the way to it differently.
type Location struct {
	Cluster vhost.Cluster
	VHost   string
}

// String names the location for people.
func (l Location) String() string {
	return fmt.Sprintf("vhost %q of cluster %q", l.VHost, l.Cluster.Name)
}

// IsIn says whether the location is the one that a status speaks of.
func (l Location) IsIn(recorded Location) bool {
	return l.VHost == recorded.VHost && l.Cluster.Is(recorded.Cluster)
}

// Recorded returns the location that a status records.
func Recorded(status v1alpha1.Location) Location {
	return Location{
		Cluster: vhost.Cluster{ID: status.ClusterID, Name: status.ClusterName, Endpoint: status.ClusterEndpoint}, VHost: status.VHost,
	}
}

// Record writes the location into a status. It keeps the recorded ID of the cluster if the ID cannot be read any more.
func (l Location) Record(status *v1alpha1.Location) {
	known := l.Cluster.Keeping(Recorded(*status).Cluster)
	*status = v1alpha1.Location{ClusterID: known.ID, ClusterName: known.Name, ClusterEndpoint: known.Endpoint, VHost: l.VHost}
}

// Nearness is how sure it is that a ConsumerQueue is at a location, or is going to be.
type Nearness int

const (
	// Elsewhere is at another location.
	Elsewhere Nearness = iota
	// Unplaced leads nobody knows where, as long as the connection is being made.
	Unplaced
	// Perhaps is at a cluster of the same name. Nothing is taken away from such a ConsumerQueue, and nothing refused for its sake.
	Perhaps
	// Same is at the location.
	Same
)

// NearnessTo finds out how near a ConsumerQueue is to a location, by where it has its topology and by where its connection
// leads. It is for ConsumerQueues of one namespace, which believe each other's statuses; see View.nearness for others.
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
