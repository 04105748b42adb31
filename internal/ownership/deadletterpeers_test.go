package ownership

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

func TestDeadLetterQueueOf(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cq   *v1alpha1.ConsumerQueue
		want DeadLetterQueue
	}{
		"it wants and has the queue":     {controllertest.Synced(t, "orders", withGrave, ""), DeadLetterQueue{Queue: "grave", At: here}},
		"it wants the queue":             {controllertest.Named(t, "shop", "orders", withGrave), DeadLetterQueue{}},
		"it has a queue that it had":     {controllertest.Synced(t, "orders", withGrave, `{}`), DeadLetterQueue{}},
		"it is being deleted":            {controllertest.BeingDeleted(controllertest.Synced(t, "orders", withGrave, "")), DeadLetterQueue{}},
		"its spec is not understood":     {controllertest.Synced(t, "orders", withGrave, unknownSpec), DeadLetterQueue{}},
		"it has no dead-letter queue":    {controllertest.Synced(t, "orders", `{deadLetter: {policy: Disabled}, retry: {policy: None}}`, ""), DeadLetterQueue{}},
		"its queue has the default name": {controllertest.Synced(t, "orders", `{}`, ""), DeadLetterQueue{Queue: "orders.dlq", At: here}},
	} {
		topologytest.Equal(t, name, test.want, DeadLetterQueueOf(test.cq))
	}
}

func TestDeadLetterPeers(t *testing.T) {
	t.Parallel()
	at := func(place func(*v1alpha1.ConsumerQueueStatus), name string) *v1alpha1.ConsumerQueue {
		cq := controllertest.Synced(t, name, withGrave, "")
		place(&cq.Status)
		return cq
	}
	index := indexOf(
		controllertest.Synced(t, "own", withGrave, ""), controllertest.Synced(t, "b", withGrave, ""), controllertest.Synced(t, "a", withGrave, ""),
		controllertest.Named(t, "shop", "newcomer", withGrave), controllertest.Synced(t, "other", `{}`, ""),
		controllertest.BeingDeleted(controllertest.Synced(t, "leaving", withGrave, "")),
		at(func(status *v1alpha1.ConsumerQueueStatus) { status.Location.VHost = "another" }, "vhost"),
		at(func(status *v1alpha1.ConsumerQueueStatus) { status.Location.ClusterName = "another" }, "cluster"),
		at(func(status *v1alpha1.ConsumerQueueStatus) { status.Location.ClusterEndpoint = "another:5672" }, "perhaps"),
	)
	own, grave := client.ObjectKey{Namespace: "shop", Name: "own"}, DeadLetterQueue{Queue: "grave", At: here}
	a, b := client.ObjectKey{Namespace: "shop", Name: "a"}, client.ObjectKey{Namespace: "shop", Name: "b"}
	last := func(grave DeadLetterQueue) client.ObjectKey {
		key, only := index.DeadLetterPeer(own, grave)
		if !only {
			return client.ObjectKey{}
		}
		return key
	}
	topologytest.Equal(t, "of two", client.ObjectKey{}, last(grave))
	first, _ := index.DeadLetterPeer(own, grave)
	topologytest.Equal(t, "one of two", a, first)
	index.Remove(a)
	topologytest.Equal(t, "of one", b, last(grave))
	topologytest.Equal(t, "of no queue", client.ObjectKey{}, last(DeadLetterQueue{}))
	self := controllertest.Synced(t, "own", withGrave, "")
	view := index.View(self, here, vhost.RabbitMQ43, leadsHere)
	topologytest.Equal(t, "shared", true, view.Shares("grave"))
	index.Remove(b)
	topologytest.Equal(t, "not shared any more", false, view.Shares("grave"))
	topologytest.Equal(t, "of none", client.ObjectKey{}, last(grave))
}
