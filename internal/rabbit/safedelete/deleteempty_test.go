package safedelete_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
)

type emptiness struct {
	queues    []string // to delete; the case's name if empty
	arguments vhost.Arguments
	setup     func(*testing.T, *brokers.VHost)
	reason    error  // nil if the queues can be deleted
	says      string // the beginning of the error
	left      int    // ready messages
}

var emptinesses = map[string]emptiness{
	"plain":            {},
	"limited":          {arguments: vhost.Arguments{"x-max-length": int64(10)}},
	"single active":    {arguments: vhost.Arguments{"x-single-active-consumer": true}},
	"tier":             {arguments: vhost.Arguments{"x-message-ttl": int64(10000), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parking"}},
	rabbittest.Odd:     {},
	"gone":             {queues: []string{"gone 1", "gone 2"}},
	"policy":           {setup: policy("policy", "message-ttl", 60000)},
	"policy, length":   {setup: policy("policy, length", "max-length", 10)},
	"policy, overflow": {setup: policy("policy, overflow", "max-length", 10, "overflow", "reject-publish")},
	"policy, bytes":    {setup: policy("policy, bytes", "max-length-bytes", 100000, "overflow", "drop-head")},
	"policy, classic":  {setup: policy("policy, classic", "queue-mode", "lazy")}, // RabbitMQ applies it to no quorum queue
	"policy, fraction": {setup: prioritized("policy, fraction", 1000.5)},
	"operator's, overflow": {
		setup:  operatorPolicy("operator's, overflow", "overflow", "drop-head"),
		reason: brokererr.ErrUnprovable,
		says:   `not proven empty: queue "operator's, overflow": operator policy "operator's, overflow" overrides the fence: it sets overflow drop-head`,
	},
	"operator's, length": {setup: operatorPolicy("operator's, length", "max-length", 10)},
	"policy, highest": {
		setup:  prioritized("policy, highest", 1e300),
		reason: brokererr.ErrUnprovable,
		says:   `not proven empty: queue "policy, highest": policy "policy, highest" overrides the fence: its priority is 1e+300`,
	},
	"ready": {
		setup:  func(_ *testing.T, v *brokers.VHost) { v.Publish("", "ready", "1", "2", "3") },
		reason: brokererr.ErrNotEmpty, says: `not empty: queue "ready" holds 3 messages`, left: 3,
	},
	"consumed": {
		setup: func(t *testing.T, v *brokers.VHost) {
			rabbittest.Holding(t, v, func(ch *amqp.Channel) error {
				_, err := ch.Consume("consumed", "", false, false, false, false, nil)
				return err
			})
		},
		reason: brokererr.ErrNotEmpty, says: `not empty: queue "consumed" has 1 consumer`,
	},
	"unacknowledged": {
		setup: func(t *testing.T, v *brokers.VHost) {
			v.Publish("", "unacknowledged", "1", "2")
			rabbittest.Holding(t, v, func(ch *amqp.Channel) error {
				_, _, err := ch.Get("unacknowledged", false)
				if err == nil {
					_, _, err = ch.Get("unacknowledged", false)
				}
				return err
			})
		},
		// RabbitMQ counts each channel that holds a message as a consumer.
		reason: brokererr.ErrNotEmpty, says: `not empty: queue "unacknowledged" has 2 consumers`,
	},
	"cancelled": {
		setup: func(t *testing.T, v *brokers.VHost) {
			v.Publish("", "cancelled", "1", "2")
			rabbittest.Holding(t, v, func(ch *amqp.Channel) error {
				messages, err := ch.Consume("cancelled", "tag", false, false, false, false, nil)
				if err != nil {
					return err
				}
				_, _ = <-messages, <-messages
				return ch.Cancel("tag", false)
			})
		},
		reason: brokererr.ErrNotEmpty, says: `not empty: queue "cancelled" has 1 consumer`,
	},
	"tier that holds": {
		arguments: vhost.Arguments{"x-message-ttl": int64(600000), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parking"},
		setup:     func(_ *testing.T, v *brokers.VHost) { v.Publish("", "tier that holds", "1") },
		reason:    brokererr.ErrNotEmpty, says: `not empty: queue "tier that holds" holds 1 message`, left: 1,
	},
	"pending": {
		arguments: vhost.Arguments{
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "nowhere", "x-dead-letter-strategy": "at-least-once",
			"x-overflow": "reject-publish",
		},
		setup:  func(t *testing.T, v *brokers.VHost) { putAside(t, v, "pending", false) },
		reason: brokererr.ErrNotEmpty, says: `not empty: queue "pending" holds messages that wait to be dead-lettered`,
	},
	"delayed": { // RabbitMQ 4.3 delays the message; in older versions it is ready immediately
		arguments: vhost.Arguments{
			"x-delayed-retry-type": "all", "x-delayed-retry-min": int64(600000), "x-delayed-retry-max": int64(600000),
		},
		setup:  func(t *testing.T, v *brokers.VHost) { putAside(t, v, "delayed", true) },
		reason: brokererr.ErrNotEmpty, says: `not empty: queue "delayed" holds `,
	},
	"short of bytes": {
		arguments: vhost.Arguments{"x-max-length-bytes": int64(100)},
		reason:    brokererr.ErrUnprovable,
		says:      `not proven empty: queue "short of bytes" accepts at most 100 bytes; Warren needs 4096 to show that it is empty`,
	},
	"classic": {
		arguments: vhost.Arguments{"x-queue-type": "classic"},
		reason:    brokererr.ErrUnprovable, says: `not proven empty: queue "classic" is of type classic; only quorum queues can be shown to be empty`,
	},
	"short of time": {
		arguments: vhost.Arguments{"x-message-ttl": int64(999)},
		reason:    brokererr.ErrUnprovable,
		says:      `not proven empty: queue "short of time" keeps messages for 999 ms; that is too short to show that it is empty`,
	},
	"short of room": {
		arguments: vhost.Arguments{"x-max-length": int64(1)},
		reason:    brokererr.ErrUnprovable,
		says:      `not proven empty: queue "short of room" accepts at most 1 messages; Warren needs 2 to show that it is empty`,
	},
	"all or nothing": {
		queues: []string{"first", "all or nothing", "last"},
		setup:  func(_ *testing.T, v *brokers.VHost) { v.Publish("", "last", "1") },
		reason: brokererr.ErrNotEmpty, says: `not empty: queue "last" holds 1 message`,
	},
	"fenced by another": {
		setup: func(_ *testing.T, v *brokers.VHost) {
			v.SetPolicy(foreignFence, brokers.Policy{
				Pattern: fence.Pattern([]string{"fenced by another"}), ApplyTo: "queues", Definition: map[string]any{"max-length": fence.Boundless},
			})
		},
		reason: brokererr.ErrUnproven,
		says:   `not proven empty: queue "fenced by another": policy "` + foreignFence + `" of another deletion still exists`,
	},
}

// foreignFence has a time in the future.
const foreignFence = "warren-fence-99999999999-ABCDEF:another:fenced"

func policy(queue string, definition ...any) func(*testing.T, *brokers.VHost) {
	return func(_ *testing.T, v *brokers.VHost) { v.SetPolicy(queue, onlyFor(queue, definition)) }
}

func prioritized(queue string, priority float64) func(*testing.T, *brokers.VHost) {
	return func(_ *testing.T, v *brokers.VHost) {
		p := onlyFor(queue, []any{"max-length", 10})
		p.Priority = priority
		v.SetPolicy(queue, p)
	}
}

func operatorPolicy(queue string, definition ...any) func(*testing.T, *brokers.VHost) {
	return func(_ *testing.T, v *brokers.VHost) { v.SetOperatorPolicy(queue, onlyFor(queue, definition)) }
}

func onlyFor(queue string, definition []any) brokers.Policy {
	p := brokers.Policy{Pattern: "^" + queue + "$", ApplyTo: "queues", Priority: 5, Definition: map[string]any{}}
	for i := 0; i < len(definition); i += 2 {
		p.Definition[definition[i].(string)] = definition[i+1]
	}
	return p
}

// All cases share a vhost, and wait in parallel. Retained queues are unchanged, and no fence or sentinel of ours is left.
func TestDeleteEmpty(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("parking", rabbittest.Quorum(nil))
		for name, test := range emptinesses {
			for _, queue := range test.names(name) {
				if !strings.HasPrefix(queue, "gone") {
					vh.DeclareQueue(queue, rabbittest.Quorum(test.arguments))
				}
			}
			if test.setup != nil {
				test.setup(t, vh)
			}
		}
		steadfast := rabbittest.Unpaced()
		steadfast.Leftover = time.Hour // the fence of the other instance must stay until the test ends
		connection := rabbittest.ConnectedWith(t, rabbittest.ConfigOf(vh), steadfast)
		before := everything(t, vh, connection)
		results := deleteAll(t, connection)
		after := everything(t, vh, connection)
		for name, test := range emptinesses {
			err := results[name]
			for _, queue := range test.names(name) {
				if test.reason == nil {
					delete(before.Queues, queue)
				} else if ready, exists := after.Queues[queue]; !exists || test.left != 0 && ready != test.left {
					t.Errorf("%s: queue %q exists %t and holds %d messages", name, queue, exists, ready)
				}
			}
			if test.reason == nil {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if rabbittest.MustBe(t, err, test.reason); !strings.HasPrefix(err.Error(), test.says) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if difference := cmp.Diff(before, after); difference != "" {
			t.Errorf("before (-), after (+):\n%s", difference)
		}
		rabbittest.MustAgree(t, connection)
	})
}

func (e emptiness) names(name string) []string {
	if len(e.queues) > 0 {
		return e.queues
	}
	return []string{name}
}

func deleteAll(t *testing.T, connection *rabbittest.Connection) map[string]error {
	t.Helper()
	results := map[string]error{}
	var mu sync.Mutex
	var together sync.WaitGroup
	for name, test := range emptinesses {
		together.Go(func() {
			err := deleteNow(t.Context(), connection, test.names(name)...)
			mu.Lock()
			defer mu.Unlock()
			results[name] = err
		})
	}
	together.Wait()
	return results
}

// all contains the objects of a vhost, with the number of ready messages.
type all struct {
	Queues   map[string]int
	Policies []vhost.Policy
	Bindings []brokers.Binding
}

func everything(t *testing.T, vh *brokers.VHost, connection *rabbittest.Connection) all {
	t.Helper()
	definitions := vh.Definitions()
	is := all{Queues: map[string]int{}, Bindings: definitions.Bindings}
	for _, queue := range definitions.Queues {
		is.Queues[queue.Name] = vh.Ready(queue.Name)
	}
	policies, err := connection.API.Policies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	is.Policies = policies
	return is
}

func TestDeleteEmptyRefusesBeforeItTouchesAnything(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("q", rabbittest.Quorum(nil))
		user := vh.Broker.NewUser(t, "management")
		vh.Grant(user, ".*", ".*", ".*")
		config := rabbittest.ConfigOf(vh)
		config.Username, config.Password = user.Username, user.Password
		lesser := rabbittest.Connected(t, config, nil)
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		cluster := connection.Health().Cluster.Key()
		rabbittest.MustBe(t, lesser.DeleteEmpty(t.Context(), cluster, []string{"q"}, nil), brokererr.ErrAccessRefused, user.Username, "lacks the tag policymaker")
		rabbittest.MustBe(t, connection.DeleteEmpty(t.Context(), vhost.Cluster{Name: "rabbit@elsewhere"}.Key(), []string{"q"}, nil), brokererr.ErrOtherCluster)
		rabbittest.MustBe(t, connection.DeleteEmpty(t.Context(), "", []string{"q"}, nil), brokererr.ErrOtherCluster)
		rabbittest.MustBe(t, connection.DeleteEmpty(t.Context(), cluster, []string{"q", ""}, nil), brokererr.ErrPreconditionFailed)
		if err := connection.DeleteEmpty(t.Context(), cluster, nil, nil); err != nil {
			t.Error(err)
		}
		if queues := vh.Definitions().Queues; len(queues) != 1 {
			t.Errorf("%+v", queues)
		}
		connection.Close()
		rabbittest.MustBe(t, connection.DeleteEmpty(t.Context(), cluster, []string{"q"}, nil), brokererr.ErrClosed)
	})
}

// DeleteEmpty asks the caller again immediately before it sets the fence. An error of the caller ends the call, and nothing was changed.
func TestDeleteEmptyAsksWhetherItIsStillDeletable(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("q", rabbittest.Quorum(nil))
		config := rabbittest.ConfigOf(vh)
		connection := rabbittest.Connected(t, config, nil)
		changed := errors.New("something dead-letters to the queue now")
		asked := 0
		err := connection.DeleteEmpty(t.Context(), connection.Health().Cluster.Key(), []string{"q"}, func(context.Context) error {
			asked++
			return changed
		})
		if !errors.Is(err, changed) || asked != 1 {
			t.Errorf("asked %d times: %v", asked, err)
		}
		rabbittest.Holds(t, vh, "q", 0)
		if policies := vh.Policies(); len(policies) != 0 {
			t.Errorf("policies %q", policies)
		}
	})
}

// deleteNow is DeleteEmpty on the cluster that the connection leads to, repeated while the broker is too slow for the proof.
func deleteNow(ctx context.Context, c *rabbittest.Connection, queues ...string) error {
	once := func() error { return c.DeleteEmpty(ctx, c.Health().Cluster.Key(), queues, nil) }
	return untilAnswered(once(), once)
}
