package rabbit

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
)

// sharing is the configuration of connections that share what they observe, as those of one manager do.
func sharing(vh *brokers.VHost) Config {
	config := configOf(vh)
	config.Observations, config.Limits = NewObservations(), management.NewLimits(0)
	return config
}

// The vhost is read once per interval and kept in memory once, however many connections lead to it.
func TestConnectionsReadAVHostOnce(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		config := sharing(vh)
		proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
		config.ManagementURI, config.ResyncInterval = proxy.URI, 500*time.Millisecond
		var connections []*Connection
		for range 8 {
			connections = append(connections, connected(t, config, nil))
		}
		for _, connection := range connections {
			if connection.views.get().observation != connections[0].views.get().observation {
				t.Error("two connections observe for themselves")
			}
		}
		proxy.Requests()
		readings, refreshes := 0, 0 // each connection asks once per refresh who it is
		NewWithT(t).Eventually(func() int {
			for _, request := range proxy.Requests() {
				switch {
				case strings.HasPrefix(request.Path, "/api/definitions/"):
					readings++
				case request.Path == "/api/whoami":
					refreshes++
				}
			}
			return readings
		}).WithTimeout(within).WithPolling(time.Millisecond).Should(BeNumerically(">=", 5))
		if refreshes < 2*readings { // eight times as many, where all take their turns in time
			t.Errorf("%d refreshes took %d readings", refreshes, readings)
		}
	})
}

// What may differ from one connection to the other is not shared.
func TestConnectionsThatReadForThemselves(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	config := sharing(vh)
	shared := connected(t, config, nil).views.get().observation
	for name, change := range map[string]func(*Config){
		"another vhost": func(c *Config) { c.VHost = vh.Broker.NewVHost(t).Name },
		"other rights":  func(c *Config) { c.Username, c.Password = granted(t, vh, "policymaker") },
		"another endpoint": func(c *Config) {
			c.ManagementURI = netfault.NewHTTPProxy(t, c.ManagementURI, netfault.HTTPOptions{}).URI
		},
		"whom to believe":   func(c *Config) { c.ServerName = "rabbitmq.example.com" },
		"an unsure cluster": func(c *Config) { c.Username, c.Password = granted(t, vh, "management") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := config
			change(&other)
			if connected(t, other, nil).views.get().observation == shared {
				t.Error("shares what it observes")
			}
		})
	}
	t.Run("another user with the same rights shares", func(t *testing.T) {
		t.Parallel()
		other := config
		other.Username, other.Password = granted(t, vh, "administrator")
		if connected(t, other, nil).views.get().observation != shared {
			t.Error("observes for itself")
		}
	})
}

// granted makes a user with a tag who may do everything in a vhost.
func granted(t *testing.T, vh *brokers.VHost, tag string) (username, password string) {
	t.Helper()
	user := vh.Broker.NewUser(t, tag)
	vh.Grant(user, ".*", ".*", ".*")
	return user.Username, user.Password
}

// Whoever asks for a refresh gets a reading that began after the question, whoever has read a moment ago.
func TestRefreshOfASharedVHostBeginsAfterTheCall(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		config := sharing(vh)
		first, second := connected(t, config, nil), connected(t, config, nil)
		seen(t, first)
		vh.DeclareQueue("orders", nil)
		seen(t, second)
		for _, connection := range []*Connection{first, second} {
			if observed, _ := connection.Observe(vhost.Selection{Queues: []string{"orders"}}); len(observed.Queues) != 1 {
				t.Error("the queue is not observed")
			}
		}
	})
}

// What one connection writes is in the snapshot of the other at once, and is news for the other's receiver only.
func TestOtherConnectionsHearOfWrites(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	vh.DeclareExchange("x", "topic", nil)
	vh.BindExchange("amq.fanout", "x", "", nil)
	config := sharing(vh)
	var writes, reads listener
	writer, reader := connected(t, config, writes.hear), connected(t, config, reads.hear)
	topo := topology.Topology{
		Queues:   []topology.Queue{{Name: "orders", Arguments: quorum(nil)}},
		Bindings: []topology.Binding{{Source: "x", Destination: "orders", RoutingKey: "a"}},
	}
	if err := writer.Apply(t.Context(), topo); err != nil {
		t.Fatal(err)
	}
	if observed, _ := reader.Observe(vhost.Selection{Queues: []string{"orders"}}); len(observed.BindingsTo["orders"]) != 1 {
		t.Error("the binding is not observed")
	}
	vh.DeclareQueue("bills", nil)
	seen(t, writer)
	writes.awaits(t, snapshot.Notice{Queues: []string{"bills"}})
	reads.awaits(t, snapshot.Notice{Queues: []string{"bills", "orders"}, Routes: []string{"amq.fanout", "x"}})
}

// One connection that ends, or whose user the broker does not let in any more, leaves the others what they observe. The last one
// gives the memory back.
func TestASharedVHostOutlivesItsConnections(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	fill(vh)
	config := sharing(vh)
	first, second := connected(t, config, nil), connected(t, config, nil)
	first.Close()
	seen(t, second)
	if config.Limits.Used == 0 {
		t.Error("no memory is counted while a connection is left")
	}
	if len(config.Observations.shared) != 1 {
		t.Errorf("%d observations", len(config.Observations.shared))
	}
	second.Close()
	second.Close()
	if config.Limits.Used != 0 || len(config.Observations.shared) != 0 {
		t.Errorf("%d bytes of %d observations are still held", config.Limits.Used, len(config.Observations.shared))
	}
}

// A broker that fails one user's requests does not keep the others from reading.
func TestAConnectionThatFailsLeavesTheOthersTheirReadings(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	config := sharing(vh)
	proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
	config.ManagementURI = proxy.URI
	connection := connected(t, config, nil)
	config.Username, config.Password = granted(t, vh, "administrator")
	refused := connected(t, config, nil)
	proxy.Change(func(response *http.Response) error {
		if user, _, _ := response.Request.BasicAuth(); user == config.Username {
			response.StatusCode = http.StatusInternalServerError
		}
		return nil
	})
	if err := refused.Refresh(t.Context()); err == nil {
		t.Error("the refresh of the one that fails succeeded")
	}
	seen(t, connection)
	if connection.Health().Err != nil || refused.Health().Err == nil {
		t.Errorf("%v; %v", connection.Health().Err, refused.Health().Err)
	}
}

// While a connection changes from one view to the next it shows the old one, and what it writes is in both.
func TestViewsShowNothingThatWasNotRead(t *testing.T) {
	t.Parallel()
	views := views{observations: NewObservations(), viewer: viewer{
		notify: func(snapshot.Notice) {}, fences: func() map[string]bool { return nil },
	}}
	if _, read := views.observe(vhost.Selection{}); read {
		t.Error("observes before the first reading")
	}
	old, next := observationKey{clusterID: "c", tags: "administrator"}, observationKey{clusterID: "c", tags: "management"}
	first := views.prepare(old)
	first.store.Replace(snapshot.New(), "")
	views.show(first)
	second := views.prepare(next)
	if views.get() != first || views.prepare(next) != second {
		t.Error("the next view is shown before it is read")
	}
	second.store.Begin()
	views.write(snapshot.Write{ID: vhost.QueueID("orders"), Apply: func(s *snapshot.Snapshot) bool { return s.PutQueue("orders", vhost.Queue{}) }})
	second.store.Replace(snapshot.New(), "")
	for name, show := range map[string]*view{"the old view": first, "the next view": second} {
		views.show(show)
		if observed, _ := views.observe(vhost.Selection{Queues: []string{"orders"}}); len(observed.Queues) != 1 {
			t.Errorf("%s lacks what was written", name)
		}
	}
	if views.prepare(next) != second || len(views.observations.shared) != 1 {
		t.Error("the old view is not closed")
	}
}

// A connection does not wait for ever while others read.
func TestAReadingOfOthersIsWaitedForNotForEver(t *testing.T) {
	t.Parallel()
	view := NewObservations().open(observationKey{}, viewer{})
	view.reading <- struct{}{}
	read := func(context.Context, string) (*snapshot.Snapshot, string, error) {
		t.Error("two connections read at the same time")
		return snapshot.New(), "", nil
	}
	_, err := view.refresh(t.Context(), brokererr.Errors{}, time.Millisecond, time.Now(), read)
	if !errors.Is(err, brokererr.ErrTimeout) {
		t.Errorf("error is %v", err)
	}
}
