package safedelete_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

// Under a disk alarm the broker accepts no messages. Deletions report that they wait, and leave no fence; all other operations continue
// on the same connection. A sentinel in flight when the alarm begins is not forgotten: it may arrive when the alarm ends.
func TestAlarms(t *testing.T) {
	deadline.InTestAll(t)
	t.Parallel()
	private := brokers.NewPrivate(t)
	vh := private.Broker.NewVHost(t)
	config := rabbittest.ConfigOf(vh)
	connection := rabbittest.ConnectedWith(t, config, impatient(100*time.Millisecond))
	for _, queue := range []string{"before", "during"} {
		vh.DeclareQueue(queue, rabbittest.Quorum(nil))
	}
	link := connection.Channels.Link

	private.SetAlarm()
	rabbittest.MustBe(t, deleteNow(t.Context(), connection, "before"), brokererr.ErrUnproven, "alarm", "low on disk")
	if policies := vh.Policies(); len(policies) != 0 {
		t.Errorf("policies under an alarm: %q", policies)
	}
	ctx, cancel := context.WithTimeout(t.Context(), rabbittest.Within)
	defer cancel()
	if err := connection.Apply(ctx, topology.Topology{Queues: []topology.Queue{{Name: "declared", Arguments: rabbittest.Quorum(nil)}}}); err != nil {
		t.Error(err)
	}
	recreator := connection.Recreator(connection.Health().Cluster.Key())
	again := recreate.Recreation{ID: recreate.NewID("shop/orders"), Queue: topology.Queue{Name: "before", Arguments: rabbittest.Quorum(nil)}}
	NewWithT(t).Eventually(func() recreate.Reason { return recreate.ReasonOf(recreator.Check(ctx, again)) }).
		WithTimeout(rabbittest.Within).Should(Equal(recreate.QueueUnavailable)) // RabbitMQ reports alarms of nodes every five seconds
	private.ClearAlarm()
	if err := deleteNow(t.Context(), connection, "before"); err != nil {
		t.Error(err)
	}

	connection.Deleter.Crash = func(step string) bool {
		if step == safedelete.StepFenced {
			private.SetAlarm()
		}
		return true
	}
	g := NewWithT(t)
	g.Eventually(func() ([]vhost.Policy, error) { // on a busy machine, the alarm can come too late for a sentinel
		private.ClearAlarm()
		rabbittest.MustBe(t, deleteNow(t.Context(), connection, "during"), brokererr.ErrUnproven, "alarm", "low on disk")
		return connection.API.Policies(t.Context())
	}).WithTimeout(rabbittest.Within).Should(ConsistOf(HaveField("Definition", HaveKeyWithValue(vhost.KeyMaxLength, fence.Boundless))),
		"the record of the sentinel, in a form that changes nothing")
	connection.Deleter.Crash = nil
	if connection.Channels.Link != link || !connection.Health().Connected {
		t.Error("the AMQP connection of everything else was lost")
	}
	private.ClearAlarm()
	g.Eventually(func() []string {
		g.Expect(connection.Refresh(t.Context())).To(Succeed())
		return vh.Policies()
	}).WithTimeout(rabbittest.Within).WithPolling(100 * time.Millisecond).Should(BeEmpty())
	g.Consistently(vh.Ready).WithArguments("during").WithTimeout(time.Second).Should(BeZero())
	if err := deleteNow(t.Context(), connection, "during"); err != nil {
		t.Error(err)
	}
}

// Warren works with a broker whose settings are unusual.
func TestUnusualSettings(t *testing.T) {
	deadline.InTestAll(t)
	t.Parallel()
	private := brokers.NewPrivate(t)
	for _, channels := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d channels on a connection are enough", channels), func(t *testing.T) {
			private.Eval(fmt.Sprintf(`application:set_env(rabbit, channel_max, %d).`, channels))
			fewChannels(t, private.Broker.NewVHost(t), channels)
		})
	}
	t.Run("deletions need no statistics, and the health reports that there are none", func(t *testing.T) {
		private.Eval(`application:set_env(rabbitmq_management_agent, disable_metrics_collector, true).`)
		withoutMetricsCollector(t, private.Broker.NewVHost(t))
	})
}

func fewChannels(t *testing.T, vh *brokers.VHost, channels int) {
	connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
	many := topology.Topology{}
	for i := range 12 {
		many.Queues = append(many.Queues, topology.Queue{Name: fmt.Sprint(i), Arguments: rabbittest.Quorum(nil)})
	}
	if err := connection.Apply(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	link := connection.Channels.Link
	if limit := connection.Stats().OperationLimit; cap(link.ChannelSlots) != channels || limit != channels {
		t.Errorf("%d operations on %d channels, and %d are allowed", limit, cap(link.ChannelSlots), channels)
	}
	var deletions sync.WaitGroup
	for _, queue := range many.Queues {
		deletions.Go(func() {
			if err := deleteNow(t.Context(), connection, queue.Name); err != nil {
				t.Error(err)
			}
		})
	}
	deletions.Wait()
	if connection.Channels.Link != link {
		t.Error("the AMQP connection was lost")
	}
	mustBeClean(t, vh)
}

func withoutMetricsCollector(t *testing.T, vh *brokers.VHost) {
	vh.DeclareQueue("empty", rabbittest.Quorum(nil))
	vh.DeclareQueue("pending", rabbittest.Quorum(pendingArguments))
	vh.DeclareQueue("delayed", rabbittest.Quorum(delayedArguments))
	putAside(t, vh, "pending", false)
	putAside(t, vh, "delayed", true)
	connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
	if connection.Health().Capabilities.Statistics {
		t.Error("statistics are taken to be there")
	}
	if err := deleteNow(t.Context(), connection, "empty"); err != nil {
		t.Error(err)
	}
	for _, queue := range []string{"pending", "delayed"} {
		rabbittest.MustBe(t, deleteNow(t.Context(), connection, queue), brokererr.ErrNotEmpty, `queue "`+queue+`" holds messages that wait`)
	}
	mustBeClean(t, vh)
}

// Warren cannot read the pattern of a policy. If the broker reports no effective policy, or a fence that was lifted, nothing is deleted.
func TestUnreadablePolicies(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("orders", rabbittest.Quorum(nil))
		vh.SetPolicy("recursive", brokers.Policy{
			Pattern: `^(?(?=o)orders|other)$`, ApplyTo: "queues", Definition: map[string]any{"message-ttl": 60000},
		})
		management := netfault.NewHTTPProxy(t, vh.Broker.ManagementURI, netfault.HTTPOptions{})
		shows := func(policy string) {
			management.Change(func(response *http.Response) error {
				if strings.HasSuffix(response.Request.URL.EscapedPath(), "/orders") {
					const queue = `{"type":"quorum","state":"running","leader":"rabbit@here","arguments":{"x-queue-type":"quorum"}`
					netfault.Replace(response, queue+policy+"}")
				}
				return nil
			})
		}
		shows("")
		config := rabbittest.ConfigOf(vh)
		config.ManagementURI = management.URI
		connection := rabbittest.Connected(t, config, nil)
		if connection.Health().Capabilities.Statistics != true {
			t.Error("no statistics")
		}
		rabbittest.MustBe(t, deleteNow(t.Context(), connection, "orders"), brokererr.ErrUnproven, `the pattern of policy "recursive" may match`)
		former := fence.Name{Begun: time.Now()}.String("orders")
		shows(fmt.Sprintf(`,"policy":%q,"effective_policy_definition":%s`, former, fence.Fence{}.Open().JSON()))
		rabbittest.MustBe(t, deleteNow(t.Context(), connection, "orders"), brokererr.ErrUnproven, fmt.Sprintf("still shows policy %q", former))
		management.Change(nil)
		NewWithT(t).Eventually(func() error { return deleteNow(t.Context(), connection, "orders") }).WithTimeout(rabbittest.Within).Should(Succeed())
		mustBeClean(t, vh)
	})
}
