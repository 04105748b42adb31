package rabbit

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
)

// hearing waits until events arrive and the vhost was refreshed since, so that no other refresh is due.
func hearing(t *testing.T, connection *Connection) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		health := connection.Health()
		g.Expect(health.EventsReason).To(BeEmpty())
		g.Expect(health.EventsSince).NotTo(BeZero())
		g.Expect(health.SyncedAt).To(BeTemporally(">", health.EventsSince))
	}).WithTimeout(within).WithPolling(5 * time.Millisecond).Should(Succeed())
}

func TestEventsShowChangesOfOtherClients(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareExchange("in", "headers", nil)
		heard := &listener{}
		connection := connected(t, configOf(vh), heard.hear)
		hearing(t, connection)
		synced := connection.Health().SyncedAt

		vh.DeclareQueue("orders", map[string]any{"x-queue-type": "quorum", "x-message-ttl": int64(5000)})
		heard.awaits(t, snapshot.Notice{Queues: []string{"orders"}})
		rejected := map[string]any{"x-match": "all-with-x", "x-last-death-reason": "rejected"}
		vh.Bind("in", "orders", "key", rejected)
		heard.awaits(t, snapshot.Notice{Queues: []string{"orders"}, Routes: []string{"in"}})
		seen, _ := connection.Observe(vhost.Selection{Queues: []string{"orders"}})
		read := snapshotOf(t, vh)
		g := NewWithT(t)
		g.Expect(seen.Queues["orders"]).To(Equal(read.Queues["orders"]), "as a reading shows it")
		g.Expect(seen.BindingsTo["orders"]).To(Equal(read.BindingsTo["orders"]), "as a reading shows it")

		vh.Unbind("in", "orders", "key", rejected)
		heard.awaits(t, snapshot.Notice{Queues: []string{"orders"}, Routes: []string{"in"}})
		vh.DeleteQueue("orders")
		heard.awaits(t, snapshot.Notice{Queues: []string{"orders"}})
		vh.DeleteExchange("in")
		heard.awaits(t, snapshot.Notice{Exchanges: []string{"in"}, Routes: []string{"in"}})
		g.Expect(connection.Health().SyncedAt).To(Equal(synced), "the vhost was not read")
	})
}

// A receiver of a notice about a deletion observes neither the object nor its bindings: RabbitMQ announces the bindings before the queue or
// the exchange.
func TestDeletionIsOneNotice(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareExchange("in", "topic", nil)
		for _, queue := range []string{"orders", "invoices"} {
			vh.DeclareQueue(queue, map[string]any{"x-queue-type": "quorum"})
			for key := range 30 { // their events arrive in more than one batch
				vh.Bind("in", queue, fmt.Sprint(key), nil)
			}
		}
		heard, there := &listener{}, atomic.Pointer[func() vhost.Observed]{}
		var seen []vhost.Observed // one for each notice; from one goroutine
		patient := unpaced()
		patient.Binding = within // a busy broker may take longer
		connection, err := open(configOf(vh), discard, func(notice snapshot.Notice) {
			if observe := there.Load(); observe != nil && len(notice.Queues) > 0 {
				seen = append(seen, (*observe)())
			}
			heard.hear(notice)
		}, patient)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(connection.Close)
		hearing(t, connection)
		there.Store(new(func() vhost.Observed {
			observed, _ := connection.Observe(vhost.Selection{Queues: []string{"orders"}, Exchanges: []string{"in"}})
			return observed
		}))

		vh.DeleteQueue("orders")
		heard.awaits(t, snapshot.Notice{Queues: []string{"orders"}, Routes: []string{"in"}})
		vh.DeleteExchange("in")
		heard.awaits(t, snapshot.Notice{Queues: []string{"invoices"}, Exchanges: []string{"in"}, Routes: []string{"in"}})
		vh.DeclareQueue("last", nil) // whose event comes after those
		heard.awaits(t, snapshot.Notice{Queues: []string{"last"}})
		g := NewWithT(t)
		g.Expect(seen).To(HaveLen(3))
		g.Expect(seen[0].Queues).To(BeEmpty(), "when the deletion of the queue was told")
		g.Expect(seen[1].Exchanges).To(BeEmpty(), "when the deletion of the exchange was told")
	})
}

// snapshotOf reads the vhost on a separate connection.
func snapshotOf(t *testing.T, vh *brokers.VHost) vhost.Observed {
	t.Helper()
	observed, _ := connected(t, configOf(vh), nil).Observe(vhost.Selection{Queues: []string{"orders"}, FollowFrom: "in"})
	return observed
}

// An event that does not contain the change exactly causes a refresh.
func TestEventsThatNeedARefresh(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		connection := connected(t, configOf(vh), nil)
		hearing(t, connection)
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
				make: func() {
					vh.SetPolicy("limit", brokers.Policy{Pattern: "^o", Definition: map[string]any{"max-length": 5}, ApplyTo: "queues"})
				},
				seen: func(o vhost.Observed) bool { return len(o.Policies) == 1 },
			},
		} {
			change.make()
			NewWithT(t).Eventually(func() bool {
				observed, _ := connection.Observe(vhost.Selection{Queues: []string{"orders"}})
				return change.seen(observed)
			}).WithTimeout(within).WithPolling(5*time.Millisecond).Should(BeTrue(), name)
		}
	})
}

// RabbitMQ announces our own changes to us, too. They must not count as changes of another client.
func TestOwnChangesDoNotEcho(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		heard := &listener{}
		connection := connected(t, configOf(vh), heard.hear)
		hearing(t, connection)
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
			removal := Removal{Bindings: declared.Bindings, Queues: []string{"orders"}, Exchanges: []string{"in"}}
			if err := connection.Remove(t.Context(), connection.Health().Cluster.Key(), removal); err != nil {
				t.Fatal(err)
			}
		}
		vh.DeclareQueue("last", nil) // whose event comes after those
		heard.awaits(t, snapshot.Notice{Queues: []string{"last"}})
	})
}

// While events arrive, CatchUp makes the snapshot current within milliseconds, without a refresh.
func TestCatchUpByEvents(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		connection := connected(t, configOf(vh), nil)
		hearing(t, connection)
		synced := connection.Health().SyncedAt
		for _, queue := range []string{"a", "b", "c"} {
			vh.DeclareQueue(queue, nil)
			asked := time.Now()
			connection.RequestCatchUp()
			NewWithT(t).Eventually(func() time.Time { return connection.Health().CurrentAt }).
				WithTimeout(within).WithPolling(time.Millisecond).Should(BeTemporally(">", asked))
			if observed, _ := connection.Observe(vhost.Selection{Queues: []string{queue}}); len(observed.Queues) != 1 {
				t.Errorf("queue %q was there before, and is not known", queue)
			}
		}
		if now := connection.Health().SyncedAt; now != synced {
			t.Errorf("the vhost was read at %v", now)
		}
	})
}

// CatchUp returns when the snapshot shows all changes made before the call.
func TestCatchUp(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		hears, deaf := connected(t, configOf(vh), nil), connected(t, deafConfigOf(t, vh), nil)
		hearing(t, hears)
		for name, side := range map[string]struct {
			connection *Connection
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
		mustBe(t, hears.CatchUp(t.Context()), brokererr.ErrClosed)
	})
}

// The event exchange is in vhost "/", to which not every user has access.
func TestUsersWithoutAccessToEvents(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		config, heard := deafConfigOf(t, vh), &listener{}
		connection := connected(t, config, heard.hear)
		NewWithT(t).Eventually(func() string { return connection.Health().EventsReason }).WithTimeout(within).
			Should(SatisfyAll(ContainSubstring(`connecting to vhost "/" for events: access refused`), ContainSubstring(config.Username)))
		vh.DeclareQueue("orders", nil)
		connection.RequestCatchUp()
		heard.awaits(t, snapshot.Notice{Queues: []string{"orders"}})
	})
}

func TestEventsResume(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		heard := &listener{}
		connection := connected(t, configOf(vh), heard.hear)
		hearing(t, connection)
		began := connection.Health().EventsSince
		NewWithT(t).Eventually(func() int { return vh.Broker.CloseConnections(t, "warren events "+vh.Name) }).
			WithTimeout(within).Should(Equal(1))
		NewWithT(t).Eventually(func() time.Time { return connection.Health().EventsSince }).
			WithTimeout(within).WithPolling(5 * time.Millisecond).Should(BeTemporally(">", began))
		hearing(t, connection)
		vh.DeclareQueue("orders", nil)
		heard.awaits(t, snapshot.Notice{Queues: []string{"orders"}})
	})
}

// Connections that share an observation have one subscription, and another connection continues it when the first closes.
func TestOneSubscriptionForAllConnections(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		config := configOf(vh)
		config.Observations = NewObservations()
		first := connected(t, config, nil)
		hearing(t, first)
		heard := &listener{}
		second := connected(t, config, heard.hear)
		hearing(t, second)
		began := first.Health().EventsSince
		if other := second.Health().EventsSince; other != began {
			t.Errorf("two subscriptions, since %v and %v", began, other)
		}
		vh.DeclareQueue("a", nil)
		heard.awaits(t, snapshot.Notice{Queues: []string{"a"}})
		first.Close()
		NewWithT(t).Eventually(func() time.Time { return second.Health().EventsSince }).
			WithTimeout(within).WithPolling(5 * time.Millisecond).Should(BeTemporally(">", began))
		hearing(t, second)
		vh.DeclareQueue("b", nil)
		heard.awaits(t, snapshot.Notice{Queues: []string{"b"}})
	})
}

// If a marker does not show that the snapshot is current, because an event requires a refresh, a refresh answers CatchUp, whichever
// connection receives the events.
func TestCatchUpOfAnotherConnectionNeedsARefresh(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		config := configOf(vh)
		config.Observations = NewObservations()
		first := connected(t, config, nil)
		hearing(t, first)
		second := connected(t, config, nil)
		hearing(t, second)
		asked := time.Now()
		second.RequestCatchUp()
		second.views.get().events.Unclear() // as an event about a policy before the marker does
		NewWithT(t).Eventually(func() time.Time { return second.Health().CurrentAt }).
			WithTimeout(within).WithPolling(5 * time.Millisecond).Should(BeTemporally(">", asked))
	})
}
