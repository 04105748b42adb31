package observe_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
)

func TestObservesTheSameThroughDefinitionsAndListings(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		rabbittest.Fill(vh)
		lesser := vh.Broker.NewUser(t, "management")
		vh.Grant(lesser, "", "", "")
		config := rabbittest.ConfigOf(vh)
		administrator := rabbittest.Connected(t, config, nil)
		config.Username, config.Password = lesser.Username, lesser.Password
		other := rabbittest.Connected(t, config, nil)

		definitions, listings := rabbittest.Seen(t, administrator), rabbittest.Seen(t, other)
		if whole, part := vhost.ClusterOf(definitions.Cluster), vhost.ClusterOf(listings.Cluster); whole.ID == "" || part.ID != "" || !part.Is(whole) {
			t.Errorf("only the administrator should know the cluster's ID: %+v, %+v", whole, part)
		}
		listings.Cluster = definitions.Cluster
		if !administrator.Health().Capabilities.Definitions || other.Health().Capabilities.Definitions {
			t.Error("the administrator should read definitions, the other should not")
		}
		if difference := cmp.Diff(definitions, listings, rabbittest.SnapshotOptions); difference != "" {
			t.Errorf("definitions (-) and listings (+) differ:\n%s", difference)
		}
	})
}

func TestObservesExistingObjects(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		rabbittest.Fill(vh)
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		observed, _ := connection.Observe(vhost.Selection{
			Exchanges: []string{rabbittest.Odd, "amq.headers", "missing"}, Queues: []string{rabbittest.Odd, "classic", "missing"}, FollowFrom: "source",
		})
		toOdd := []vhost.Binding{
			{Source: rabbittest.Odd, Destination: rabbittest.Odd, Arguments: vhost.Arguments{"x-match": "any", "number": int64(8)}},
			{Source: rabbittest.Odd, Destination: rabbittest.Odd, Arguments: vhost.Arguments{
				"x-match": "all", "number": int64(7), "negative": int64(-7), "truth": true, "fraction": 1.5, "text": "ü",
				"table": map[string]any{"inner": map[string]any{"list": []any{int64(1), "two", map[string]any{"three": false}}}},
			}},
			{Source: "onward", Destination: rabbittest.Odd},
		}
		fromSource := []vhost.Binding{
			{Source: "source", Destination: "classic", RoutingKey: "a.*"},
			{Source: "source", Destination: "classic", RoutingKey: "b.*"},
			{Source: "source", Destination: "onward", RoutingKey: "#", ToExchange: true},
		}
		slices.SortFunc(toOdd, snapshot.CompareBindings)
		want := vhost.Observed{
			Exchanges: map[string]vhost.Exchange{
				rabbittest.Odd: {Type: "headers", Durable: true},
				"amq.headers":  {Type: "headers", Durable: true},
				"source":       {Type: "topic", Durable: true},
				"onward":       {Type: "fanout", Durable: true, Arguments: vhost.Arguments{"alternate-exchange": "source"}},
			},
			Queues: map[string]vhost.Queue{
				rabbittest.Odd: {Durable: true, Arguments: vhost.Arguments{
					"x-queue-type": "quorum", "x-message-ttl": int64(60000), "x-single-active-consumer": true, "x-dead-letter-exchange": "",
				}},
				"classic": {Durable: true, Arguments: vhost.Arguments{"x-queue-type": "classic"}},
			},
			BindingsTo: map[string][]vhost.Binding{
				rabbittest.Odd: toOdd,
				"classic": {
					{Source: "amq.topic", Destination: "classic", RoutingKey: "c"}, fromSource[0], fromSource[1],
				},
			},
			BindingsFrom: map[string][]vhost.Binding{
				"source": fromSource, "onward": {{Source: "onward", Destination: rabbittest.Odd}},
			},
			Alternates: map[string][]string{"source": nil, "onward": {"source"}},
			Cluster:    connection.Health().Cluster.Key(),
			Policies: []vhost.Policy{
				{
					Name: "limits", Pattern: vhost.ReadPattern("^gr.ße"), ApplyTo: "queues", Priority: 3,
					Definition: vhost.Arguments{"max-length": int64(10), "overflow": "reject-publish"},
				},
				{
					Name: "ceiling", Pattern: vhost.ReadPattern(".*"), ApplyTo: "queues", Operator: true,
					Definition: vhost.Arguments{"message-ttl": int64(3600000)},
				},
			},
		}
		if difference := cmp.Diff(want, observed); difference != "" {
			t.Errorf("wanted (-), observed (+):\n%s", difference)
		}
	})
}

// Definitions contain transient queues, but no exclusive queues. Listings contain both.
func TestObservesTransientQueuesAlways(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		lesser := vh.Broker.NewUser(t, "management")
		vh.Grant(lesser, ".*", ".*", ".*")
		config := rabbittest.ConfigOf(vh)
		administrator := rabbittest.Connected(t, config, nil)
		config.Username, config.Password = lesser.Username, lesser.Password
		other := rabbittest.Connected(t, config, nil)
		err := administrator.Channels.Do(t.Context(), func(channel *amqp.Channel) error {
			if _, err := channel.QueueDeclare("exclusive", false, false, true, false, nil); err != nil {
				return err
			}
			_, err := channel.QueueDeclare("fleeting", true, true, false, false, nil)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		definitions, listings := rabbittest.Seen(t, administrator), rabbittest.Seen(t, other)
		want := vhost.Queue{Durable: true, AutoDelete: true, Arguments: vhost.Arguments{"x-queue-type": "classic"}}
		for name, s := range map[string]*snapshot.Snapshot{"definitions": definitions, "listings": listings} {
			if difference := cmp.Diff(want, s.Queues["fleeting"]); difference != "" {
				t.Errorf("%s, wanted (-), observed (+):\n%s", name, difference)
			}
		}
		if _, listed := definitions.Queues["exclusive"]; listed {
			t.Error("definitions have an exclusive queue")
		}
		if !listings.Queues["exclusive"].Exclusive {
			t.Errorf("listings have %+v for the exclusive queue", listings.Queues["exclusive"])
		}
		lock := other.Apply(t.Context(), topology.Topology{Queues: []topology.Queue{{Name: "exclusive"}}})
		rabbittest.MustBe(t, lock, brokererr.ErrResourceLocked, `declare queue "exclusive"`)
	})
}
