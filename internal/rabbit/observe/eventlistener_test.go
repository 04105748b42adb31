package observe_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
)

func TestEventsShowChangesOfOtherClients(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareExchange("in", "headers", nil)
		heard := &rabbittest.Listener{}
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), heard.Hear)
		rabbittest.Hearing(t, connection)
		synced := connection.Health().SyncedAt

		vh.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum", "x-message-ttl": int64(5000)})
		heard.Awaits(t, snapshot.Notice{Queues: []string{"orders"}})
		rejected := map[string]any{"x-match": "all-with-x", "x-last-death-reason": "rejected"}
		vh.Bind("in", "orders", "key", rejected)
		heard.Awaits(t, snapshot.Notice{Queues: []string{"orders"}, Routes: []string{"in"}})
		seen, _ := connection.Observe(vhost.Selection{Queues: []string{"orders"}})
		read := snapshotOf(t, vh)
		g := NewWithT(t)
		g.Expect(seen.Queues["orders"]).To(Equal(read.Queues["orders"]), "as a reading shows it")
		g.Expect(seen.BindingsTo["orders"]).To(Equal(read.BindingsTo["orders"]), "as a reading shows it")

		vh.Unbind("in", "orders", "key", rejected)
		heard.Awaits(t, snapshot.Notice{Queues: []string{"orders"}, Routes: []string{"in"}})
		vh.DeleteQueue("orders")
		heard.Awaits(t, snapshot.Notice{Queues: []string{"orders"}})
		vh.DeleteExchange("in")
		heard.Awaits(t, snapshot.Notice{Exchanges: []string{"in"}, Routes: []string{"in"}})
		g.Expect(connection.Health().SyncedAt).To(Equal(synced), "the vhost was not read")
	})
}

// A receiver of a notice about a deletion observes neither the object nor its bindings: RabbitMQ announces the bindings before the queue or
// the exchange.
func TestDeletionIsOneNotice(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareExchange("in", "topic", nil)
		for _, queue := range []string{"orders", "invoices"} {
			vh.DeclareQueue(queue, map[string]any{"x-queue-type": "quorum"})
			for key := range 30 { // their events arrive in more than one batch
				vh.Bind("in", queue, fmt.Sprint(key), nil)
			}
		}
		heard, there := &rabbittest.Listener{}, atomic.Pointer[func() vhost.Observed]{}
		var seen []vhost.Observed // one for each notice; from one goroutine
		patient := rabbittest.Unpaced()
		patient.Binding = rabbittest.Within // a busy broker may take longer
		connection, err := rabbittest.OpenWith(rabbittest.ConfigOf(vh), logr.Discard(), func(notice snapshot.Notice) {
			if observe := there.Load(); observe != nil && len(notice.Queues) > 0 {
				seen = append(seen, (*observe)())
			}
			heard.Hear(notice)
		}, patient)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(connection.Close)
		rabbittest.Hearing(t, connection)
		there.Store(new(func() vhost.Observed {
			observed, _ := connection.Observe(vhost.Selection{Queues: []string{"orders"}, Exchanges: []string{"in"}})
			return observed
		}))

		vh.DeleteQueue("orders")
		heard.Awaits(t, snapshot.Notice{Queues: []string{"orders"}, Routes: []string{"in"}})
		vh.DeleteExchange("in")
		heard.Awaits(t, snapshot.Notice{Queues: []string{"invoices"}, Exchanges: []string{"in"}, Routes: []string{"in"}})
		vh.DeclareQueue("last", nil) // whose event comes after those
		heard.Awaits(t, snapshot.Notice{Queues: []string{"last"}})
		g := NewWithT(t)
		g.Expect(seen).To(HaveLen(3))
		g.Expect(seen[0].Queues).To(BeEmpty(), "when the deletion of the queue was told")
		g.Expect(seen[1].Exchanges).To(BeEmpty(), "when the deletion of the exchange was told")
	})
}

// snapshotOf reads the vhost on a separate connection.
func snapshotOf(t *testing.T, vh *brokers.VHost) vhost.Observed {
	t.Helper()
	observed, _ := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil).Observe(vhost.Selection{Queues: []string{"orders"}, FollowFrom: "in"})
	return observed
}

// An event that does not contain the change exactly causes a refresh.
func TestEventsThatNeedARefresh(t *testing.T) {
	isOperator := func(p vhost.Policy) bool { return p.Operator }
	limit := brokers.Policy{Pattern: "^o", Definition: map[string]any{"max-length": 5}, ApplyTo: "queues"}
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.SetOperatorPolicy("limit of the operator", limit)
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		rabbittest.Hearing(t, connection)
		for name, change := range map[string]struct {
			make func()
			seen func(vhost.Observed) bool
		}{
			"an argument that cannot be read back": {
				make: func() { vh.DeclareQueue("orders", map[string]any{"x-dead-letter-exchange": "zurück"}) },
				seen: func(o vhost.Observed) bool {
					return o.Queues["orders"].Arguments["x-dead-letter-exchange"] == "zurück"
				},
			},
			"a policy": {
				make: func() { vh.SetPolicy("limit", limit) },
				seen: func(o vhost.Observed) bool {
					return slices.ContainsFunc(o.Policies, func(p vhost.Policy) bool { return !p.Operator })
				},
			},
			"an operator policy is cleared": {
				make: func() { vh.DeleteOperatorPolicy("limit of the operator") },
				seen: func(o vhost.Observed) bool { return !slices.ContainsFunc(o.Policies, isOperator) },
			},
		} {
			change.make()
			NewWithT(t).Eventually(func() bool {
				observed, _ := connection.Observe(vhost.Selection{Queues: []string{"orders"}})
				return change.seen(observed)
			}).WithTimeout(rabbittest.Within).WithPolling(5*time.Millisecond).Should(BeTrue(), name)
		}
	})
}

// RabbitMQ announces our own changes to us, too. They must not count as changes of another client.
func TestOwnChangesDoNotEcho(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		heard := &rabbittest.Listener{}
		patient := rabbittest.Unpaced()
		patient.Binding = rabbittest.Within // a busy broker announces the deletion of a queue long after that of its bindings
		connection, err := rabbittest.OpenWith(rabbittest.ConfigOf(vh), testr.New(t), heard.Hear, patient)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(connection.Close)
		rabbittest.Hearing(t, connection)
		declared := topology.Topology{
			Exchanges: []topology.Exchange{{Name: "in", Type: "headers", Declare: true}},
			Queues:    []topology.Queue{{Name: "orders", Arguments: map[string]any{"x-queue-type": "quorum"}}},
		}
		for _, reason := range []string{"rejected", "expired", "delivery_limit"} {
			declared.Bindings = append(declared.Bindings, topology.Binding{
				Source: "in", Destination: "orders",
				Arguments: map[string]any{"x-match": "all-with-x", "x-last-death-reason": reason},
			})
		}
		for range 5 { // events about the deletion and the declaration are in flight at the same time
			if err := connection.Apply(t.Context(), declared); err != nil {
				t.Fatal(err)
			}
			removal := rabbit.Removal{Bindings: declared.Bindings, Queues: []string{"orders"}, Exchanges: []string{"in"}}
			if err := connection.Remove(t.Context(), connection.Health().Cluster.Key(), removal); err != nil {
				t.Fatal(err)
			}
		}
		vh.DeclareQueue("last", nil) // whose event comes after those
		heard.Awaits(t, snapshot.Notice{Queues: []string{"last"}})
	})
}

// CatchUp returns when the snapshot shows all changes made before the call. While events arrive, it needs no refresh.
func TestCatchUp(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		hears, deaf := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil), rabbittest.Connected(t, rabbittest.DeafConfigOf(t, vh), nil)
		rabbittest.Hearing(t, hears)
		for name, side := range map[string]struct {
			connection *rabbittest.Connection
			reads      bool
		}{"by events": {hears, false}, "by a reading": {deaf, true}} {
			synced := side.connection.Health().SyncedAt
			for round := range 3 {
				queue := fmt.Sprint(name, round)
				vh.DeclareQueue(queue, nil)
				if err := side.connection.CatchUp(t.Context()); err != nil {
					t.Fatal(err)
				}
				if observed, _ := side.connection.Observe(vhost.Selection{Queues: []string{queue}}); len(observed.Queues) != 1 {
					t.Errorf("%s: queue %q was there before, and is not known", name, queue)
				}
			}
			if reads := side.connection.Health().SyncedAt != synced; reads != side.reads {
				t.Errorf("%s: the vhost was read: %v", name, reads)
			}
		}
		hears.Close()
		rabbittest.MustBe(t, hears.CatchUp(t.Context()), brokererr.ErrClosed)
	})
}

// The event exchange is in vhost "/", to which not every user has access.
func TestUsersWithoutAccessToEvents(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		config, heard := rabbittest.DeafConfigOf(t, vh), &rabbittest.Listener{}
		connection := rabbittest.Connected(t, config, heard.Hear)
		NewWithT(t).Eventually(func() string { return connection.Health().EventsReason }).WithTimeout(rabbittest.Within).
			Should(SatisfyAll(ContainSubstring(`connecting to vhost "/" for events: access refused`), ContainSubstring(config.Username)))
		vh.DeclareQueue("orders", nil)
		connection.RequestCatchUp()
		heard.Awaits(t, snapshot.Notice{Queues: []string{"orders"}})
	})
}

func TestEventsResume(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		heard := &rabbittest.Listener{}
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), heard.Hear)
		rabbittest.Hearing(t, connection)
		began := connection.Health().EventsSince
		NewWithT(t).Eventually(func() int { return vh.Broker.CloseConnections(t, "warren events "+vh.Name) }).
			WithTimeout(rabbittest.Within).Should(Equal(1))
		NewWithT(t).Eventually(func() time.Time { return connection.Health().EventsSince }).
			WithTimeout(rabbittest.Within).WithPolling(5 * time.Millisecond).Should(BeTemporally(">", began))
		rabbittest.Hearing(t, connection)
		vh.DeclareQueue("orders", nil)
		heard.Awaits(t, snapshot.Notice{Queues: []string{"orders"}})
	})
}

// Connections that share an observation have one subscription, and another connection continues it when the first closes.
func TestOneSubscriptionForAllConnections(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		config := rabbittest.ConfigOf(vh)
		config.Observations = rabbit.NewObservations()
		first := rabbittest.Connected(t, config, nil)
		rabbittest.Hearing(t, first)
		heard := &rabbittest.Listener{}
		second := rabbittest.Connected(t, config, heard.Hear)
		isMatched(t, second)
		rabbittest.Hearing(t, second)
		began := first.Health().EventsSince
		if other := second.Health().EventsSince; other != began {
			t.Errorf("two subscriptions, since %v and %v", began, other)
		}
		vh.DeclareQueue("a", nil)
		heard.Awaits(t, snapshot.Notice{Queues: []string{"a"}})
		first.Close()
		NewWithT(t).Eventually(func() time.Time { return second.Health().EventsSince }).
			WithTimeout(rabbittest.Within).WithPolling(5 * time.Millisecond).Should(BeTemporally(">", began))
		rabbittest.Hearing(t, second)
		vh.DeclareQueue("b", nil)
		heard.Awaits(t, snapshot.Notice{Queues: []string{"b"}})
	})
}

// If a marker does not show that the snapshot is current, because an event requires a refresh, a refresh answers CatchUp, whichever
// connection receives the events.
func TestCatchUpOfAnotherConnectionNeedsARefresh(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		config := rabbittest.ConfigOf(vh)
		config.Observations = rabbit.NewObservations()
		first := rabbittest.Connected(t, config, nil)
		rabbittest.Hearing(t, first)
		second := rabbittest.Connected(t, config, nil)
		isMatched(t, second)
		rabbittest.Hearing(t, second)
		asked := time.Now()
		second.RequestCatchUp()
		second.Observer.Feed().Unclear() // as an event about a policy before the marker does
		NewWithT(t).Eventually(func() time.Time { return second.Health().CurrentAt }).
			WithTimeout(rabbittest.Within).WithPolling(5 * time.Millisecond).Should(BeTemporally(">", asked))
	})
}
