package safedelete_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
)

// The connection of another instance, in another Kubernetes cluster, causes the advisory SharedVHost. While it exists, Warren declares
// objects and deletes none.
func TestNothingIsDeletedBesideAnotherInstance(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vhost *brokers.VHost) {
		config := rabbittest.ConfigOf(vhost)
		config.Owner, config.KnownOwners = "ours", rabbittest.Knowing("our other")
		connection := rabbittest.Connected(t, config, nil)
		sibling := rabbittest.ConfigOf(vhost)
		sibling.Owner = "our other"
		rabbittest.Connected(t, sibling, nil)
		foreign := rabbittest.ConfigOf(vhost)
		foreign.Owner = "theirs"
		other := rabbittest.Connected(t, foreign, nil)

		NewWithT(t).Eventually(func(g Gomega) { // the management API lists connections late
			g.Expect(connection.Refresh(t.Context())).To(Succeed())
			g.Expect(connection.Health().OtherInstances).To(Equal("theirs"))
		}).WithTimeout(rabbittest.Within).Should(Succeed())
		if err := connection.Apply(t.Context(), rabbittest.OneQueue); err != nil {
			t.Error(err)
		}
		cluster := connection.Health().Cluster.Key()
		removal := rabbit.Removal{Queues: []string{"q"}}
		rabbittest.MustBe(t, connection.Remove(t.Context(), cluster, removal), brokererr.ErrShared, "another instance of Warren works on vhost", "theirs")
		rabbittest.MustBe(t, connection.DeleteEmpty(t.Context(), cluster, []string{"q"}, nil), brokererr.ErrShared)
		if queues := vhost.Definitions().Queues; len(queues) != 1 {
			t.Errorf("%+v", queues)
		}
		other.Close()
		NewWithT(t).Eventually(func() error { return connection.Remove(t.Context(), cluster, removal) }).WithTimeout(rabbittest.Within).Should(Succeed())
		if operators := connection.Health().OtherInstances; operators != "" {
			t.Errorf("still there: %s", operators)
		}
	})
}

// A fence alone also shows another instance, for a user who cannot list its connections.
func TestAFenceOfAnotherInstance(t *testing.T) {
	t.Parallel()
	vhost := brokers.Newest(t).NewVHost(t)
	vhost.DeclareQueue("orders", rabbittest.Quorum(nil))
	foreign := rabbittest.ConfigOf(vhost)
	foreign.Owner = "theirs"
	abandon(t, foreign, safedelete.StepFenced, "orders")
	config := rabbittest.ConfigOf(vhost)
	config.Owner, config.KnownOwners = "ours", rabbittest.Knowing()
	connection := rabbittest.Connected(t, config, nil)
	rabbittest.AwaitHealth(t, connection, func(g Gomega, health rabbit.Health) { g.Expect(health.OtherInstances).To(Equal("theirs")) })
	rabbittest.MustBe(t, connection.Remove(t.Context(), connection.Health().Cluster.Key(), rabbit.Removal{Exchanges: []string{"x"}}), brokererr.ErrShared)
}
