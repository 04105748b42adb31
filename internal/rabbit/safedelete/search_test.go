package safedelete

import (
	"errors"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
)

// A search holds more than one message only if the queue certainly allows any number of deliveries.
func TestHowManyMessagesASearchHolds(t *testing.T) {
	t.Parallel()
	v42 := vhost.Version{Major: 4, Minor: 2, Patch: 9}
	limit := func(count int64) vhost.Arguments { return vhost.Arguments{vhost.ArgDeliveryLimit: count} }
	policy := func(queue string, operator bool) []vhost.Policy {
		return []vhost.Policy{{
			Pattern: vhost.ReadPattern("^" + queue + "$"), Operator: operator, Definition: vhost.Arguments{vhost.KeyDeliveryLimit: int64(9)},
		}}
	}
	for name, test := range map[string]struct {
		version   vhost.Version
		arguments vhost.Arguments // the queue is not known if nil

		policies, fences []vhost.Policy
		want             int
	}{
		"3.10, no limit":              {version: vhost.RabbitMQ310, arguments: vhost.Arguments{}, want: holdLimit},
		"3.10, an unknown queue":      {version: vhost.RabbitMQ310, want: 1},
		"3.10, a limit":               {version: vhost.RabbitMQ310, arguments: limit(5), want: 1},
		"3.10, a negative limit":      {version: vhost.RabbitMQ310, arguments: limit(-1), want: 1},
		"3.10, a policy":              {version: vhost.RabbitMQ310, arguments: vhost.Arguments{}, policies: policy("q", false), want: 1},
		"4.0, the default limit":      {version: vhost.RabbitMQ40, arguments: vhost.Arguments{}, want: 1},
		"4.0, unlimited":              {version: vhost.RabbitMQ40, arguments: limit(-1), want: holdLimit},
		"4.2, the default limit":      {version: v42, arguments: vhost.Arguments{}, want: 1},
		"4.2, an operator policy":     {version: v42, arguments: limit(-1), policies: policy("q", true), want: 1},
		"4.2, a policy of a fence":    {version: v42, arguments: limit(-1), fences: policy("q", false), want: 1},
		"4.2, a policy of others":     {version: v42, arguments: limit(-1), policies: policy("other", false), want: holdLimit},
		"4.3, where returns are free": {version: vhost.RabbitMQ43, arguments: limit(5), want: holdLimit},
		"a single active consumer":    {version: vhost.RabbitMQ43, arguments: vhost.Arguments{vhost.ArgSingleActiveConsumer: true}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker := &realBroker{known: snapshot.New(), state: State{Version: test.version}}
			broker.known.Policies, broker.known.Fences = test.policies, test.fences
			if test.arguments != nil {
				broker.known.PutQueue("q", vhost.Queue{Arguments: test.arguments})
			}
			if got := (&search{Deleter: &Deleter{observer: broker}}).maxHeld("q"); got != test.want {
				t.Errorf("it holds %d messages, want %d", got, test.want)
			}
		})
	}
}

// Sentinels may expire to a queue that was searched before. If returned messages lose deliveries, the queue is searched again only when
// no more sentinels can arrive.
func TestASearchIsRepeatedOnceNoSentinelCanArrive(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		tier := quorum(vhost.Arguments{
			vhost.ArgMessageTTL: int64(1000), vhost.ArgDeadLetterExchange: "", vhost.ArgDeadLetterRoutingKey: "orders",
		})
		vh.DeclareQueue("orders", quorum(nil))
		vh.DeclareQueue("tier", tier)
		vh.Publish("", "orders", "a message")
		deleter, api := deleterAt(t, vh)
		broker := deleter.observer.(*realBroker)
		broker.state.Version = vhost.RabbitMQ40
		broker.known.PutQueue("orders", vhost.Queue{Arguments: quorum(nil)})
		broker.known.PutQueue("tier", vhost.Queue{Arguments: tier})
		queues, name := []string{"tier", "orders"}, fence.Name{Owner: deleter.Owner, Begun: time.Now().Add(-time.Hour)}.String("tier")
		if err := api.PutPolicy(t.Context(), name, fence.Pattern(queues), 0, fence.Fence{}.Open()); err != nil {
			t.Fatal(err)
		}
		cluster, left := deleter.observer.State().Cluster.Key(), leftover{policy: policyNamed(t, api, name)}
		for range 3 {
			if err := (recovery{deleter}).clearLeftover(t.Context(), cluster, left); !errors.Is(err, brokererr.ErrUnproven) {
				t.Fatal(err)
			}
		}
		err := deleter.sentinels.alone(t.Context(), cluster, 1, func(p *publisher) error {
			_, err := p.publish("orders", name, 1)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		deleter.deletions.search(name).without["tier"] = time.Now().Add(-maxArrival)
		if err := (recovery{deleter}).clearLeftover(t.Context(), cluster, left); err != nil {
			t.Fatal(err)
		}

		connection, err := vh.Connect("consumer")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = connection.Close() }()
		channel, err := connection.Channel()
		if err != nil {
			t.Fatal(err)
		}
		message, found, err := get(channel, "orders")
		if err != nil || !found || string(message.Body) != "a message" {
			t.Fatalf("message %q, %t: %v", message.Body, found, err)
		}
		counted := message.Headers["x-delivery-count"]
		if acquired, given := message.Headers["x-acquired-count"]; given { // from 4.3 on, where returns are no deliveries
			counted = acquired
		}
		if counted != int64(2) {
			t.Errorf("it was returned %v times, want 2: %v", counted, message.Headers)
		}
		if now, _, err := deleter.held(t.Context(), cluster, "orders"); err != nil || now.Messages != 0 {
			t.Errorf("%d messages are left: %v", now.Messages, err)
		}
	})
}

// A sentinel of the tier was not answered, and its TTL is not over when the target is searched. The expired sentinel arrives later.
func TestATargetIsSearchedAgainAfterTheTTLOfATier(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		tier := func(ttl int64) vhost.Arguments {
			return quorum(vhost.Arguments{
				vhost.ArgMessageTTL: ttl, vhost.ArgDeadLetterExchange: "", vhost.ArgDeadLetterRoutingKey: "orders",
			})
		}
		vh.DeclareQueue("orders", quorum(nil))
		vh.DeclareQueue("tier", tier(1000))
		vh.Publish("", "orders", "a message")
		deleter, api := deleterAt(t, vh)
		broker := deleter.observer.(*realBroker)
		broker.state.Version = vhost.RabbitMQ40
		broker.known.PutQueue("orders", vhost.Queue{Arguments: quorum(nil)})
		broker.known.PutQueue("tier", vhost.Queue{Arguments: tier(time.Hour.Milliseconds())}) // not over yet
		queues, name := []string{"tier", "orders"}, fence.Name{Owner: deleter.Owner, Begun: time.Now()}.String("tier")
		if err := api.PutPolicy(t.Context(), name, fence.Pattern(queues), 0, fence.Fence{}.Open()); err != nil {
			t.Fatal(err)
		}
		cluster, left := deleter.observer.State().Cluster.Key(), leftover{policy: policyNamed(t, api, name)}
		clearFence := func() error { return (recovery{deleter}).clearLeftover(t.Context(), cluster, left) }
		deleter.deletions.recordUnanswered(name)
		if err := clearFence(); !errors.Is(err, brokererr.ErrUnproven) {
			t.Fatal(err)
		}
		deleter.deletions.unansweredAt[name] = time.Now().Add(-unnoticed)
		deleter.deletions.recordSearch(name, "orders") // after no unanswered sentinel could arrive
		err := deleter.sentinels.alone(t.Context(), cluster, 1, func(p *publisher) error {
			_, err := p.publish("orders", name, 1)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		broker.known.DropQueue("tier")
		broker.known.PutQueue("tier", vhost.Queue{Arguments: tier(1000)})
		deleter.deletions.search(name).without["tier"] = time.Now().Add(-maxArrival)
		if err := clearFence(); err != nil {
			t.Fatal(err)
		}
		if now, _, err := deleter.held(t.Context(), cluster, "orders"); err != nil || now.Messages != 1 {
			t.Errorf("queue orders holds %d messages, want 1 without the sentinel: %v", now.Messages, err)
		}
	})
}
