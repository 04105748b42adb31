package consumerqueue

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
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

// A status from another address with the same cluster ID does not count against other namespaces until a reconciliation without conflict.
func TestANewAddressIsRecordedWithoutConflictOnly(t *testing.T) {
	t.Parallel()
	holder := controllertest.InSync(t, threeQueues)
	holder.Namespace, holder.UID = "bank", "holder"
	connection := controllertest.ConnectedTo("bank", "default", "rabbit@memory", "/")
	connection.Status.Location.ClusterEndpoint, connection.Status.Location.VHost = "memory:5672", "/"
	for name, test := range map[string]struct {
		others   []client.Object
		reason   string
		recorded string
	}{
		"a conflict":  {[]client.Object{holder, connection}, v1alpha1.ReasonConflict, "evil:5672"},
		"no conflict": {nil, v1alpha1.ReasonInSync, "memory:5672"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := controllertest.InSync(t, threeQueues)
			own.UID, own.Status.Location.ClusterID, own.Status.Location.ClusterEndpoint = "own", "sha256:1", "evil:5672"
			own.CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
			w := newWorld(t, append(test.others, own)...)
			w.broker.SetHealth(func(h *rabbit.Health) { h.Cluster.ID = "sha256:1" })
			for range 2 {
				if len(test.others) > 0 {
					w.reconciler.index.Update(holder.DeepCopy())
				}
				_, err := w.reconcile()
				topologytest.Equal(t, "error", nil, err)
				topologytest.Equal(t, "reason", test.reason, conditions.Ready(w.get().Status.Conditions).Reason)
				topologytest.Equal(t, "recorded address", test.recorded, w.get().Status.Location.ClusterEndpoint)
			}
		})
	}
}
