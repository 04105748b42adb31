package rabbit

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/test/brokers"
)

// pendingArguments are those of a queue whose dead letters wait, for they lead nowhere.
var pendingArguments = topology.Arguments{
	"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "nowhere", "x-dead-letter-strategy": "at-least-once",
	"x-overflow": "reject-publish",
}

// delayedArguments are those of a queue that redelivers minutes later, from RabbitMQ 4.3 on.
var delayedArguments = topology.Arguments{
	"x-delayed-retry-type": "all", "x-delayed-retry-min": int64(600000), "x-delayed-retry-max": int64(600000),
}

// putAside publishes a message and rejects it, so that neither a ready message nor a consumer is left.
func putAside(t *testing.T, vhost *brokers.VHost, queue string, requeue bool) {
	t.Helper()
	t.Cleanup(func() { vhost.DeleteQueue(queue) }) // RabbitMQ 4.3 may trip over dead letters of a vhost that is deleted
	vhost.Publish("", queue, "put aside")
	connection, err := vhost.Connect("putting aside")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	message, ok, err := channel.Get(queue, false)
	if err == nil && ok {
		err = message.Reject(requeue)
	}
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	NewWithT(t).Eventually(func(g Gomega) int {
		now, _, err := passive(channel, queue)
		g.Expect(err).NotTo(HaveOccurred())
		return now.consumers
	}).WithTimeout(within).WithPolling(5 * time.Millisecond).Should(BeZero())
}

// The statistics of the management API can be a minute old: here they tell of a time at which every queue was empty.
// Nothing rests on the broker's statistics: nothing is deleted on the strength of that, and nothing stays because of it.
func TestTheProofHoldsWithOldStatistics(t *testing.T) {
	each(t, func(t *testing.T, vhost *brokers.VHost) {
		queues := map[string]topology.Arguments{"empty": nil, "pending": pendingArguments, "delayed": delayedArguments}
		for queue, arguments := range queues {
			vhost.DeclareQueue(queue, quorum(arguments))
		}
		putAside(t, vhost, "pending", false)
		putAside(t, vhost, "delayed", true)
		management := newProxy(t, vhost.Broker.ManagementURI, "")
		management.answer(frozen(vhost))
		config := configOf(vhost)
		config.ManagementURI = management.URI
		connection := connected(t, config, nil)
		for queue := range queues {
			err := deleteNow(t.Context(), connection, queue)
			if queue == "empty" && err == nil {
				continue
			}
			mustBe(t, err, ErrNotEmpty, `queue "`+queue+`" holds`)
		}
		if left := len(vhost.Definitions().Queues); left != 2 {
			t.Errorf("%d queues are left", left)
		}
		mustBeClean(t, vhost)
	})
}

// frozen answers with counters of long ago to every question about a queue.
func frozen(vhost *brokers.VHost) func(*http.Response) error {
	prefix := "/api/queues/" + escape(vhost.Name) + "/"
	return func(response *http.Response) error {
		name, about := strings.CutPrefix(response.Request.URL.EscapedPath(), prefix)
		if about && response.StatusCode == http.StatusOK && !strings.Contains(name, "/") {
			queue, _ := url.PathUnescape(name)
			arguments := quorum(map[string]topology.Arguments{
				"pending": pendingArguments, "delayed": delayedArguments,
			}[queue])
			replace(response, fmt.Sprintf(`{"name":%q,"type":"quorum","state":"running","leader":"rabbit@long-ago","arguments":%s,
				"consumers":0,"messages":0,"messages_ready":0,"messages_unacknowledged":0,"messages_dlx":0,"messages_delayed":0,
				"effective_policy_definition":{}}`, queue, arguments.JSON()))
		}
		return nil
	}
}

// Whatever happens while a deletion waits for others to take their fences down, the proof comes after it.
func TestTheProofComesAfterTheWait(t *testing.T) {
	each(t, func(t *testing.T, vhost *brokers.VHost) {
		for queue, arguments := range map[string]topology.Arguments{"ready": nil, "pending": pendingArguments, "delayed": delayedArguments} {
			vhost.DeclareQueue(queue, quorum(arguments))
			connection := connected(t, configOf(vhost), nil)
			connection.between = func(step string) bool {
				switch {
				case step != stepLooked:
				case queue == "ready":
					vhost.Publish("", queue, "1")
				default:
					putAside(t, vhost, queue, queue == "delayed")
				}
				return true
			}
			mustBe(t, deleteNow(t.Context(), connection, queue), ErrNotEmpty, `queue "`+queue+`" holds`)
		}
		mustBeClean(t, vhost)
	})
}

// Up to 4.0 the management API shows a fence as the policy in effect for seconds after it was lifted.
func TestALiftedFenceIsNoLimit(t *testing.T) {
	each(t, func(t *testing.T, vhost *brokers.VHost) {
		vhost.DeclareQueue("orders", quorum(nil))
		management := newProxy(t, vhost.Broker.ManagementURI, "")
		config := configOf(vhost)
		config.ManagementURI = management.URI
		late := connected(t, config, nil)
		management.answer(func(response *http.Response) error {
			if strings.HasSuffix(response.Request.URL.EscapedPath(), "/orders") {
				replace(response, `{"name":"orders","type":"quorum","state":"running","leader":"rabbit@here","messages":0,
					"arguments":{"x-queue-type":"quorum"},"policy":"warren-fence-1763750000-ABCDEF:mine:orders",
					"effective_policy_definition":{"max-length":0,"overflow":"reject-publish"}}`)
			}
			return nil
		})
		if err := deleteNow(t.Context(), late, "orders"); err != nil {
			t.Error(err)
		}
	})
}

// A group of queues is deleted as a whole or not at all: what was deleted before a consumer came, the context ended or the
// connection was closed, is declared again as it was.
func TestAGroupIsDeletedAsAWhole(t *testing.T) {
	each(t, func(t *testing.T, vhost *brokers.VHost) {
		vhost.DeclareExchange("retries", "topic", nil)
		for _, how := range []string{"by a consumer", "by its context", "by Close"} {
			tier, orders := how+" tier", how+" orders"
			arguments := topology.Arguments{
				"x-message-ttl": int64(60000), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": orders,
			}
			vhost.DeclareQueue(orders, quorum(nil))
			vhost.DeclareQueue(tier, quorum(arguments))
			vhost.Bind("retries", tier, "5s.#", map[string]any{"x-note": "kept"})
			vhost.Bind("retries", tier, "again", nil)
			before := vhost.Definitions()
			connection := connected(t, configOf(vhost), nil)
			ctx, cancel := context.WithCancel(t.Context())
			closed := make(chan struct{})
			connection.between = func(step string) bool {
				switch {
				case step != stepOne:
				case how == "by a consumer":
					holding(t, vhost, func(ch *amqp.Channel) error {
						_, err := ch.Consume(orders, "", false, false, false, false, nil)
						return err
					})
				case how == "by Close":
					go func() {
						defer close(closed)
						connection.Close()
					}()
					<-connection.deletions.closing.Done()
				default:
					cancel()
				}
				return true
			}
			err := deleteNow(ctx, connection, tier, orders)
			if err == nil {
				t.Fatalf("%s: deleted", how)
			}
			if how == "by Close" {
				<-closed
			} else if !strings.Contains(err.Error(), fmt.Sprintf("queues deleted before are declared again: %q", tier)) {
				t.Errorf("%s: %v", how, err)
			}
			if how == "by a consumer" {
				mustBe(t, err, ErrNotEmpty, "has 1 consumer")
			}
			cancel()
			after := vhost.Definitions()
			g := NewWithT(t)
			g.Expect(after.Queues).To(ConsistOf(before.Queues), how)
			g.Expect(after.Bindings).To(ConsistOf(before.Bindings), how)
			if ready := vhost.Ready(tier); ready != 0 {
				t.Errorf("%s: %d messages in the tier", how, ready)
			}
			vhost.Publish("", tier, "goes on")
		}
		mustBeClean(t, vhost)
	})
}

// A main queue with sixteen tiers is fenced whatever their names: RabbitMQ 4.3 takes patterns of 1,024 bytes.
func TestManyQueuesWithLongNames(t *testing.T) {
	each(t, func(t *testing.T, vhost *brokers.VHost) {
		connection := connected(t, configOf(vhost), nil)
		for _, length := range []int{60, shortString} {
			name := func(suffix string) string { return strings.Repeat("(", length-len(suffix)) + suffix }
			queues := []string{name("")}
			for tier := range 16 {
				queues = append(queues, name(fmt.Sprintf(".retry.%ds", tier)))
			}
			for _, queue := range queues {
				vhost.DeclareQueue(queue, quorum(nil))
			}
			NewWithT(t).Eventually(func() error { return deleteNow(t.Context(), connection, queues...) }).
				WithTimeout(2 * within).Should(Succeed()) // not at once where the broker is busy with other tests
		}
		if left := vhost.Definitions().Queues; len(left) != 0 {
			t.Errorf("%d queues are left", len(left))
		}
		mustBeClean(t, vhost)
	})
}

// Sentinels are taken out from behind the messages of others, which stay.
func TestSentinelsBehindMessages(t *testing.T) {
	each(t, func(t *testing.T, vhost *brokers.VHost) {
		vhost.DeclareQueue("q", quorum(nil))
		connection := connected(t, configOf(vhost), nil)
		cluster, fence := connection.Health().ClusterName, "warren-fence-1-ABCDEF::q"
		publish := func(numbers ...int) {
			err := connection.sentinels.alone(t.Context(), cluster, func(l *link, channel *amqp.Channel) error {
				_, err := publishSentinels(l, channel, "q", fence, numbers...)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		vhost.Publish("", "q", "1", "2", "3")
		publish(1)
		vhost.Publish("", "q", "4", "5")
		publish(2)
		taken, _, err := connection.take(t.Context(), "q", taking{
			cluster: cluster, most: 2, ours: func(name string) bool { return name == fence },
		})
		if err != nil || taken != 2 {
			t.Errorf("%d taken: %v", taken, err)
		}
		if ready := vhost.Ready("q"); ready != 5 {
			t.Errorf("%d messages are ready", ready)
		}
	})
}

// Whoever was stopped for longer than a deletion may take, deletes nothing: others may have taken its fence down.
func TestADeletionThatWasStoppedForTooLong(t *testing.T) {
	each(t, func(t *testing.T, vhost *brokers.VHost) {
		vhost.DeclareQueue("q", quorum(nil))
		connection := connected(t, configOf(vhost), nil)
		d := &deletion{
			c: connection, cluster: connection.Health().ClusterName, queues: []string{"q"},
			readings: map[string]*reading{}, inside: map[string]int{},
		}
		planned, err := d.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d.fences, d.published = planned, time.Now()
		if err := connection.writing.putFence(t.Context(), planned[0], planned[0].closed()); err != nil {
			t.Fatal(err)
		}
		if err := d.prove(t.Context(), "q"); err != nil {
			t.Fatal(err)
		}
		d.published = time.Now().Add(-budget)
		mustBe(t, d.delete(t.Context()), ErrUnproven, "longer than")
		NewWithT(t).Eventually(vhost.Ready).WithArguments("q").WithTimeout(within).Should(Equal(sentinels))
	})
}
