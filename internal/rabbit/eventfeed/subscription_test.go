package eventfeed_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/eventfeed"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

// each runs a test against every broker of the matrix, with its own vhost and a subscription to the events about it.
func each(t *testing.T, test func(t *testing.T, vh *brokers.VHost, heard *eventfeed.Subscription)) {
	t.Parallel()
	for _, broker := range brokers.All(t) {
		t.Run(broker.Version, func(t *testing.T) {
			t.Parallel()
			vh := broker.NewVHost(t)
			subscription, err := eventfeed.Subscribe(dialed(t, broker), vh.Name)
			if err != nil {
				t.Fatal(err)
			}
			test(t, vh, subscription)
		})
	}
}

// dialed opens a connection to the vhost that has the event exchange.
func dialed(t *testing.T, broker brokers.Broker) *amqpconn.Conn {
	t.Helper()
	uri, err := url.Parse(broker.AMQPURI)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := amqpconn.Dial(t.Context(), amqpconn.DialOptions{
		URI: uri, Username: broker.Username, Password: broker.Password, VHost: "/", Timeout: limit,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close(time.Second) })
	return connection
}

var limit = deadline.For(30 * time.Second)

// heardUntil returns the changes that arrive before a marker.
func heardUntil(t *testing.T, s *eventfeed.Subscription, marker int) []eventfeed.Change {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := s.Mark(marker); err != nil {
		t.Fatal(err)
	}
	var changes []eventfeed.Change
	for {
		batch, err := s.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, batch.Changes...)
		if batch.Marker == marker {
			return changes
		}
	}
}

func expect(t *testing.T, got []eventfeed.Change, want ...eventfeed.Change) {
	t.Helper()
	for i := range got {
		if since := time.Since(got[i].At); since < -time.Second || since > limit {
			t.Errorf("the change was made %v ago", since)
		}
		got[i].At = time.Time{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestChangesOfQueuesAndExchanges(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost, heard *eventfeed.Subscription) {
		vh.DeclareQueue("orders", amqp.Table{"x-queue-type": "quorum", "x-message-ttl": int64(5000), "x-single-active-consumer": true})
		vh.DeclareExchange("in", "headers", amqp.Table{"alternate-exchange": "out"})
		expect(t, heardUntil(t, heard, 1),
			eventfeed.Change{
				Kind: eventfeed.Created, ID: vhost.QueueID("orders"), Exact: true,
				Queue: vhost.Queue{Durable: true, Arguments: vhost.Arguments{
					"x-queue-type": "quorum", "x-message-ttl": int64(5000), "x-single-active-consumer": true,
				}},
			},
			eventfeed.Change{
				Kind: eventfeed.Created, ID: vhost.ExchangeID("in"), Exact: true,
				Exchange: vhost.Exchange{Type: "headers", Durable: true, Arguments: vhost.Arguments{"alternate-exchange": "out"}},
			})
		vh.DeleteQueue("orders")
		vh.DeleteExchange("in")
		expect(t, heardUntil(t, heard, 2),
			eventfeed.Change{Kind: eventfeed.Deleted, ID: vhost.QueueID("orders")},
			eventfeed.Change{Kind: eventfeed.Deleted, ID: vhost.ExchangeID("in")})
	})
}

func TestChangesOfBindings(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost, heard *eventfeed.Subscription) {
		vh.DeclareQueue("orders", nil)
		vh.DeclareExchange("in", "headers", nil)
		heardUntil(t, heard, 1)
		rejected := amqp.Table{"x-match": "all-with-x", "x-last-death-reason": "rejected"}
		vh.Bind("in", "orders", "k.*", rejected)
		vh.BindExchange("in", "amq.topic", "", amqp.Table{"n": amqp.Table{"deep": "x"}})
		vh.Unbind("in", "orders", "k.*", rejected)
		bound := vhost.Binding{
			Source: "in", Destination: "orders", RoutingKey: "k.*",
			Arguments: vhost.Arguments{"x-match": "all-with-x", "x-last-death-reason": "rejected"},
		}
		id := vhost.ID{Kind: vhost.KindBinding, Source: "in", Destination: "orders", RoutingKey: "k.*"}
		expect(t, heardUntil(t, heard, 2),
			eventfeed.Change{Kind: eventfeed.Created, ID: id, Exact: true, Binding: bound},
			eventfeed.Change{
				Kind: eventfeed.Created, ID: vhost.ID{Kind: vhost.KindBinding, Source: "in", Destination: "amq.topic"},
				Binding: vhost.Binding{Source: "in", Destination: "amq.topic", ToExchange: true},
			},
			eventfeed.Change{Kind: eventfeed.Deleted, ID: id, Exact: true, Binding: bound})
	})
}

func TestChangesOfPolicies(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost, heard *eventfeed.Subscription) {
		vh.SetPolicy("limits", brokers.Policy{Pattern: "^orders$", Definition: map[string]any{"max-length": 5}, ApplyTo: "queues"})
		vh.DeletePolicy("limits")
		vh.SetOperatorPolicy("caps", brokers.Policy{Pattern: "^orders$", Definition: map[string]any{"max-length": 5}, ApplyTo: "queues"})
		vh.DeleteOperatorPolicy("caps")
		expect(t, heardUntil(t, heard, 1),
			eventfeed.Change{Kind: eventfeed.PolicyChanged, ID: vhost.ID{Name: "limits"}},
			eventfeed.Change{Kind: eventfeed.PolicyChanged, ID: vhost.ID{Name: "limits"}},
			eventfeed.Change{Kind: eventfeed.PolicyChanged, ID: vhost.ID{Name: "caps"}},
			eventfeed.Change{Kind: eventfeed.PolicyChanged, ID: vhost.ID{Name: "caps"}})
	})
}

// The event exchange announces the changes of all vhosts.
func TestOtherVHostsAreLeftOut(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost, heard *eventfeed.Subscription) {
		vh.Broker.NewVHost(t).DeclareQueue("elsewhere", nil)
		expect(t, heardUntil(t, heard, 1))
	})
}

func TestASubscriptionEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	for _, broker := range brokers.All(t) {
		t.Run(broker.Version, func(t *testing.T) {
			t.Parallel()
			connection := dialed(t, broker)
			subscription, err := eventfeed.Subscribe(connection, "/")
			if err != nil {
				t.Fatal(err)
			}
			connection.CloseSocket()
			for err == nil { // events of other tests may have arrived before
				_, err = subscription.Next(t.Context())
			}
			if !errors.Is(err, eventfeed.ErrEnded) {
				t.Errorf("got %v, want %v", err, eventfeed.ErrEnded)
			}
		})
	}
}

// A full queue drops new events, so a process that misses an event has received eventfeed.QueueLimit earlier ones.
func TestAFullQueueDropsTheNewestEvents(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost, _ *eventfeed.Subscription) {
		const maxLength, made = 100, 200
		channel, err := dialed(t, vh.Broker).Connection.Channel()
		if err != nil {
			t.Fatal(err)
		}
		arguments := amqp.Table{"x-queue-type": "classic", "x-max-length": int32(maxLength), "x-overflow": "reject-publish"}
		queue, err := channel.QueueDeclare("", false, false, true, false, arguments)
		if err != nil {
			t.Fatal(err)
		}
		if err := channel.QueueBind(queue.Name, "queue.created", management.EventExchange, false, nil); err != nil {
			t.Fatal(err)
		}
		for number := range made {
			vh.DeclareQueue(fmt.Sprint(number), nil)
		}
		NewWithT(t).Eventually(func() (int, error) {
			now, err := channel.QueueDeclarePassive(queue.Name, false, false, true, false, arguments)
			return now.Messages, err
		}).WithTimeout(limit).Should(Equal(maxLength))
		next := 0 // queue of this vhost; other tests create queues as well
		for range maxLength {
			event, ok, err := channel.Get(queue.Name, true)
			if err != nil || !ok {
				t.Fatal(err)
			}
			if event.Headers["vhost"] == vh.Name {
				if event.Headers["name"] != fmt.Sprint(next) {
					t.Fatalf("%v came when %d was due", event.Headers["name"], next)
				}
				next++
			}
		}
		if next == 0 || next == made {
			t.Errorf("%d of %d events", next, made)
		}
	})
}
