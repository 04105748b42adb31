package brokers_test

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// OtherNamespaces skips a connection that was not matched yet: its broker is unknown.
func TestOtherNamespaces(t *testing.T) {
	t.Parallel()
	own := brokerstest.New(topologytest.V43, "/", "own")
	opened := map[types.NamespacedName]*brokerstest.Broker{
		{Namespace: "shop", Name: "default"}: own,
		{Namespace: "shop", Name: "second"}:  brokerstest.New(topologytest.V43, "/", "second"),
	}
	for namespace, health := range map[string]rabbit.Health{
		"here":      own.Health(),
		"evil":      {Cluster: own.Health().Cluster, Place: rabbit.Place{Address: "evil:5672"}},
		"unmatched": {Place: own.Health().Place},
	} {
		other := brokerstest.New(topologytest.V43, "/", namespace)
		other.SetHealth(func(h *rabbit.Health) { *h = health })
		opened[types.NamespacedName{Namespace: namespace, Name: "default"}] = other
	}
	opened[types.NamespacedName{Namespace: "vhost", Name: "default"}] = brokerstest.New(topologytest.V43, "other", "vhost")
	byOwner := map[string]*brokers.Broker{}
	for _, broker := range opened {
		byOwner[broker.Owner()] = &brokers.Broker{Probe: broker, Observer: broker, Changer: broker, Mover: broker}
	}
	pool := brokers.NewPool(controllertest.Client(t, nil), logr.Discard(),
		func(config rabbit.Config, _ logr.Logger, _ func(snapshot.Notice)) (*brokers.Broker, error) {
			return byOwner[config.Owner], nil
		})
	for key, broker := range opened {
		if _, err := pool.Ensure(key, time.Time{}, rabbit.Config{Owner: broker.Owner()}); err != nil {
			t.Fatal(err)
		}
	}
	found, err := pool.OtherNamespaces(t.Context(), "shop", byOwner["own"])
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "connections of other namespaces", map[client.ObjectKey]bool{
		{Namespace: "here", Name: "default"}: true, {Namespace: "evil", Name: "default"}: false,
	}, found)
}
