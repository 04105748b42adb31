package safedelete_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/rabbittest"
)

// leaveFence sets a fence, as if a process of the owner had crashed after that.
func leaveFence(vh *brokers.VHost, owner string, queues ...string) (name string) {
	name = fence.Name{Owner: owner, Begun: time.Now()}.String(queues[0])
	vh.SetPolicy(name, brokers.Policy{
		Pattern: fence.Pattern(queues), ApplyTo: "queues", Priority: 1000, Definition: fence.Fence{}.Closed(),
	})
	return name
}

// leaveSentinels publishes the sentinels of a queue to another queue, behind its messages.
func leaveSentinels(t *testing.T, vh *brokers.VHost, to, policy, origin string) {
	t.Helper()
	publish(t, vh, to, amqp.Publishing{
		Type: safedelete.SentinelType, AppId: "warren", Headers: amqp.Table{"warren-queue": origin, "warren-fence": policy},
	}, safedelete.Sentinels)
}

// publish publishes the same message several times. All messages have the highest priority, so that a broker that supports priorities
// delivers them in order.
func publish(t *testing.T, vh *brokers.VHost, queue string, message amqp.Publishing, count int) {
	t.Helper()
	channel, err := dialed(t, vh).Channel()
	if err == nil {
		err = channel.Confirm(false)
	}
	message.Priority, message.DeliveryMode = 255, amqp.Persistent
	for range count {
		var confirmation *amqp.DeferredConfirmation
		if err == nil {
			confirmation, err = channel.PublishWithDeferredConfirm("", queue, true, false, message)
		}
		if err == nil && !confirmation.Wait() {
			t.Fatalf("queue %q refuses a message", queue)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A fence is the record of its sentinels. It stays in its harmless form until they are found, however many messages are in front of them.
func TestASentinelBehindManyMessagesIsNotForgotten(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", rabbittest.Quorum(unlimited(vh)))
		underlying := vhost.Arguments{vhost.KeyMaxLengthBytes: int64(1 << 20), vhost.KeyOverflow: vhost.OverflowDropHead}
		vh.SetPolicy("underlying", brokers.Policy{Pattern: "^orders$", ApplyTo: "queues", Priority: 1, Definition: underlying})
		name := fence.Name{Owner: "mine", Begun: time.Now()}.String("orders")
		publish(t, vh, "orders", amqp.Publishing{}, 66)
		leaveSentinels(t, vh, "orders", name, "orders")
		vh.SetPolicy(name, brokers.Policy{
			Pattern: fence.Pattern([]string{"orders"}), ApplyTo: "queues", Priority: 1000, Definition: fence.Fence{}.Closed(),
		})
		config := rabbittest.ConfigOf(vh)
		config.Owner = "mine"
		connection := rabbittest.Connected(t, config, nil)
		g := NewWithT(t)
		left := func() []vhost.Fence {
			g.Expect(connection.Refresh(t.Context())).To(Succeed())
			return fencesSeen(connection)
		}
		harmless := func() types.GomegaMatcher {
			return ConsistOf(And(HaveField("Name", name), HaveField("Definition", Equal(fence.Fence{Effective: underlying}.Harmless()))))
		}
		g.Eventually(left).WithTimeout(rabbittest.Within).WithPolling(50 * time.Millisecond).Should(harmless())
		g.Consistently(left).WithTimeout(time.Second).WithPolling(100*time.Millisecond).Should(harmless(), "the record of the sentinels")
		underlying[vhost.KeyMaxLengthBytes] = int64(2 << 20)
		vh.SetPolicy("underlying", brokers.Policy{Pattern: "^orders$", ApplyTo: "queues", Priority: 1, Definition: underlying})
		g.Eventually(left).WithTimeout(rabbittest.Within).WithPolling(50*time.Millisecond).Should(harmless(), "a change of the policy takes effect")

		channel, err := dialed(t, vh).Channel()
		g.Expect(err).NotTo(HaveOccurred())
		take := func() (bool, error) {
			_, taken, err := channel.Get("orders", true)
			return taken, err
		}
		for range 4 { // not immediately while Warren searches the messages, and then returns them
			g.Eventually(take).WithTimeout(rabbittest.Within).Should(BeTrue())
		}
		g.Eventually(left).WithTimeout(rabbittest.Within).WithPolling(50 * time.Millisecond).Should(BeEmpty())
		g.Expect(vh.Policies()).To(ConsistOf("underlying"))
		for _, message := range bodies(t, vh, "orders") {
			g.Expect(message.Type).To(BeEmpty())
		}
	})
}

// Expired sentinels are found in the queue that they were dead-lettered to, behind its messages.
func TestSentinelsThatExpiredBehindMessages(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", rabbittest.Quorum(unlimited(vh)))
		vh.DeclareQueue("tier", rabbittest.Quorum(vhost.Arguments{
			"x-message-ttl": 5000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders",
		}))
		publish(t, vh, "orders", amqp.Publishing{}, 20)
		name := leaveFence(vh, "mine", "tier")
		leaveSentinels(t, vh, "orders", name, "tier")
		config := rabbittest.ConfigOf(vh)
		config.Owner = "mine"
		rabbittest.Connected(t, config, nil)
		NewWithT(t).Eventually(vh.Policies).WithTimeout(rabbittest.Within).WithPolling(50 * time.Millisecond).Should(BeEmpty())
		rabbittest.Holds(t, vh, "orders", 20)
	})
}

// A queue whose leader is too busy to count reports no messages. Its sentinels are still removed.
func TestSentinelsInABusyQueueAreNotForgotten(t *testing.T) {
	deadline.InTestAll(t)
	t.Parallel()
	private := brokers.NewPrivate(t)
	vh := private.Broker.NewVHost(t)
	vh.DeclareQueue("orders", rabbittest.Quorum(nil))
	connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	connection.Deleter.Crash = func(step string) bool {
		switch step {
		case safedelete.StepSettled:
			cancel()
		case safedelete.StepOpened:
			private.Eval(fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"%s">>, queue, <<"orders">>)),
				{Leader, _} = amqqueue:get_pid(Q), sys:suspend(Leader), spawn(fun() -> timer:sleep(3000), sys:resume(Leader) end).`, vh.Name))
		}
		return true
	}
	if err := deleteNow(ctx, connection, "orders"); err == nil {
		t.Error("deleted by a call that has ended")
	}
	NewWithT(t).Eventually(vh.Policies).WithTimeout(rabbittest.Within).WithPolling(50 * time.Millisecond).Should(BeEmpty())
	rabbittest.Holds(t, vh, "orders", 0)
}
