package observe_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

// sharing returns a configuration whose connections share their observations, as in one manager.
func sharing(vh *brokers.VHost) rabbit.Config {
	config := rabbittest.ConfigOf(vh)
	config.Observations, config.Limits = rabbit.NewObservations(), management.NewLimits(0)
	return config
}

// isMatched waits until a connection is matched, and shares its observation if it may.
func isMatched(t *testing.T, connection *rabbittest.Connection) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		g.Expect(connection.Health().Matched).To(BeTrue())
		g.Expect(connection.Refresh(t.Context())).To(Succeed())
	}).WithTimeout(rabbittest.Within).WithPolling(5 * time.Millisecond).Should(Succeed())
}

// The vhost is read once per interval, and one snapshot is in memory, however many connections lead to it.
func TestConnectionsReadAVHostOnce(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		config := sharing(vh)
		proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
		config.ManagementURI, config.ResyncInterval = proxy.URI, 500*time.Millisecond
		var connections []*rabbittest.Connection
		for range 8 {
			connections = append(connections, rabbittest.Connected(t, config, nil))
			isMatched(t, connections[len(connections)-1])
		}
		for _, connection := range connections {
			if !connection.Observer.SharesWith(connections[0].Observer) {
				t.Error("two connections observe for themselves")
			}
		}
		proxy.Requests()
		readings, refreshes := 0, map[string]bool{} // by connection and time of the refresh
		NewWithT(t).Eventually(func() int {
			for _, request := range proxy.Requests() {
				if strings.HasPrefix(request.Path, "/api/definitions/") {
					readings++
				}
			}
			for i, connection := range connections {
				refreshes[fmt.Sprint(i, connection.Health().SyncedAt)] = true
			}
			return readings
		}).WithTimeout(rabbittest.Within).WithPolling(time.Millisecond).Should(BeNumerically(">=", 5))
		if len(refreshes) < 2*readings { // eight times as many on an idle machine
			t.Errorf("%d refreshes took %d readings", len(refreshes), readings)
		}
	})
}

// Connections share no observation if the vhost, the rights or the broker may differ.
func TestConnectionsWithSeparateObservations(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	config := sharing(vh)
	first := rabbittest.Connected(t, config, nil)
	isMatched(t, first)
	for name, change := range map[string]func(*rabbit.Config){
		"another vhost": func(c *rabbit.Config) { c.VHost = vh.Broker.NewVHost(t).Name },
		"another user":  func(c *rabbit.Config) { c.Username, c.Password = granted(t, vh, "administrator") },
		"another endpoint": func(c *rabbit.Config) {
			c.ManagementURI = netfault.NewHTTPProxy(t, c.ManagementURI, netfault.HTTPOptions{}).URI
		},
		"whom to believe":   func(c *rabbit.Config) { c.ServerName = "rabbitmq.example.com" },
		"an unsure cluster": func(c *rabbit.Config) { c.Username, c.Password = granted(t, vh, "management") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := config
			change(&other)
			connection := rabbittest.Connected(t, other, nil)
			isMatched(t, connection)
			if connection.Observer.SharesWith(first.Observer) {
				t.Error("shares its snapshot")
			}
		})
	}
}

// granted creates a user with a tag and all permissions in a vhost.
func granted(t *testing.T, vh *brokers.VHost, tag string) (username, password string) {
	t.Helper()
	user := vh.Broker.NewUser(t, tag)
	vh.Grant(user, ".*", ".*", ".*")
	return user.Username, user.Password
}

// Refresh returns after a refresh that began after the call, even if another connection has refreshed a moment before.
func TestRefreshOfASharedVHostBeginsAfterTheCall(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		config := sharing(vh)
		first, second := rabbittest.Connected(t, config, nil), rabbittest.Connected(t, config, nil)
		rabbittest.Seen(t, first)
		vh.DeclareQueue("orders", nil)
		rabbittest.Seen(t, second)
		for _, connection := range []*rabbittest.Connection{first, second} {
			if observed, _ := connection.Observe(vhost.Selection{Queues: []string{"orders"}}); len(observed.Queues) != 1 {
				t.Error("the queue is not observed")
			}
		}
	})
}

// A change of one connection is in the other's snapshot immediately. Only the other's receiver gets a notice.
func TestOtherConnectionsAreNotifiedOfWrites(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	vh.DeclareExchange("x", "topic", nil)
	vh.BindExchange("amq.fanout", "x", "", nil)
	config := sharing(vh)
	var writes, reads rabbittest.Listener
	writer, reader := rabbittest.Connected(t, config, writes.Hear), rabbittest.Connected(t, config, reads.Hear)
	for _, connection := range []*rabbittest.Connection{writer, reader} { // a refresh during a write would notify the writer, too
		isMatched(t, connection)
		rabbittest.Hearing(t, connection)
		rabbittest.Seen(t, connection)
	}
	topo := topology.Topology{
		Queues:   []topology.Queue{{Name: "orders", Arguments: rabbittest.Quorum(nil)}},
		Bindings: []topology.Binding{{Source: "x", Destination: "orders", RoutingKey: "a"}},
	}
	if err := writer.Apply(t.Context(), topo); err != nil {
		t.Fatal(err)
	}
	if observed, _ := reader.Observe(vhost.Selection{Queues: []string{"orders"}}); len(observed.BindingsTo["orders"]) != 1 {
		t.Error("the binding is not observed")
	}
	vh.DeclareQueue("bills", nil)
	rabbittest.Seen(t, writer)
	writes.Awaits(t, snapshot.Notice{Queues: []string{"bills"}})
	reads.AwaitsTogether(t, snapshot.Notice{Queues: []string{"bills", "orders"}, Routes: []string{"amq.fanout", "x"}})
}

// The observation remains when one of its connections closes. The last connection frees its memory.
func TestASharedVHostOutlivesItsConnections(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	rabbittest.Fill(vh)
	config := sharing(vh)
	first, second := rabbittest.Connected(t, config, nil), rabbittest.Connected(t, config, nil)
	isMatched(t, second)
	first.Close()
	rabbittest.Seen(t, second)
	if config.Limits.Used == 0 {
		t.Error("no memory is counted while a connection is left")
	}
	if config.Observations.Shared() != 1 {
		t.Errorf("%d observations", config.Observations.Shared())
	}
	second.Close()
	second.Close()
	if config.Limits.Used != 0 || config.Observations.Shared() != 0 {
		t.Errorf("%d bytes of %d observations are still held", config.Limits.Used, config.Observations.Shared())
	}
}

// A connection without a proven match of AMQP and the management API has its own observation, because it may read another broker.
func TestUnmatchedConnectionHasItsOwnObservation(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	config := sharing(vh)
	proxy := netfault.NewProxy(t, config.AMQPURI)
	config.AMQPURI = proxy.URI
	first, second := rabbittest.Connected(t, config, nil), rabbittest.Connected(t, config, nil)
	isMatched(t, first)
	isMatched(t, second)
	if !second.Observer.SharesWith(first.Observer) {
		t.Fatal("the connections observe for themselves")
	}
	proxy.Refuse()
	proxy.Cut()
	g := NewWithT(t)
	g.Eventually(func() bool { return second.Health().Connected }).WithTimeout(rabbittest.Within).Should(BeFalse())
	rabbittest.Seen(t, second)
	if second.Observer.SharesWith(first.Observer) {
		t.Error("refreshes a shared snapshot without proof that it is the same broker")
	}
	proxy.Accept()
	g.Eventually(func() bool {
		return second.Refresh(t.Context()) == nil && second.Observer.IsShared()
	}).WithTimeout(rabbittest.Within).WithPolling(20 * time.Millisecond).Should(BeTrue())
}

// While the vhost is read for all connections that share it, AMQP ends. Without AMQP, the answer may be another broker's.
func TestAMQPEndsWhileASharedVHostIsRead(t *testing.T) {
	t.Parallel()
	config := sharing(brokers.Newest(t).NewVHost(t))
	link := netfault.NewProxy(t, config.AMQPURI)
	api := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
	config.AMQPURI, config.ManagementURI = link.URI, api.URI
	connection := rabbittest.Connected(t, config, nil)
	isMatched(t, connection)
	api.Before(func(request *http.Request) {
		if strings.HasPrefix(request.URL.Path, "/api/definitions/") {
			link.Refuse()
			link.Cut()
			g := NewGomega(func(message string, _ ...int) { t.Error(message) })
			g.Eventually(connection.Health).WithTimeout(rabbittest.Within).Should(HaveField("Matched", false))
		}
	})
	rabbittest.MustBe(t, connection.Refresh(t.Context()), brokererr.ErrUnreachable, "ended while the vhost was read")
}

func TestRefreshesKeepThePace(t *testing.T) {
	t.Parallel()
	deadline.InTestAll(t)
	vh := brokers.Newest(t).NewVHost(t)
	config := rabbittest.ConfigOf(vh)
	config.Observations = rabbit.NewObservations()
	slow := timing.Default
	slow.Pace = timing.Pace{Pause: 2 * time.Second}
	first, second := rabbittest.ConnectedWith(t, config, slow), rabbittest.ConnectedWith(t, config, slow)
	rabbittest.Hearing(t, first)
	var readings []time.Time
	for range 3 {
		var asking sync.WaitGroup
		for range 10 {
			asking.Go(func() {
				for _, connection := range []*rabbittest.Connection{first, second} {
					if err := connection.Refresh(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		asking.Wait()
		readings = append(readings, first.Observer.LastRead())
	}
	for i := range readings[1:] {
		if pause := readings[i+1].Sub(readings[i]); pause < slow.Pace.Pause {
			t.Errorf("the vhost was read again after %v", pause)
		}
	}
}
