package consumerqueue

import (
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A connection of another namespace leads to its last accepted location, even if it is suspended or not open yet.
func TestOpenedVHostBefore(t *testing.T) {
	t.Parallel()
	opened := controllertest.ConnectedTo("elsewhere", "default", "rabbit@a", "/")
	opened.Status.Location.VHost = "/"
	own := rabbit.Health{Place: rabbit.Place{Address: "mq:5672"}}
	for name, test := range map[string]struct {
		change func(bc *v1alpha1.BrokerConnection)
		own    rabbit.Health
		want   bool
	}{
		"accepted at the same address":             {func(*v1alpha1.BrokerConnection) {}, own, true},
		"accepted at another address":              {func(bc *v1alpha1.BrokerConnection) { bc.Status.Location.ClusterEndpoint = "evil:5672" }, own, false},
		"accepted in another vhost":                {func(bc *v1alpha1.BrokerConnection) { bc.Status.Location.VHost = "other" }, own, false},
		"never accepted":                           {func(bc *v1alpha1.BrokerConnection) { bc.Status.Location.VHost = "" }, own, false},
		"accepted by another cluster":              {func(bc *v1alpha1.BrokerConnection) { bc.Status.Location.ClusterName = "other" }, own, false},
		"the own connection has no unique address": {func(*v1alpha1.BrokerConnection) {}, rabbit.Health{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bc := opened.DeepCopy()
			test.change(bc)
			r := &Reconciler{client: controllertest.Client(t, nil, bc)}
			got := r.openedVHostBefore(t.Context(), controllertest.Named(t, "elsewhere", "orders", `{}`), test.own, here)
			topologytest.Equal(t, "opened the vhost before", test.want, got)
		})
	}
}
