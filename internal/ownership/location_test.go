package ownership

import (
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// RabbitmqClusters often have the same name. The recorded location and the connection's target both count.
func TestNearnessTo(t *testing.T) {
	t.Parallel()
	location := func(id, name, endpoint string) Location {
		return Location{Cluster: vhost.Cluster{ID: id, Name: name, Endpoint: endpoint}, VHost: "/"}
	}
	here := location("1", "rabbit", "blue:5672")
	otherVHost := Location{Cluster: here.Cluster, VHost: "other"}
	for name, test := range map[string]struct {
		recorded, leads Location
		want            Nearness
	}{
		"nothing is known":                      {Location{}, Location{VHost: "/"}, Unplaced},
		"its topology is here":                  {here, Location{}, Same},
		"its connection leads here":             {Location{}, here, Same},
		"it is at another cluster of that name": {location("2", "rabbit", "blue:5672"), location("2", "rabbit", "blue:5672"), Elsewhere},
		"it was elsewhere and comes here":       {location("2", "rabbit", "green:5672"), here, Same},
		"it is in another vhost":                {otherVHost, otherVHost, Elsewhere},
		"the name alone says that it is here":   {location("", "rabbit", "green:5672"), location("", "rabbit", "green:5672"), Perhaps},
		"name and endpoint say that it is here": {location("", "rabbit", "blue:5672"), Location{}, Same},
	} {
		status := v1alpha1.ConsumerQueueStatus{}
		test.recorded.Record(&status.Location)
		topologytest.Equal(t, name, test.want, NearnessTo(here, status, test.leads))
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	status := v1alpha1.ConsumerQueueStatus{}
	known := Location{Cluster: vhost.Cluster{ID: "1", Name: "rabbit", Endpoint: "blue:5672"}, VHost: "/"}
	known.Record(&status.Location)
	topologytest.Equal(t, "recorded", known, Recorded(status.Location))
	unread := known
	unread.Cluster.ID = ""
	unread.Record(&status.Location)
	topologytest.Equal(t, "recorded where the ID cannot be read any more", known, Recorded(status.Location))
	topologytest.Equal(t, "text", `vhost "/" of cluster "rabbit"`, known.String())
}
