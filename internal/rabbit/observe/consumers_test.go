package observe_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/rabbit/observe"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
	"github.com/warren-mq/warren/test/traffic"
)

// counting is configOf with the shortest interval between counts.
func counting(vh *brokers.VHost) rabbit.Config {
	config := rabbittest.ConfigOf(vh)
	config.MessageCountsInterval, config.ResyncInterval = time.Millisecond, 100*time.Millisecond
	return config
}

// The consumers of a queue are counted once a caller asks for them. Warren's own consumers do not count.
func TestConsumersAreCounted(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		for _, queue := range []string{"consumed", "free", "browsed"} {
			vh.DeclareQueue(queue, map[string]any{"x-queue-type": "quorum"})
		}
		vh.DeclareQueue("classic", map[string]any{"x-queue-type": "classic"})
		vh.Publish("", "browsed", "first", "second")
		consumer := traffic.Consume(t, vh, "consumed", nil)
		traffic.Consume(t, vh, "classic", nil)
		connection := rabbittest.Connected(t, counting(vh), nil)
		ended := make(chan error, 1)
		ctx, end := context.WithCancel(t.Context())
		seen := make(chan struct{}, 10)
		go func() {
			_, err := connection.Browse(ctx, connection.Health().Cluster.Key(), mover.BrowseConfig{
				Queue: "browsed", MaxMessages: 2, Visit: func(int, *amqp.Delivery) bool {
					seen <- struct{}{}
					<-ctx.Done()
					return false
				},
			})
			ended <- err
		}()
		<-seen
		known := map[string]rabbit.Consumers{}
		ask := func() map[string]rabbit.Consumers {
			for _, queue := range []string{"consumed", "free", "browsed", "classic", "absent"} {
				known[queue] = connection.Consumers(queue)
			}
			return known
		}
		eventually := NewWithT(t).Eventually(ask).WithTimeout(rabbittest.Within).WithPolling(5 * time.Millisecond)
		several := func(others bool) OmegaMatcher {
			return And(HaveField("Others", others), HaveField("Counts", BeNumerically(">", 2)))
		}
		eventually.Should(And(HaveKeyWithValue("consumed", several(true)), HaveKeyWithValue("free", several(false)),
			HaveKeyWithValue("classic", several(false)), HaveKeyWithValue("absent", several(false))))
		topologytest.Equal(t, "while Warren browses", rabbit.Consumers{}, known["browsed"])
		end()
		topologytest.Equal(t, "error of the look", nil, <-ended)
		consumer.Stop()
		eventually.Should(And(HaveKeyWithValue("consumed", several(false)), HaveKeyWithValue("browsed", several(false))))

		config := counting(vh)
		config.MessageCountsInterval = 0
		topologytest.Equal(t, "where counts are disabled", rabbit.Consumers{Disabled: true}, rabbittest.Connected(t, config, nil).Consumers("consumed"))
	})
}

// After a refusal, Warren pauses before it counts consumers again: 4.3 does not show a queue to a user without a permission on it, and logs
// each attempt.
func TestConsumersThatMayNotBeCounted(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		traffic.Consume(t, vh, "orders", nil)
		user := vh.Broker.NewUser(t, "administrator")
		vh.Grant(user, "^warren-link-", "^warren-link-", "^warren-link-")
		config := counting(vh)
		config.Username, config.Password = user.Username, user.Password
		connection := rabbittest.Connected(t, config, nil)
		version, err := vhost.ParseVersion(vh.Broker.Version)
		if err != nil {
			t.Fatal(err)
		}
		eventually := NewWithT(t).Eventually(connection.Consumers).WithArguments("orders").WithTimeout(rabbittest.Within).WithPolling(5 * time.Millisecond)
		if !version.AtLeast(vhost.RabbitMQ43) {
			eventually.Should(HaveField("Others", true))
			return
		}
		NewWithT(t).Eventually(func() time.Duration {
			_ = connection.Consumers("orders")
			return time.Until(connection.Observer.NextCountOfConsumers("orders"))
		}).WithTimeout(rabbittest.Within).WithPolling(5 * time.Millisecond).Should(BeNumerically("~", observe.RefusedPause, rabbittest.Within))
		topologytest.Equal(t, "consumers", rabbit.Consumers{}, connection.Consumers("orders"))
	})
}

// A refused browse is remembered until the queue is read.
func TestRefusedBrowse(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		vh.Publish("", "orders", "first")
		user := vh.Broker.NewUser(t, "administrator")
		vh.Grant(user, ".*", ".*", "^warren-link-")
		config := rabbittest.ConfigOf(vh)
		config.Username, config.Password = user.Username, user.Password
		heard := &rabbittest.Listener{}
		connection := rabbittest.Connected(t, config, heard.Hear)
		cluster := connection.Health().Cluster.Key()
		look := func() error {
			_, err := connection.Browse(t.Context(), cluster, mover.BrowseConfig{Queue: "orders", MaxMessages: 1, Visit: func(int, *amqp.Delivery) bool { return true }})
			return err
		}
		count := func() error {
			_, err := connection.Move(t.Context(), cluster, mover.Config{
				Queue: "orders", Filter: anyMessage{}, Total: 1, MaxFailures: 1, DryRun: true,
				Settings: func() mover.Settings { return mover.Settings{} }, Report: func(mover.Progress) {},
			})
			return err
		}
		for name, read := range map[string]func() error{"a look": look, "a move": count} {
			topologytest.Equal(t, "before "+name, nil, connection.RefusedBrowse("orders"))
			for range 2 {
				rabbittest.MustBe(t, look(), brokererr.ErrAccessRefused)
				rabbittest.MustBe(t, connection.RefusedBrowse("orders"), brokererr.ErrAccessRefused)
			}
			topologytest.Equal(t, "another queue", nil, connection.RefusedBrowse("bills"))
			heard.Awaits(t, snapshot.Notice{Queues: []string{"orders"}})
			vh.Grant(user, ".*", ".*", ".*")
			NewWithT(t).Eventually(read).WithTimeout(rabbittest.Within).Should(Succeed())
			topologytest.Equal(t, "after "+name, nil, connection.RefusedBrowse("orders"))
			heard.Awaits(t, snapshot.Notice{Queues: []string{"orders"}})
			vh.Grant(user, ".*", ".*", "^warren-link-")
		}
	})
}

// anyMessage selects every message.
type anyMessage struct{}

func (anyMessage) Skips(*amqp.Delivery, int64) string { return "" }
