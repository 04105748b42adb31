package recreate_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/rabbittest"
)

// RabbitMQ reports the free disk of a node as a number, which a recreation compares with the size of the queue.
func TestTheFreeDiskOfANodeIsListed(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		nodes, err := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil).API.Nodes(t.Context(), management.AlarmColumns)
		if err != nil || len(nodes) == 0 {
			t.Fatalf("%d nodes, error %v", len(nodes), err)
		}
		if free, known := vhost.Normal(nodes[0].FreeDisk).(int64); !known || free <= 0 {
			t.Errorf("free disk %v", nodes[0].FreeDisk)
		}
	})
}

// RabbitMQ accepts the argument of consumers that follow a contract, and lists it, also for another user with the tag management. The
// listing is up to five seconds old.
func TestConsumersThatFollowAContractAreListed(t *testing.T) {
	type counts struct{ Listed, Following int }
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		consumers, err := vh.Connect("consumers")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = consumers.Close() })
		channel, err := consumers.Channel()
		if err != nil {
			t.Fatal(err)
		}
		for _, queue := range []string{"orders", "other"} {
			vh.DeclareQueue(queue, map[string]any{"x-queue-type": "quorum"})
			for _, arguments := range []amqp.Table{
				{contract.ArgConfigMap: "shop/orders-contract"}, {contract.ArgConfigMap: "shop/other"}, {contract.ArgConfigMap: int32(1)}, nil,
			} {
				if _, err := channel.Consume(queue, "", false, false, false, false, arguments); err != nil {
					t.Fatal(err)
				}
			}
		}
		list := func(tag string) func() counts {
			user := vh.Broker.NewUser(t, tag)
			vh.Grant(user, ".*", ".*", ".*")
			config := rabbittest.ConfigOf(vh)
			config.Username, config.Password = user.Username, user.Password
			connection := rabbittest.Connected(t, config, nil)
			recreator := connection.Recreator(connection.Health().Cluster.Key())
			return func() (found counts) {
				of := recreate.Recreation{Queue: topology.Queue{Name: "orders"}}
				found.Listed, found.Following = recreator.Consumers(t.Context(), of, "shop/orders-contract")
				return found
			}
		}
		for _, tag := range []string{"monitoring", "management"} {
			NewWithT(t).Eventually(list(tag)).WithTimeout(deadline.For(20*time.Second)).Should(Equal(counts{4, 1}), tag)
		}
	})
}
