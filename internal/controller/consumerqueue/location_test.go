package consumerqueue

import (
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// RabbitmqClusters of one name are common. What is recorded of a ConsumerQueue counts, and where its connection leads.
func TestNearness(t *testing.T) {
	t.Parallel()
	strong := func(id, name, endpoint string) vhost.Cluster {
		return vhost.Cluster{ID: id, Name: name, Endpoint: endpoint}
	}
	here := location{strong("1", "rabbit", "blue:5672"), "/"}
	for name, test := range map[string]struct {
		recorded, leads location
		want            nearness
	}{
		"nothing is known":                         {location{}, location{vhost: "/"}, unplaced},
		"its topology is here":                     {here, location{}, same},
		"its connection leads here":                {location{}, here, same},
		"it is at another cluster of that name":    {location{strong("2", "rabbit", "blue:5672"), "/"}, location{strong("2", "rabbit", "blue:5672"), "/"}, elsewhere},
		"it was elsewhere and comes here":          {location{strong("2", "rabbit", "green:5672"), "/"}, here, same},
		"it is in another vhost":                   {location{here.cluster, "other"}, location{here.cluster, "other"}, elsewhere},
		"the name alone says that it is here":      {location{strong("", "rabbit", "green:5672"), "/"}, location{strong("", "rabbit", "green:5672"), "/"}, perhaps},
		"name and endpoint say that it is here":    {location{strong("", "rabbit", "blue:5672"), "/"}, location{}, same},
		"an older version recorded the name":       {location{strong("", "rabbit", ""), "/"}, location{}, perhaps},
		"the name is recorded, and it leads here":  {location{strong("", "rabbit", ""), "/"}, here, same},
		"the name is recorded, and leads to other": {location{strong("", "rabbit", ""), "/"}, location{strong("2", "rabbit", "green:5672"), "/"}, elsewhere},
	} {
		bc := controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{VHost: test.leads.vhost})
		bc.Status.ClusterID, bc.Status.ClusterName, bc.Status.ClusterEndpoint = test.leads.cluster.ID, test.leads.cluster.Name, test.leads.cluster.Endpoint
		cq := controllertest.ConsumerQueue(t, `{}`)
		if test.recorded.cluster.Known() {
			cq.Status.ClusterID, cq.Status.ClusterName = test.recorded.cluster.ID, test.recorded.cluster.Name
			cq.Status.ClusterEndpoint, cq.Status.VHost = test.recorded.cluster.Endpoint, test.recorded.vhost
		}
		r := &Reconciler{client: controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}, bc)}
		topologytest.Equal(t, name, test.want, r.nearness(t.Context(), cq, here))
	}
}
