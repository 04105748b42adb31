package safedelete_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/crashpoint"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/rabbittest"
)

var steps = []string{safedelete.StepFenced, safedelete.StepProven, safedelete.StepSettled}

// A deletion that is stopped leaves no fence and no sentinel.
func TestStoppedDeletions(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		user := vh.Broker.NewUser(t, "policymaker")
		vh.Grant(user, ".*", ".*", ".*")
		for _, step := range steps {
			for _, how := range []string{"by its context", "by Close"} {
				queue := step + " " + how
				vh.DeclareQueue(queue, rabbittest.Quorum(nil))
				config := rabbittest.ConfigOf(vh)
				config.Username, config.Password = user.Username, user.Password
				connection := rabbittest.Connected(t, config, nil)
				ctx, cancel := context.WithCancel(t.Context())
				closed := make(chan struct{})
				connection.Deleter.Crash = func(now string) bool {
					switch {
					case now != step:
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
				err := deleteNow(ctx, connection, queue)
				if err == nil {
					t.Errorf("%s: deleted", queue)
				}
				if how == "by Close" {
					<-closed
				}
				cancel()
				rabbittest.Holds(t, vh, queue, 0)
				vh.Publish("", queue, "goes on")
			}
		}
		mustBeClean(t, vh)
	})
}

// A crash leaves a fence and sentinels. The next connection of the same owner removes them, and publishers that were refused can continue.
func TestStraysAreRemoved(t *testing.T) {
	deadline.InTestAll(t)
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		user := vh.Broker.NewUser(t, "policymaker")
		vh.Grant(user, ".*", ".*", ".*")
		for _, name := range []string{"guest", user.Username} {
			var queues []string
			publishers := map[string]*burster{}
			for _, step := range append(slices.Clone(steps), safedelete.StepOpened) {
				queue := name + " " + step
				queues = append(queues, queue)
				vh.DeclareQueue(queue, rabbittest.Quorum(vhost.Arguments{"x-single-active-consumer": step == safedelete.StepSettled}))
				publishers[queue] = newBurster(t, vh, queue)
				config := rabbittest.ConfigOf(vh)
				config.Owner = "owner of " + queue
				abandon(t, config, step, queue)
				publishers[queue].burst(t.Context(), "held up or not", 1)
			}
			for _, queue := range queues {
				config := rabbittest.ConfigOf(vh)
				if config.Owner = "owner of " + queue; name != "guest" {
					config.Username, config.Password = user.Username, user.Password
				}
				connection := rabbittest.ConnectedWith(t, config, impatient(100*time.Millisecond))
				observed, _ := connection.Observe(vhost.Selection{Queues: []string{queue}})
				if len(observed.Policies) != 0 {
					t.Errorf("a fence passes for a policy: %+v", observed.Policies)
				}
				NewWithT(t).Eventually(func(g Gomega) {
					policies, err := connection.API.Policies(t.Context())
					g.Expect(err).NotTo(HaveOccurred())
					left := func(p vhost.Policy) bool { return strings.HasSuffix(p.Name, ":"+queue) }
					g.Expect(slices.ContainsFunc(policies, left)).To(BeFalse())
				}).WithTimeout(rabbittest.Within).WithPolling(10 * time.Millisecond).Should(Succeed())
				if found := bodies(t, vh, queue); slices.ContainsFunc(found, func(m amqp.Delivery) bool { return m.Type == safedelete.SentinelType }) {
					t.Errorf("%s: sentinels are left", queue)
				}
				if publishers[queue].untilConfirmed(t.Context(), queue) == nil {
					t.Errorf("%s: the publisher cannot go on", queue)
				}
			}
		}
		mustBeClean(t, vh)
	})
}

// bodies removes all messages from a queue, and returns them.
func bodies(t *testing.T, vh *brokers.VHost, queue string) (found []amqp.Delivery) {
	t.Helper()
	h := &hammer{t: t, vh: vh, queue: queue, consumer: dialed(t, vh)}
	h.drain(func(message amqp.Delivery) bool {
		found = append(found, message)
		return true
	}, queue)
	return found
}

// A fence that another process changes stays, whatever time its name contains, because clocks differ. A fence that no process changes for
// longer than a deletion takes is removed, whatever its owner.
func TestFencesOfOtherProcesses(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		put := func(name string, length int64) {
			vh.SetPolicy(name, brokers.Policy{
				Pattern: fence.Pattern([]string{name}), ApplyTo: "queues",
				Definition: map[string]any{"max-length": length, "overflow": "reject-publish"},
			})
		}
		own := fence.Name{Owner: "mine", Begun: time.Now()}.String("own")
		live := fence.Name{Owner: "other", Begun: time.Now().Add(-time.Hour)}.String("live")
		dead := fence.Name{Owner: "another", Begun: time.Now().Add(time.Hour)}.String("dead")
		put(own, 0)
		put(live, 0)
		put(dead, 0)
		config := rabbittest.ConfigOf(vh)
		config.Owner = "mine"
		patient := rabbittest.Unpaced()
		patient.Leftover = 2 * time.Second
		connection := rabbittest.ConnectedWith(t, config, patient)
		g := NewWithT(t)
		g.Eventually(vh.Policies).WithTimeout(rabbittest.Within).WithPolling(10*time.Millisecond).
			Should(ConsistOf(live, dead), "what a process of the same owner left behind is taken down immediately")
		length := int64(0)
		g.Eventually(func() []string {
			length++
			put(live, length)
			g.Expect(connection.Refresh(t.Context())).To(Succeed())
			return vh.Policies()
		}).WithTimeout(rabbittest.Within).WithPolling(100 * time.Millisecond).Should(Equal([]string{live}))
		g.Eventually(vh.Policies).WithTimeout(rabbittest.Within).WithPolling(100 * time.Millisecond).Should(BeEmpty())
	})
}

// A BrokerConnection was deleted while a queue was recreated. Its fence would refuse messages, and prevent removals, forever. A fence
// of a BrokerConnection that exists, or of an instance that is connected, stays: the recreation continues behind it.
func TestFencesOfOtherRecreations(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	put := func(owner string) string {
		name := fence.Name{Owner: owner, Begun: time.Now(), Recreation: true}.String("orders")
		vh.SetPolicy(name, brokers.Policy{
			Pattern: fence.Pattern([]string{name}), ApplyTo: "queues",
			Definition: map[string]any{"max-length": 0, "overflow": "reject-publish"},
		})
		return name
	}
	config := rabbittest.ConfigOf(vh)
	config.Owner, config.KnownOwners = "mine", rabbittest.Knowing("known")
	times := rabbittest.Unpaced()
	times.Leftover, times.Vanish = time.Second, time.Second
	connection := rabbittest.ConnectedWith(t, config, times)
	other := rabbittest.ConfigOf(vh)
	other.Owner = "connected"
	connected := rabbittest.Connected(t, other, nil)
	g := NewWithT(t)
	seen := func() string {
		g.Expect(connection.Refresh(t.Context())).To(Succeed())
		return connection.Health().OtherInstances
	}
	g.Eventually(seen).WithTimeout(rabbittest.Within).Should(Equal("connected"), "the management API lists connections late")
	mine, known, live := put("mine"), put("known"), put("connected")
	put("gone")
	left := func() []string {
		g.Expect(connection.Refresh(t.Context())).To(Succeed())
		return vh.Policies()
	}
	g.Eventually(left).WithTimeout(rabbittest.Within).WithPolling(100 * time.Millisecond).Should(ConsistOf(mine, known, live))
	connected.Close()
	g.Eventually(left).WithTimeout(rabbittest.Within).WithPolling(100 * time.Millisecond).Should(ConsistOf(mine, known))
	g.Eventually(seen).WithTimeout(rabbittest.Within).Should(BeEmpty(), "removals are possible again")
}

// The status was lost, or the ConsumerQueue was deleted or moved to another vhost.
func TestTheFenceOfARecreationThatNothingContinues(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	put := func(queue string) string {
		name := fence.Name{Owner: "mine", Begun: time.Now(), Recreation: true}.String(queue)
		vh.DeclareQueue(queue, rabbittest.Quorum(nil))
		vh.SetPolicy(name, brokers.Policy{
			Pattern: fence.Pattern([]string{queue}), ApplyTo: "queues",
			Definition: map[string]any{"max-length": 0, "overflow": "reject-publish"},
		})
		return name
	}
	config := rabbittest.ConfigOf(vh)
	config.Owner, config.KnownOwners = "mine", rabbittest.Knowing("mine")
	var continues atomic.Bool
	continues.Store(true)
	config.Recreates = func(queue string) bool { return queue == "orders" && continues.Load() }
	times := rabbittest.Unpaced()
	times.Leftover, times.Vanish = time.Second, time.Second
	connection := rabbittest.ConnectedWith(t, config, times)
	orders := put("orders")
	put("invoices")
	left := func(g Gomega) []string {
		g.Expect(connection.Refresh(t.Context())).To(Succeed())
		return vh.Policies()
	}
	g := NewWithT(t)
	g.Eventually(left).WithTimeout(rabbittest.Within).WithPolling(100 * time.Millisecond).Should(ConsistOf(orders))
	continues.Store(false)
	g.Eventually(left).WithTimeout(rabbittest.Within).WithPolling(100 * time.Millisecond).Should(BeEmpty())
	rabbittest.Holds(t, vh, "invoices", 0)
}

// A sentinel that was left in a tier expires to the queue that the tier dead-letters to.
func TestSentinelsThatExpired(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareExchange("return", "direct", nil)
		vh.DeclareExchange("onward", "fanout", nil)
		vh.BindExchange("return", "onward", "k", nil)
		ways := map[string]vhost.Arguments{
			"by name":      {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "by name target"},
			"by exchanges": {"x-dead-letter-exchange": "return", "x-dead-letter-routing-key": "k"},
		}
		for name, arguments := range ways {
			tier := maps.Clone(arguments)
			tier["x-message-ttl"] = int64(5000)
			vh.DeclareQueue(name, rabbittest.Quorum(tier))
			vh.DeclareQueue(name+" target", rabbittest.Quorum(nil))
		}
		vh.Bind("onward", "by exchanges target", "", nil)
		config := rabbittest.ConfigOf(vh)
		config.Owner = "mine"
		abandon(t, config, safedelete.StepSettled, slices.Sorted(maps.Keys(ways))...)
		for name := range ways {
			NewWithT(t).Eventually(func() int { return vh.Ready(name + " target") }).
				WithTimeout(rabbittest.Within).WithPolling(100*time.Millisecond).Should(BeNumerically(">=", safedelete.Sentinels), "more where one had expired too early")
		}
		rabbittest.ConnectedWith(t, config, impatient(100*time.Millisecond))
		for name := range ways {
			NewWithT(t).Eventually(func() int { return vh.Ready(name + " target") }).
				WithTimeout(rabbittest.Within).WithPolling(100 * time.Millisecond).Should(Equal(0))
		}
		NewWithT(t).Eventually(func() int {
			policies, _ := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil).API.Policies(t.Context())
			return len(policies)
		}).WithTimeout(rabbittest.Within).WithPolling(100 * time.Millisecond).Should(Equal(0))
	})
}

// A deletion does not treat sentinels of a crash as messages: it fails until they are removed.
func TestDeletionWaitsForLeftSentinels(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", rabbittest.Quorum(nil))
		first := rabbittest.ConfigOf(vh)
		first.Owner = "first"
		abandon(t, first, safedelete.StepSettled, "orders")
		other := rabbittest.ConfigOf(vh)
		other.Owner = "other"
		beside := rabbittest.Connected(t, other, nil)
		err := beside.DeleteEmpty(t.Context(), beside.Health().Cluster.Key(), []string{"orders"}, nil)
		if !errors.Is(err, brokererr.ErrUnproven) || !strings.Contains(err.Error(), "of another deletion still exists") {
			t.Errorf("beside another's fence: %v", err)
		}
		again := rabbittest.ConnectedWith(t, first, impatient(100*time.Millisecond))
		NewWithT(t).Eventually(func() error { return deleteNow(t.Context(), again, "orders") }).WithTimeout(rabbittest.Within).Should(Succeed())
		mustBeClean(t, vh)
	})
}

// The broker may not have noticed that a process was killed, and keep a sentinel unacknowledged. The sentinel returns to the queue later.
func TestASentinelThatIsHeldIsNotForgotten(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", rabbittest.Quorum(nil))
		config := rabbittest.ConfigOf(vh)
		config.Owner = "owner"
		abandon(t, config, safedelete.StepSettled, "orders")
		dead, err := vh.Connect("a process that is gone")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = dead.Close() }()
		channel, err := dead.Channel()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok, err := channel.Get("orders", false); err != nil || !ok {
			t.Fatal(ok, err)
		}
		connection := rabbittest.ConnectedWith(t, config, impatient(100*time.Millisecond))
		g := NewWithT(t)
		fences := func() []vhost.Policy {
			policies, err := connection.API.Policies(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			return policies
		}
		opened := ConsistOf(HaveField("Definition", HaveKeyWithValue(vhost.KeyMaxLength, fence.Boundless)))
		g.Eventually(fences).WithTimeout(rabbittest.Within).Should(opened)
		g.Consistently(func() []vhost.Policy {
			g.Expect(connection.Refresh(t.Context())).To(Succeed())
			return fences()
		}).WithTimeout(2*time.Second).WithPolling(100*time.Millisecond).Should(opened, "the record of the sentinels")
		vh.Publish("", "orders", "goes on")
		if err := deleteNow(t.Context(), connection, "orders"); !errors.Is(err, brokererr.ErrPending) {
			t.Errorf("a deletion meanwhile: %v", err)
		}

		if err := dead.Close(); err != nil {
			t.Fatal(err)
		}
		g.Eventually(func() []string {
			g.Expect(connection.Refresh(t.Context())).To(Succeed())
			return vh.Policies()
		}).WithTimeout(rabbittest.Within).WithPolling(100 * time.Millisecond).Should(BeEmpty())
		g.Eventually(vh.Ready).WithArguments("orders").WithTimeout(rabbittest.Within).Should(Equal(1), "what was published, and no sentinel")
	})
}

// A delete can outlive the process that sent it. A channel that deletes a queue holds a sentinel of that queue, so a successor does
// not open the fence while a sentinel is held.
func TestAFenceStaysClosedWhileADeleteMayBeRunning(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		for queue, arguments := range map[string]vhost.Arguments{"orders": nil, "single": {"x-single-active-consumer": true}} {
			vh.DeclareQueue(queue, rabbittest.Quorum(arguments))
			config := rabbittest.ConfigOf(vh)
			config.Owner = "owner of " + queue
			abandon(t, config, safedelete.StepSettled, queue)
			deleting, err := dialed(t, vh).Channel()
			if err != nil {
				t.Fatal(err)
			}
			if err := deleting.Qos(1, 0, false); err != nil {
				t.Fatal(err)
			}
			messages, err := deleting.Consume(queue, "", false, false, false, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			<-messages

			connection := rabbittest.ConnectedWith(t, config, impatient(time.Hour))
			publisher := newBurster(t, vh, queue)
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				if err := connection.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
				if confirmed := publisher.burst(t.Context(), "beside the delete", 1); len(confirmed) > 0 {
					t.Fatalf("%s: accepted %v, which the delete would delete", queue, confirmed)
				}
			}
			if deleted, err := deleting.QueueDelete(queue, false, false, false); err != nil || deleted >= safedelete.Sentinels {
				t.Errorf("%s: the delete deleted %d messages: %v", queue, deleted, err)
			}
			NewWithT(t).Eventually(func() []string {
				_ = connection.Refresh(t.Context())
				return vh.Policies()
			}).WithTimeout(rabbittest.Within).WithPolling(100 * time.Millisecond).Should(BeEmpty())
			connection.Close() // it would take down the fence of the next owner
		}
	})
}

// A crash before the sentinels were published leaves an empty queue, which no delete can be removing.
func TestAFenceWithoutSentinelsIsOpenedSoon(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		for queue, arguments := range map[string]vhost.Arguments{"orders": nil, "single": {"x-single-active-consumer": true}} {
			vh.DeclareQueue(queue, rabbittest.Quorum(arguments))
			config := rabbittest.ConfigOf(vh)
			config.Owner = "owner of " + queue
			abandon(t, config, safedelete.StepFenced, queue)
			connection := rabbittest.ConnectedWith(t, config, impatient(time.Hour))
			NewWithT(t).Eventually(func() []string {
				_ = connection.Refresh(t.Context())
				return vh.Policies()
			}).WithTimeout(deadline.For(10*time.Second)).WithPolling(100*time.Millisecond).Should(BeEmpty(), queue)
			connection.Close()
		}
	})
}

// A sentinel that expires to a queue behind a fence arrives minutes later. Until then, the fence stays in its harmless form as its record.
// The sentinels must not expire before the deletion is abandoned, also on a busy machine.
func TestASentinelOnItsWayIsNotForgotten(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", rabbittest.Quorum(nil))
		vh.DeclareQueue("tier", rabbittest.Quorum(vhost.Arguments{
			"x-message-ttl": 10_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders",
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		}))
		config := rabbittest.ConfigOf(vh)
		config.Owner = "owner"
		abandon(t, config, safedelete.StepSettled, "tier", "orders")
		g := NewWithT(t)
		g.Eventually(vh.Ready).WithArguments("tier").WithTimeout(rabbittest.Within).Should(BeZero())
		connection := rabbittest.ConnectedWith(t, config, impatient(100*time.Millisecond))
		fences := func() []vhost.Policy {
			policies, err := connection.API.Policies(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			return policies
		}
		opened := HaveField("Definition", HaveKeyWithValue(vhost.KeyMaxLength, fence.Boundless))
		g.Eventually(fences).WithTimeout(rabbittest.Within).Should(ConsistOf(opened))
		g.Eventually(func() bool { // the policy is listed before the queues apply it
			return connection.Deleter.Clearing()
		}).WithTimeout(rabbittest.Within).Should(BeFalse())
		vh.Publish("", "orders", "goes on")
		g.Consistently(fences).WithTimeout(2 * time.Second).Should(ConsistOf(opened))
	})
}

// A connection does not remove fences of other connections of its process, however long a deletion takes.
func TestAFenceOfThisProcessIsNeverLeftBehind(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", rabbittest.Quorum(nil))
		observations := rabbit.NewObservations()
		deleting, beside := rabbittest.ConfigOf(vh), rabbittest.DeafConfigOf(t, vh) // two users, which share no observation
		deleting.Owner, deleting.Observations = "deleting", observations
		beside.Owner, beside.Observations = "beside", observations
		at, other := rabbittest.Connected(t, deleting, nil), rabbittest.ConnectedWith(t, beside, impatient(100*time.Millisecond))
		at.Deleter.Crash = func(step string) bool {
			if step != safedelete.StepSettled {
				return true
			}
			before, err := at.API.Policies(t.Context())
			if err != nil || len(before) != 1 {
				t.Error(before, err)
				return true
			}
			for end := time.Now().Add(3 * impatient(100*time.Millisecond).Leftover); time.Now().Before(end); {
				if err := other.Refresh(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if fences := fencesSeen(other); len(fences) > 0 {
				t.Errorf("observed: %+v", fences)
			}
			other.Deleter.Close() // returns when no removal of fences is running
			after, err := at.API.Policies(t.Context())
			if err != nil || len(after) != 1 {
				t.Error(after, err)
			} else if difference := cmp.Diff(before[0].Definition, after[0].Definition); difference != "" {
				t.Errorf("the fence was changed: %s", difference)
			}
			return true
		}
		if err := deleteNow(t.Context(), at, "orders"); err != nil {
			t.Error(err)
		}
		mustBeClean(t, vh)
	})
}

// abandon begins to delete queues and stops after a step, as a crash would.
func abandon(t *testing.T, config rabbit.Config, step string, queues ...string) {
	t.Helper()
	connection := rabbittest.Connected(t, config, nil)
	connection.Deleter.Crash = func(now string) bool { return now != step }
	if step == safedelete.StepOpened { // this step runs only if a deletion fails
		connection.Deleter.Crash = func(now string) bool {
			if now == safedelete.StepSettled {
				connection.Deleter.Stop(0)
			}
			return now != step
		}
	}
	err := untilProved(brokererr.ErrUnproven, func() error { return deleteNow(t.Context(), connection, queues...) })
	if !errors.Is(err, crashpoint.ErrCrashed) {
		t.Fatalf("%v: %v", queues, err)
	}
	connection.Close()
}

// impatient treats a fence as left behind as soon as a second refresh shows it, and permits RabbitMQ the given time to delete a queue.
func impatient(vanish time.Duration) timing.Timeouts {
	quick := rabbittest.Unpaced()
	quick.Leftover, quick.Vanish = 100*time.Millisecond, vanish
	return quick
}
