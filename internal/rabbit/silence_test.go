package rabbit

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/eventfeed"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
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
	quick := unpaced()
	quick.Marker, quick.Event, quick.LastListen = 500*time.Millisecond, 2*time.Second, 5*time.Second
	return quick
}

var (
	noEvent      = ContainSubstring("events are silent: no event came within 2s about a binding that Warren made at exchange amq.rabbitmq.event")
	enablePlugin = ContainSubstring("enable the plugin rabbitmq_event_exchange")
)

// fallsSilent waits until the connection reports that no events arrive, with a reason.
func fallsSilent(t *testing.T, connection *Connection, reason types.GomegaMatcher) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		health := connection.Health()
		g.Expect(health.EventsSince).To(BeZero())
		g.Expect(health.EventsReason).To(reason)
		g.Expect(connection.Stats().EventsHeard).To(BeFalse())
	}).WithTimeout(within).WithPolling(5 * time.Millisecond).Should(Succeed())
}

// A subscription that no longer receives events ends, and the next one receives events again.
func TestSilenceIsNoticed(t *testing.T) {
	inTestAll(t)
	t.Parallel()
	private := brokers.NewPrivate(t)
	connection := connectedWith(t, configOf(private.Broker.NewVHost(t)), watchful())
	for _, test := range []struct {
		name    string
		happens string
		reason  types.GomegaMatcher
		remedy  string
	}{
		{name: "all bindings of the event exchange are removed", happens: removeEventBindings, reason: noEvent},
		{name: "the plugin is disabled", happens: disableEvents, reason: enablePlugin, remedy: enableEvents},
		{
			name: "the plugin is disabled and enabled at once", happens: restartEvents,
			reason: SatisfyAny(noEvent, enablePlugin), // a marker may fail in between
		},
		{name: "the node takes the exchange for unbound", happens: muteEvents, reason: noEvent},
	} {
		t.Run(test.name, func(t *testing.T) {
			hearing(t, connection)
			private.Eval(test.happens)
			fallsSilent(t, connection, test.reason)
			if test.remedy != "" {
				private.Eval(test.remedy)
			}
			hearing(t, connection)
		})
	}

	t.Run("with two subscriptions, which pause at the same time at last", func(t *testing.T) {
		other := connectedWith(t, configOf(private.Broker.NewVHost(t)), watchful())
		hearing(t, connection)
		hearing(t, other)
		private.Eval(muteEvents)
		fallsSilent(t, connection, noEvent)
		fallsSilent(t, other, noEvent)
		hearing(t, connection)
		hearing(t, other)
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
		hearing(t, connection)
		private.Eval(muteEvents)
		fallsSilent(t, connection, noEvent)
		for range 3 { // also while Warren subscribes again
			if connection.awaitMarker(func(bool) {}) {
				t.Error("a caller waits for a marker that nobody will hear")
			}
			if err := connection.CatchUp(t.Context()); err != nil {
				t.Error(err)
			}
		}
		_ = program.Close()
		hearing(t, connection)
	})

	t.Run("before the next marker, when a refresh finds a change", func(t *testing.T) {
		vh, rare := private.Broker.NewVHost(t), watchful()
		rare.Marker = time.Hour
		vh.DeclareQueue("orders", nil)
		connection := connectedWith(t, configOf(vh), rare)
		hearing(t, connection)
		private.Eval(removeEventBindings)
		vh.DeleteQueue("orders")
		if err := connection.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		fallsSilent(t, connection, ContainSubstring(`a refresh found that queue "orders" was deleted, and no event announced that within 2s`))
		hearing(t, connection)
	})
}

// A marker is a binding, and voids the ETag of the definitions.
func TestOneMarkerForEachSubscriptionAndPeriod(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	often := unpaced()
	often.Marker = 100 * time.Millisecond
	for name, test := range map[string]struct {
		timeouts timing.Timeouts
		markers  types.GomegaMatcher
	}{
		"one after the subscription": {unpaced(), Equal(1)},
		"then one for each period":   {often, BeNumerically(">", 3)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection := connectedWith(t, configOf(vh), test.timeouts)
			hearing(t, connection)
			NewWithT(t).Eventually(func() int {
				return connection.views.get().events.Markers()
			}).WithTimeout(within).Should(test.markers)
		})
	}
}

// Nodes send their events independently of each other: a queue that was deleted and declared again can look deleted, or declared.
func TestEventsOfSeveralNodesOnlyRequestARefresh(t *testing.T) {
	t.Parallel()
	created := func(name string) eventfeed.Change {
		return eventfeed.Change{Kind: eventfeed.Created, ID: vhost.QueueID(name), Exact: true}
	}
	deleted := eventfeed.Change{Kind: eventfeed.Deleted, ID: vhost.QueueID("orders")}
	for name, test := range map[string]struct {
		changes  []eventfeed.Change
		ordered  bool
		queues   []string
		sufficed bool
	}{
		"one node":                            {[]eventfeed.Change{deleted, created("invoices")}, true, []string{"invoices"}, true},
		"several nodes":                       {[]eventfeed.Change{deleted}, false, []string{"orders"}, false},
		"several nodes, of which one is late": {[]eventfeed.Change{created("orders"), deleted}, false, []string{"orders"}, false},
		"several nodes, and another queue":    {[]eventfeed.Change{created("invoices")}, false, []string{"orders"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nobody := silent()
			nobody.isDeleting = func(string) bool { return false }
			view := NewObservations().open(observationKey{}, nobody)
			before := snapshot.New()
			before.PutQueue("orders", vhost.Queue{})
			view.store.Replace(before, "")
			sufficed := view.takeAll(test.changes, test.ordered)
			observed, _ := view.store.Observe(vhost.Selection{Queues: []string{"orders", "invoices"}})
			if got := slices.Collect(maps.Keys(observed.Queues)); sufficed != test.sufficed || !slices.Equal(got, test.queues) {
				t.Errorf("queues %v, sufficed %v", got, sufficed)
			}
		})
	}
}

// If another client deletes a queue while our deletion waits, the snapshot no longer has the queue when our deletion fails.
func TestAQueueThatIsDeletedWhileADeletionWaits(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	vh.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum"})
	connection := connected(t, configOf(vh), nil)
	hearing(t, connection)
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
	}).WithTimeout(within).WithPolling(5 * time.Millisecond).Should(BeZero())
}
