package rabbit

import (
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/traffic"
)

// counting is configOf with the shortest interval between counts.
func counting(vh *brokers.VHost) Config {
	config := configOf(vh)
	config.MessageCountsInterval, config.ResyncInterval = time.Millisecond, 100*time.Millisecond
	return config
}

// The consumers of a queue are counted once a caller asks for them. Warren's own consumers do not count.
func TestConsumersAreCounted(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		for _, queue := range []string{"consumed", "free", "looked at"} {
			vh.DeclareQueue(queue, map[string]any{"x-queue-type": "quorum"})
		}
		vh.DeclareQueue("classic", map[string]any{"x-queue-type": "classic"})
		vh.Publish("", "looked at", "first", "second")
		consumer := traffic.Consume(t, vh, "consumed", nil)
		traffic.Consume(t, vh, "classic", nil)
		connection := connected(t, counting(vh), nil)
		ended := make(chan error, 1)
		ctx, end := context.WithCancel(t.Context())
		seen := make(chan struct{}, 10)
		go func() {
			_, err := connection.Look(ctx, connection.Health().Cluster.Key(), transfer.LookConfig{
				Queue: "looked at", Most: 2, Visit: func(*amqp.Delivery) bool {
					seen <- struct{}{}
					<-ctx.Done()
					return false
				},
			})
			ended <- err
		}()
		<-seen
		known := map[string]Consumers{}
		ask := func() map[string]Consumers {
			for _, queue := range []string{"consumed", "free", "looked at", "classic", "absent"} {
				known[queue] = connection.Consumers(queue)
			}
			return known
		}
		eventually := NewWithT(t).Eventually(ask).WithTimeout(within).WithPolling(5 * time.Millisecond)
		several := func(others bool) OmegaMatcher {
			return And(HaveField("Others", others), HaveField("Counts", BeNumerically(">", 2)))
		}
		eventually.Should(And(HaveKeyWithValue("consumed", several(true)), HaveKeyWithValue("free", several(false)),
			HaveKeyWithValue("classic", several(false)), HaveKeyWithValue("absent", several(false))))
		topologytest.Equal(t, "while Warren looks", Consumers{}, known["looked at"])
		end()
		topologytest.Equal(t, "error of the look", nil, <-ended)
		consumer.Stop()
		eventually.Should(And(HaveKeyWithValue("consumed", several(false)), HaveKeyWithValue("looked at", several(false))))

		config := counting(vh)
		config.MessageCountsInterval = 0
		topologytest.Equal(t, "where nobody counts", Consumers{Disabled: true}, connected(t, config, nil).Consumers("consumed"))
	})
}

// After a refusal, Warren pauses before it counts consumers again: 4.3 does not show a queue to a user without a permission on it, and logs
// each attempt.
func TestConsumersThatMayNotBeCounted(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		traffic.Consume(t, vh, "orders", nil)
		user := vh.Broker.NewUser(t, "administrator")
		vh.Grant(user, "^warren-link-", "^warren-link-", "^warren-link-")
		config := counting(vh)
		config.Username, config.Password = user.Username, user.Password
		connection := connected(t, config, nil)
		version, err := vhost.ParseVersion(vh.Broker.Version)
		if err != nil {
			t.Fatal(err)
		}
		eventually := NewWithT(t).Eventually(connection.Consumers).WithArguments("orders").WithTimeout(within).WithPolling(5 * time.Millisecond)
		if !version.AtLeast(vhost.RabbitMQ43) {
			eventually.Should(HaveField("Others", true))
			return
		}
		NewWithT(t).Eventually(func() time.Duration {
			_ = connection.Consumers("orders")
			known := &connection.views.get().consumers
			known.mu.Lock()
			defer known.mu.Unlock()
			return time.Until(known.of["orders"].notBefore)
		}).WithTimeout(within).WithPolling(5 * time.Millisecond).Should(BeNumerically("~", refusedPause, within))
		topologytest.Equal(t, "consumers", Consumers{}, connection.Consumers("orders"))
	})
}

func TestConsumersInARow(t *testing.T) {
	t.Parallel()
	known, now := consumers{}, time.Unix(1_000_000, 0)
	topologytest.Equal(t, "before the first count", Consumers{}, known.get("orders"))
	for i, step := range []struct {
		others bool
		want   Consumers
	}{
		{true, Consumers{Others: true, Counts: 1}},
		{true, Consumers{Others: true, Counts: 2}},
		{false, Consumers{Counts: 1}},
		{false, Consumers{Counts: 2}},
		{true, Consumers{Others: true, Counts: 1}},
	} {
		topologytest.Equal(t, "asked", []string{"orders"}, known.begin(now))
		known.note("orders", step.others)
		if got := known.get("orders"); got != step.want {
			t.Errorf("count %d: %+v, want %+v", i, got, step.want)
		}
	}

	known.get("bills")
	topologytest.Equal(t, "all that are wanted", []string{"bills", "orders"}, slices.Sorted(slices.Values(known.begin(now))))
	topologytest.Equal(t, "none is wanted", 0, len(known.begin(now)))
	topologytest.Equal(t, "what nobody wants is forgotten", 0, len(known.of))
	known.note("orders", true)
	topologytest.Equal(t, "nor learnt", Consumers{}, known.get("orders"))

	known.note("orders", true)
	known.refuse("orders", now.Add(time.Hour))
	topologytest.Equal(t, "refused", Consumers{}, known.get("orders"))
	topologytest.Equal(t, "not again so soon", 0, len(known.begin(now.Add(time.Hour-1))))
	known.get("orders")
	topologytest.Equal(t, "later", []string{"orders"}, known.begin(now.Add(time.Hour)))
}

func TestTakes(t *testing.T) {
	t.Parallel()
	at := clusterQueue{vhost.Cluster{ID: "abc", Name: "rabbit", Endpoint: "one:5672"}, "/", "orders.dlq"}
	elsewhere := map[string]clusterQueue{
		"another queue":   {at.cluster, "/", "bills.dlq"},
		"another vhost":   {at.cluster, "other", "orders.dlq"},
		"another cluster": {vhost.Cluster{ID: "def", Name: "hare", Endpoint: "two:5672"}, "/", "orders.dlq"},
	}
	through := clusterQueue{vhost.Cluster{Name: "rabbit", Endpoint: "two:5672"}, "/", "orders.dlq"} // may be the same cluster
	own, now := takes{}, time.Now()
	topologytest.Equal(t, "before", false, own.since(now, at))
	first, second := own.begin(at), own.begin(through)
	for name, other := range elsewhere {
		topologytest.Equal(t, name, false, own.since(now, other))
	}
	first()
	topologytest.Equal(t, "one goes on", true, own.since(now.Add(time.Hour), at))
	second()
	topologytest.Equal(t, "both have ended since", true, own.since(now, at))
	topologytest.Equal(t, "the broker may not have noticed", true, own.since(now.Add(takesSettle/2), through))
	topologytest.Equal(t, "later", false, own.since(now.Add(time.Hour), at))

	own.of[at] = take{ended: now.Add(-time.Hour)}
	own.begin(elsewhere["another queue"])
	_, known := own.of[at]
	topologytest.Equal(t, "what ended long ago is known", false, known)
}

// A refused browse is remembered until the queue is read.
func TestRefusedBrowse(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
		vh.Publish("", "orders", "first")
		user := vh.Broker.NewUser(t, "administrator")
		vh.Grant(user, ".*", ".*", "^warren-link-")
		config := configOf(vh)
		config.Username, config.Password = user.Username, user.Password
		heard := &listener{}
		connection := connected(t, config, heard.hear)
		cluster := connection.Health().Cluster.Key()
		look := func() error {
			_, err := connection.Look(t.Context(), cluster, transfer.LookConfig{Queue: "orders", Most: 1, Visit: func(*amqp.Delivery) bool { return true }})
			return err
		}
		count := func() error {
			_, err := connection.Transfer(t.Context(), cluster, transfer.Config{
				Queue: "orders", Judge: anyMessage{}, Total: 1, MaxFailures: 1, DryRun: true,
				Settings: func() transfer.Settings { return transfer.Settings{} }, Report: func(transfer.Progress) {},
			})
			return err
		}
		for name, read := range map[string]func() error{"a look": look, "a transfer": count} {
			topologytest.Equal(t, "before "+name, nil, connection.RefusedLook("orders"))
			for range 2 {
				mustBe(t, look(), brokererr.ErrAccessRefused)
				mustBe(t, connection.RefusedLook("orders"), brokererr.ErrAccessRefused)
			}
			topologytest.Equal(t, "another queue", nil, connection.RefusedLook("bills"))
			heard.awaits(t, snapshot.Notice{Queues: []string{"orders"}})
			vh.Grant(user, ".*", ".*", ".*")
			NewWithT(t).Eventually(read).WithTimeout(within).Should(Succeed())
			topologytest.Equal(t, "after "+name, nil, connection.RefusedLook("orders"))
			heard.awaits(t, snapshot.Notice{Queues: []string{"orders"}})
			vh.Grant(user, ".*", ".*", "^warren-link-")
		}
	})
}

// anyMessage selects every message.
type anyMessage struct{}

func (anyMessage) Skips(*amqp.Delivery) string      { return "" }
func (anyMessage) ID(message *amqp.Delivery) string { return message.MessageId }
