package safedelete_test

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

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

// pendingArguments are the arguments of a queue whose dead letters wait, because they cannot be routed.
var pendingArguments = vhost.Arguments{
	"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "nowhere", "x-dead-letter-strategy": "at-least-once",
	"x-overflow": "reject-publish",
}

// delayedArguments are the arguments of a queue that redelivers minutes later, from RabbitMQ 4.3 on.
var delayedArguments = vhost.Arguments{
	"x-delayed-retry-type": "all", "x-delayed-retry-min": int64(600000), "x-delayed-retry-max": int64(600000),
}

// putAside publishes a message and rejects it, so that the queue has neither a ready message nor a consumer.
func putAside(t *testing.T, vh *brokers.VHost, queue string, requeue bool) {
	t.Helper()
	t.Cleanup(func() { vh.DeleteQueue(queue) }) // RabbitMQ 4.3 may trip over dead letters of a vhost that is deleted
	vh.Publish("", queue, "put aside")
	connection, err := vh.Connect("putting aside")
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
		now, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		g.Expect(err).NotTo(HaveOccurred())
		return now.Consumers
	}).WithTimeout(rabbittest.Within).WithPolling(5 * time.Millisecond).Should(BeZero())
}

// The statistics of the management API can be a minute old. Here they are from a time at which every queue was empty. No queue is deleted or
// retained because of statistics.
func TestTheProofHoldsWithOldStatistics(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		queues := map[string]vhost.Arguments{"empty": nil, "pending": pendingArguments, "delayed": delayedArguments}
		for queue, arguments := range queues {
			vh.DeclareQueue(queue, rabbittest.Quorum(arguments))
		}
		putAside(t, vh, "pending", false)
		putAside(t, vh, "delayed", true)
		management := netfault.NewHTTPProxy(t, vh.Broker.ManagementURI, netfault.HTTPOptions{})
		management.Change(frozen(vh))
		config := rabbittest.ConfigOf(vh)
		config.ManagementURI = management.URI
		connection := rabbittest.Connected(t, config, nil)
		for queue := range queues {
			err := deleteNow(t.Context(), connection, queue)
			if queue == "empty" && err == nil {
				continue
			}
			rabbittest.MustBe(t, err, brokererr.ErrNotEmpty, `queue "`+queue+`" holds`)
		}
		if left := len(vh.Definitions().Queues); left != 2 {
			t.Errorf("%d queues are left", left)
		}
		mustBeClean(t, vh)
	})
}

// frozen replaces the counters in every answer about a queue by old ones.
func frozen(vh *brokers.VHost) func(*http.Response) error {
	prefix := "/api/queues/" + management.Escape(vh.Name) + "/"
	return func(response *http.Response) error {
		name, about := strings.CutPrefix(response.Request.URL.EscapedPath(), prefix)
		if about && response.StatusCode == http.StatusOK && !strings.Contains(name, "/") {
			queue, _ := url.PathUnescape(name)
			arguments := rabbittest.Quorum(map[string]vhost.Arguments{
				"pending": pendingArguments, "delayed": delayedArguments,
			}[queue])
			netfault.Replace(response, fmt.Sprintf(`{"name":%q,"type":"quorum","state":"running","leader":"rabbit@long-ago","arguments":%s,
				"consumers":0,"messages":0,"messages_ready":0,"messages_unacknowledged":0,"messages_dlx":0,"messages_delayed":0,
				"effective_policy_definition":{}}`, queue, arguments.JSON()))
		}
		return nil
	}
}

// While a deletion waits for the fences of other processes, messages may arrive. The proof is made after the wait.
func TestTheProofComesAfterTheWait(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		for queue, arguments := range map[string]vhost.Arguments{"ready": nil, "pending": pendingArguments, "delayed": delayedArguments} {
			vh.DeclareQueue(queue, rabbittest.Quorum(arguments))
			connection := rabbittest.Connected(t, rabbittest.DeafConfigOf(t, vh), nil)
			connection.Deleter.Crash = func(step string) bool {
				switch {
				case step != safedelete.StepPrechecked:
				case queue == "ready":
					vh.Publish("", queue, "1")
				default:
					putAside(t, vh, queue, queue == "delayed")
				}
				return true
			}
			rabbittest.MustBe(t, deleteNow(t.Context(), connection, queue), brokererr.ErrNotEmpty, `queue "`+queue+`" holds`)
		}
		mustBeClean(t, vh)
	})
}

// Up to 4.0 the management API shows a fence as the effective policy for some seconds after it was lifted.
func TestALiftedFenceIsNoLimit(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", rabbittest.Quorum(nil))
		management := netfault.NewHTTPProxy(t, vh.Broker.ManagementURI, netfault.HTTPOptions{})
		config := rabbittest.ConfigOf(vh)
		config.ManagementURI = management.URI
		late := rabbittest.Connected(t, config, nil)
		management.Change(func(response *http.Response) error {
			if strings.HasSuffix(response.Request.URL.EscapedPath(), "/orders") {
				netfault.Replace(response, `{"name":"orders","type":"quorum","state":"running","leader":"rabbit@here","messages":0,
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

// A group of queues is deleted as a whole or not at all. If a consumer comes, the context ends or the connection is closed, deleted
// queues are declared again with the same arguments and bindings. A connection without events does not know of the latest binding.
func TestAGroupIsDeletedAsAWhole(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareExchange("retries", "topic", nil)
		for _, how := range []string{"by a consumer", "by its context", "by Close"} {
			tier, orders := how+" tier", how+" orders"
			arguments := vhost.Arguments{
				"x-message-ttl": int64(60000), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": orders,
			}
			vh.DeclareQueue(orders, rabbittest.Quorum(nil))
			vh.DeclareQueue(tier, rabbittest.Quorum(arguments))
			vh.Bind("retries", tier, "5s.#", map[string]any{"x-note": "kept"})
			vh.Bind("retries", tier, "again", nil)
			before := vh.Definitions()
			config := rabbittest.ConfigOf(vh)
			if how == "by a consumer" {
				config = rabbittest.DeafConfigOf(t, vh)
			}
			connection := rabbittest.Connected(t, config, nil)
			ctx, cancel := context.WithCancel(t.Context())
			closed := make(chan struct{})
			connection.Deleter.Crash = func(step string) bool {
				switch {
				case step == safedelete.StepPrechecked && how == "by a consumer":
					vh.Bind("retries", tier, "late", nil)
					before = vh.Definitions()
				case step != safedelete.StepOne:
				case how == "by a consumer":
					rabbittest.Holding(t, vh, func(ch *amqp.Channel) error {
						_, err := ch.Consume(orders, "", false, false, false, false, nil)
						return err
					})
				case how == "by Close":
					go func() {
						defer close(closed)
						connection.Close()
					}()
					<-connection.Deleter.Stopping()
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
			} else if !strings.Contains(err.Error(), fmt.Sprintf("deleted queues are declared again: %q", tier)) {
				t.Errorf("%s: %v", how, err)
			}
			if how == "by a consumer" {
				rabbittest.MustBe(t, err, brokererr.ErrNotEmpty, "has 1 consumer")
			}
			cancel()
			after := vh.Definitions()
			g := NewWithT(t)
			g.Expect(after.Queues).To(ConsistOf(before.Queues), how)
			g.Expect(after.Bindings).To(ConsistOf(before.Bindings), how)
			rabbittest.Holds(t, vh, tier, 0)
			vh.Publish("", tier, "goes on")
			connection.Close() // an open connection would remove the fence of the next case as left behind
		}
		mustBeClean(t, vh)
	})
}

// A consumer subscribes to a queue of a group after the proof. No other queue of the group is deleted, not even for a moment.
func TestNoQueueIsDeletedIfAnotherOfItsGroupHasAConsumer(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		queues := tierAndMain(vh, "orders")
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		connection.Deleter.Crash = func(step string) bool {
			if step == safedelete.StepSettled {
				rabbittest.Holding(t, vh, func(ch *amqp.Channel) error {
					_, err := ch.Consume("orders", "", false, false, false, false, nil)
					return err
				})
			}
			return true
		}
		err := deleteNow(t.Context(), connection, queues...)
		rabbittest.MustBe(t, err, brokererr.ErrNotEmpty, `queue "orders" has 1 consumer`)
		if strings.Contains(err.Error(), "declared again") {
			t.Error(err)
		}
		mustBeClean(t, vh)
	})
}

// A main queue with sixteen tiers can be fenced whatever their names are, although RabbitMQ 4.3 limits patterns to 1,024 bytes.
func TestManyQueuesWithLongNames(t *testing.T) {
	deadline.InTestAll(t)
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		for _, length := range []int{60, vhost.MaxNameLength} {
			name := func(suffix string) string { return strings.Repeat("(", length-len(suffix)) + suffix }
			queues := []string{name("")}
			for tier := range 16 {
				queues = append(queues, name(fmt.Sprintf(".retry.%ds", tier)))
			}
			for _, queue := range queues {
				vh.DeclareQueue(queue, rabbittest.Quorum(nil))
			}
			NewWithT(t).Eventually(func() error { return deleteNow(t.Context(), connection, queues...) }).
				WithTimeout(2 * rabbittest.Within).Should(Succeed()) // other tests may keep the broker busy
		}
		if left := vh.Definitions().Queues; len(left) != 0 {
			t.Errorf("%d queues are left", len(left))
		}
		mustBeClean(t, vh)
	})
}
