package observe_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/eventfeed"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

// Erlang expressions with which the tests break the event exchange.
const (
	removeEventBindings = `[rabbit_binding:remove(B, <<"test">>) ||
		B <- rabbit_binding:list_for_source(rabbit_misc:r(<<"/">>, exchange, <<"` + management.EventExchange + `">>))].`
	disableEvents = `ok = rabbit:stop_apps([rabbitmq_event_exchange]).`
	enableEvents  = `ok = rabbit:start_apps([rabbitmq_event_exchange]).`
	restartEvents = `ok = rabbit:stop_apps([rabbitmq_event_exchange]), ok = rabbit:start_apps([rabbitmq_event_exchange]).`
	// muteEvents puts the node into the state after the last binding is removed while another one is made.
	muteEvents = `rabbit_event ! {event_exchange, removed_last_binding}.`
)

// watchful sends a marker every half second, and ends a subscription after two seconds of silence.
func watchful() timing.Timeouts {
	quick := rabbittest.Unpaced()
	quick.Marker, quick.Event, quick.LastListen = 500*time.Millisecond, 2*time.Second, 5*time.Second
	return quick
}

var (
	noEvent      = ContainSubstring("events are silent: no event arrived within 2s about a binding that Warren created at exchange amq.rabbitmq.event")
	enablePlugin = ContainSubstring("enable the plugin rabbitmq_event_exchange")
)

// fallsSilent waits until the connection reports that no events arrive, with a reason.
func fallsSilent(t *testing.T, connection *rabbittest.Connection, reason types.GomegaMatcher) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		health := connection.Health()
		g.Expect(health.EventsSince).To(BeZero())
		g.Expect(health.EventsReason).To(reason)
		g.Expect(connection.Stats().EventsArrive).To(BeFalse())
	}).WithTimeout(rabbittest.Within).WithPolling(5 * time.Millisecond).Should(Succeed())
}

// A subscription that no longer receives events ends, and the next one receives events again.
func TestSilenceIsNoticed(t *testing.T) {
	deadline.InTestAll(t)
	t.Parallel()
	private := brokers.NewPrivate(t)
	connection := rabbittest.ConnectedWith(t, rabbittest.ConfigOf(private.Broker.NewVHost(t)), watchful())
	for _, test := range []struct {
		name    string
		happens string
		reason  types.GomegaMatcher
		remedy  string
	}{
		{name: "all bindings of the event exchange are removed", happens: removeEventBindings, reason: noEvent},
		{name: "the plugin is disabled", happens: disableEvents, reason: enablePlugin, remedy: enableEvents},
		{
			name: "the plugin is disabled and immediately enabled", happens: restartEvents,
			reason: SatisfyAny(noEvent, enablePlugin), // a marker may fail in between
		},
		{name: "the node takes the exchange for unbound", happens: muteEvents, reason: noEvent},
	} {
		t.Run(test.name, func(t *testing.T) {
			rabbittest.Hearing(t, connection)
			private.Eval(test.happens)
			fallsSilent(t, connection, test.reason)
			if test.remedy != "" {
				private.Eval(test.remedy)
			}
			rabbittest.Hearing(t, connection)
		})
	}

	t.Run("with two subscriptions, which pause at the same time at last", func(t *testing.T) {
		other := rabbittest.ConnectedWith(t, rabbittest.ConfigOf(private.Broker.NewVHost(t)), watchful())
		rabbittest.Hearing(t, connection)
		rabbittest.Hearing(t, other)
		private.Eval(muteEvents)
		fallsSilent(t, connection, noEvent)
		fallsSilent(t, other, noEvent)
		rabbittest.Hearing(t, connection)
		rabbittest.Hearing(t, other)
		other.Close()
	})

	t.Run("while another program is subscribed", func(t *testing.T) {
		program, err := private.Broker.VHost(t, "/").Connect("another program")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = program.Close() })
		if _, err := eventfeed.Subscribe(&amqpconn.Conn{Connection: program, ID: "another"}, "/"); err != nil {
			t.Fatal(err)
		}
		rabbittest.Hearing(t, connection)
		private.Eval(muteEvents)
		fallsSilent(t, connection, noEvent)
		for range 3 { // also while Warren subscribes again
			if connection.Observer.AwaitMarker() {
				t.Error("a caller waits for a marker that cannot arrive")
			}
			if err := connection.CatchUp(t.Context()); err != nil {
				t.Error(err)
			}
		}
		_ = program.Close()
		rabbittest.Hearing(t, connection)
	})

	t.Run("before the next marker, when a refresh finds a change", func(t *testing.T) {
		vh, rare := private.Broker.NewVHost(t), watchful()
		rare.Marker = time.Hour
		vh.DeclareQueue("orders", nil)
		connection := rabbittest.ConnectedWith(t, rabbittest.ConfigOf(vh), rare)
		rabbittest.Hearing(t, connection)
		private.Eval(removeEventBindings)
		vh.DeleteQueue("orders")
		if err := connection.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		fallsSilent(t, connection, ContainSubstring(`a refresh found that queue "orders" was deleted, and no event announced the change within 2s`))
		rabbittest.Hearing(t, connection)
	})
}

// A marker is a binding, and voids the ETag of the definitions.
func TestOneMarkerForEachSubscriptionAndPeriod(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	often := rabbittest.Unpaced()
	often.Marker = 100 * time.Millisecond
	for name, test := range map[string]struct {
		timeouts timing.Timeouts
		markers  types.GomegaMatcher
	}{
		"one after the subscription": {rabbittest.Unpaced(), Equal(1)},
		"then one for each period":   {often, BeNumerically(">", 3)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection := rabbittest.ConnectedWith(t, rabbittest.ConfigOf(vh), test.timeouts)
			rabbittest.Hearing(t, connection)
			NewWithT(t).Eventually(func() int {
				return connection.Observer.Feed().Markers()
			}).WithTimeout(rabbittest.Within).Should(test.markers)
		})
	}
}

// The broker keeps the connection for events open, but does not answer. The subscription ends, and a refresh answers the caller.
func TestAMarkerThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	config, mute := rabbittest.ConfigOf(brokers.Newest(t).NewVHost(t)), atomic.Bool{}
	config.AMQPURI = netfault.NewFrameProxy(t, config.AMQPURI, func(f netfault.Frame) netfault.Verdict {
		if f.Method == amqpmethod.QueueBind && mute.Load() {
			return netfault.Drop
		}
		return netfault.Pass
	}).URI
	impatient := rabbittest.Unpaced()
	impatient.Operation = time.Second
	connection := rabbittest.ConnectedWith(t, config, impatient)
	rabbittest.Hearing(t, connection)
	asked := time.Now()
	mute.Store(true)
	connection.RequestCatchUp()
	fallsSilent(t, connection, BeEmpty())
	NewWithT(t).Eventually(func() time.Time { return connection.Health().CurrentAt }).
		WithTimeout(rabbittest.Within).WithPolling(5 * time.Millisecond).Should(BeTemporally(">", asked))
}

// If another client deletes a queue while our deletion waits, the snapshot no longer has the queue when our deletion fails.
func TestAQueueThatIsDeletedWhileADeletionWaits(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	vh.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
	connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
	rabbittest.Hearing(t, connection)
	wanted := errors.New("the queue is wanted again")
	err := connection.DeleteEmpty(t.Context(), connection.Health().Cluster.Key(), []string{"orders"}, func(ctx context.Context) error {
		vh.DeleteQueue("orders")
		if err := connection.CatchUp(ctx); err != nil { // until the event has arrived
			return err
		}
		return wanted
	})
	if !errors.Is(err, wanted) {
		t.Fatal(err)
	}
	NewWithT(t).Eventually(func() int {
		observed, _ := connection.Observe(vhost.Selection{Queues: []string{"orders"}})
		return len(observed.Queues)
	}).WithTimeout(rabbittest.Within).WithPolling(5 * time.Millisecond).Should(BeZero())
}
