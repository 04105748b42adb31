package safedelete

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
)

// A search takes sentinels out from behind other messages, and leaves those messages in the queue.
func TestSentinelsBehindMessages(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("q", quorum(nil))
		deleter, _ := deleterAt(t, vh)
		cluster, name := deleter.observer.State().Cluster.Key(), "warren-fence-1-ABCDEF::q"
		publish := func(numbers ...int) {
			err := deleter.sentinels.alone(t.Context(), cluster, len(numbers), func(p *publisher) error {
				_, err := p.publish("q", name, numbers...)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		vh.Publish("", "q", "1", "2", "3")
		publish(1)
		vh.Publish("", "q", "4", "5")
		publish(2)
		inside := &sentinelCounts{of: map[string]int{"q": 2}}
		lost := &search{Deleter: deleter, fence: fence.Fence{Name: name}, cluster: cluster, missing: inside.count}
		if _, err := lost.takeAll(t.Context(), "q", []string{"q"}, false); err != nil || inside.count("q", 0) != 0 {
			t.Errorf("%d missing: %v", inside.count("q", 0), err)
		}
		NewWithT(t).Eventually(vh.Ready).WithArguments("q").WithTimeout(within).Should(Equal(5))
	})
}

// A search looks into a dead-letter queue only if a sentinel may have expired. It holds a limited number of messages, so otherwise a
// fence would stay until a user empties the dead-letter queue.
func TestSentinelsThatMayHaveExpiredBehindManyDeadLetters(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	expiring := quorum(vhost.Arguments{
		vhost.ArgMessageTTL: time.Hour.Milliseconds(), vhost.ArgDeadLetterExchange: "", vhost.ArgDeadLetterRoutingKey: "dlq",
	})
	vh.DeclareQueue("q", expiring)
	vh.DeclareQueue("dlq", quorum(nil))
	vh.Publish("", "dlq", make([]string, holdLimit+1)...)
	deleter, api := deleterAt(t, vh)
	deleter.observer.Write(snapshot.Write{Apply: func(known *snapshot.Snapshot) bool {
		known.PutQueue("q", vhost.Queue{Arguments: expiring})
		return known.PutQueue("dlq", vhost.Queue{Arguments: quorum(nil)})
	}})
	now := time.Now()
	for _, test := range []struct {
		name string
		of   fence.Name
		want error
	}{
		{"a fence that is younger than the TTL", fence.Name{Owner: deleter.Owner, Begun: now.Add(-time.Hour + 2*time.Minute)}, nil},
		{"a fence that may be older, if clocks differ", fence.Name{Owner: deleter.Owner, Begun: now.Add(-time.Hour + 30*time.Second)}, brokererr.ErrUnproven},
		{"a young fence of another owner", fence.Name{Owner: "another", Begun: now}, brokererr.ErrUnproven},
	} {
		t.Run(test.name, func(t *testing.T) {
			fence := fence.Fence{Name: test.of.String("q"), Pattern: fence.Pattern([]string{"q"}), Queues: []string{"q"}}
			if err := api.PutPolicy(t.Context(), fence.Name, fence.Pattern, 0, fence.Open()); err != nil {
				t.Fatal(err)
			}
			deleter.deletions.search(fence.Name).without["q"] = now.Add(-maxArrival) // no sentinel is on its way any more
			left := leftover{policy: policyNamed(t, api, fence.Name), foreign: true, seen: unnoticed}
			err := recovery{deleter}.clearLeftover(t.Context(), deleter.observer.State().Cluster.Key(), left)
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// policyNamed returns a policy of the broker.
func policyNamed(t *testing.T, api *management.Client, name string) vhost.Policy {
	t.Helper()
	policies, err := api.Policies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return policies[slices.IndexFunc(policies, func(policy vhost.Policy) bool { return policy.Name == name })]
}

// proven returns a batch that deletes queue q, and has proven that q is empty.
func proven(t *testing.T, vh *brokers.VHost, deleter *Deleter, api *management.Client) *batch {
	t.Helper()
	vh.DeclareQueue("q", quorum(nil))
	d := newBatch(deleter, []*group{{ctx: t.Context(), cluster: deleter.observer.State().Cluster.Key(), queues: []string{"q"}}})
	planned, err := preflight{d}.plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.fences, d.deadline = planned, time.Now().Add(budget)
	if err := api.PutPolicy(t.Context(), planned[0].Name, planned[0].Pattern, planned[0].Priority, planned[0].Closed()); err != nil {
		t.Fatal(err)
	}
	if err := (proof{d}).proveAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// retains expects that a batch does not delete queue q, with ErrUnproven for this reason.
func retains(t *testing.T, vh *brokers.VHost, d *batch, why string) {
	t.Helper()
	if err := (removal{d}).delete(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.groups[0].err; !errors.Is(err, brokererr.ErrUnproven) || !strings.Contains(err.Error(), why) {
		t.Errorf("it ended with %v", err)
	}
	NewWithT(t).Eventually(vh.Ready).WithArguments("q").WithTimeout(within).Should(Equal(Sentinels))
}

// A deletion that was stopped for longer than its budget deletes nothing, because another process may have taken its fence down.
func TestADeletionThatWasStoppedForTooLong(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		deleter, api := deleterAt(t, vh)
		d := proven(t, vh, deleter, api)
		d.deadline = time.Now().Add(-time.Second)
		retains(t, vh, d, "missed its deadline")
	})
}

// The last count of messages is old when a slow broker gets the queue.delete, so the queue is retained.
func TestADeletionAtASlowBroker(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		proxy := netfault.NewSlowAMQP(t, vh.Broker.AMQPURI)
		deleter, api := deleterThrough(t, vh, proxy.URI)
		d := proven(t, vh, deleter, api)
		d.deadline = time.Now().Add(within)
		proxy.Pause(promptness[len(promptness)-1] + 50*time.Millisecond)
		retains(t, vh, d, "does not answer within 100ms")
	})
}

// arrive removes the fence of a batch, and publishes a message to queue q, which takes the message once the policy has no effect.
func arrive(t *testing.T, d *batch) {
	t.Helper()
	if err := d.deleter.api.DeletePolicy(t.Context(), d.fences[0].Name); err != nil {
		t.Fatal(err)
	}
	NewWithT(t).Eventually(func() (taken []bool, err error) {
		err = d.deleter.sentinels.alone(t.Context(), d.cluster, 1, func(p *publisher) error {
			taken, err = p.Publish("", "q", amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("a message")})
			return err
		})
		return taken, err
	}).WithTimeout(within).Should(Equal([]bool{true}))
}

// The fence may have been open while another client had the first sentinel. The queue is retained, although it holds as many messages as
// Warren published sentinels.
func TestADeletionWhoseFirstSentinelAnotherClientGot(t *testing.T) {
	t.Parallel()
	for name, settle := range map[string]func(*testing.T, *batch, amqp.Delivery) error{
		"and returned it": func(_ *testing.T, _ *batch, first amqp.Delivery) error { return first.Nack(false, true) },
		"and acknowledged it before a message arrived": func(t *testing.T, d *batch, first amqp.Delivery) error {
			arrive(t, d)
			return first.Ack(false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, vh *brokers.VHost) {
				deleter, api := deleterAt(t, vh)
				d := proven(t, vh, deleter, api)
				other, err := vh.Connect("another client")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = other.Close() }()
				channel, err := other.Channel()
				if err != nil {
					t.Fatal(err)
				}
				first, found, err := get(channel, "q")
				if err != nil || !found || numberOf(first) != 1 {
					t.Fatalf("sentinel %d, %t: %v", numberOf(first), found, err)
				}
				if err := errors.Join(settle(t, d, first), channel.Close()); err != nil {
					t.Fatal(err)
				}
				NewWithT(t).Eventually(func() []int { return []int{vh.Ready("q"), vh.CountedConsumers("q")} }).
					WithTimeout(within).Should(Equal([]int{Sentinels, 0}), "ready messages and consumers")
				d.deadline = time.Now().Add(within)
				retains(t, vh, d, "another client took one of Warren's sentinels")
			})
		})
	}
}

// The answer to a basic.get comes from the leader of the queue. The counts that are checked before it and after it may be old.
func TestTheFirstSentinelIsNotTakenOutBeforeAMessage(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		deleter, api := deleterAt(t, vh)
		d := proven(t, vh, deleter, api)
		arrive(t, d)
		var taken error
		_ = deleter.changer.DoExclusively(t.Context(), d.cluster, func(channel amqpconn.Exclusive) error {
			taken = removal{d}.takeFirst(t.Context(), channel.Channel, "q")
			return taken
		})
		if !errors.Is(taken, brokererr.ErrUnproven) || !strings.Contains(taken.Error(), "or messages arrived") {
			t.Errorf("it ended with %v", taken)
		}
	})
}
