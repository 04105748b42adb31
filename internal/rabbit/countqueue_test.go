package rabbit_test

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
)

// The consumer count of a classic queue does not show a client that holds messages after basic.get.
func TestCountQueueCountsWhatAClientHoldsOfAClassicQueue(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders.dlq", map[string]any{"x-queue-type": vhost.TypeClassic})
		vh.Publish("", "orders.dlq", "1", "2", "3")
		rabbittest.Holding(t, vh, func(channel *amqp.Channel) error {
			_, _, err := channel.Get("orders.dlq", false)
			return err
		})
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		counted, exists, err := connection.CountQueue(t.Context(), connection.Health().Cluster.Key(), "orders.dlq", vhost.TypeClassic)
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "exists", true, exists)
		topologytest.Equal(t, "counts", rabbit.QueueCounts{Ready: 2, Held: 1}, counted)
	})
}
