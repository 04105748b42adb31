package rabbit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
)

// sharing returns a configuration whose connections share their observations, as in one manager.
func sharing(vh *brokers.VHost) Config {
	config := configOf(vh)
	config.Observations, config.Limits = NewObservations(), management.NewLimits(0)
	return config
}

// isMatched waits until a connection is matched, and shares its observation if it may.
func isMatched(t *testing.T, connection *Connection) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		g.Expect(connection.Health().Matched).To(BeTrue())
		g.Expect(connection.Refresh(t.Context())).To(Succeed())
	}).WithTimeout(within).WithPolling(5 * time.Millisecond).Should(Succeed())
}

// The vhost is read once per interval, and one snapshot is in memory, however many connections lead to it.
func TestConnectionsReadAVHostOnce(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		config := sharing(vh)
		proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
		config.ManagementURI, config.ResyncInterval = proxy.URI, 500*time.Millisecond
		var connections []*Connection
		for range 8 {
			connections = append(connections, connected(t, config, nil))
			isMatched(t, connections[len(connections)-1])
		}
		for _, connection := range connections {
			if connection.views.get().observation != connections[0].views.get().observation {
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
		}).WithTimeout(within).WithPolling(time.Millisecond).Should(BeNumerically(">=", 5))
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
	first := connected(t, config, nil)
	isMatched(t, first)
	shared := first.views.get().observation
	for name, change := range map[string]func(*Config){
		"another vhost": func(c *Config) { c.VHost = vh.Broker.NewVHost(t).Name },
		"another user":  func(c *Config) { c.Username, c.Password = granted(t, vh, "administrator") },
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
			connection := connected(t, other, nil)
			isMatched(t, connection)
			if connection.views.get().observation == shared {
				t.Error("shares what it observes")
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

// A change of one connection is in the other's snapshot immediately. Only the other's receiver gets a notice.
func TestOtherConnectionsAreNotifiedOfWrites(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	vh.DeclareExchange("x", "topic", nil)
	vh.BindExchange("amq.fanout", "x", "", nil)
	config := sharing(vh)
	var writes, reads listener
	writer, reader := connected(t, config, writes.hear), connected(t, config, reads.hear)
	for _, connection := range []*Connection{writer, reader} { // a refresh during a write would notify the writer, too
		isMatched(t, connection)
		hearing(t, connection)
		seen(t, connection)
	}
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
	reads.awaitsTogether(t, snapshot.Notice{Queues: []string{"bills", "orders"}, Routes: []string{"amq.fanout", "x"}})
}

// The observation remains when one of its connections closes. The last connection frees its memory.
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

// A connection without a proven match of AMQP and the management API has its own observation, because it may read another broker.
func TestUnmatchedConnectionHasItsOwnObservation(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	config := sharing(vh)
	proxy := netfault.NewProxy(t, config.AMQPURI)
	config.AMQPURI = proxy.URI
	first, second := connected(t, config, nil), connected(t, config, nil)
	isMatched(t, first)
	isMatched(t, second)
	shared := first.views.get().observation
	if second.views.get().observation != shared {
		t.Fatal("the connections observe for themselves")
	}
	proxy.Refuse()
	proxy.Cut()
	g := NewWithT(t)
	g.Eventually(func() bool { return second.Health().Connected }).WithTimeout(within).Should(BeFalse())
	seen(t, second)
	if second.views.get().observation == shared {
		t.Error("reads for others what nobody was shown to be of their broker")
	}
	proxy.Accept()
	g.Eventually(func() bool {
		return second.Refresh(t.Context()) == nil && second.views.get().key.isShared()
	}).WithTimeout(within).WithPolling(20 * time.Millisecond).Should(BeTrue())
}

// While a connection changes from one view to the next, it shows the old view, and its changes are in both.
func TestViewsShowNothingThatWasNotRead(t *testing.T) {
	t.Parallel()
	views := views{observations: NewObservations(), lifetime: t.Context(), listen: deaf, viewer: viewer{
		notify: func(snapshot.Notice) {},
	}}
	if _, read := views.observe(vhost.Selection{}); read {
		t.Error("observes before the first reading")
	}
	old, next := observationKey{clusterID: "c", tags: "administrator"}, observationKey{clusterID: "c", tags: "management"}
	first, moving := views.prepare(old)
	if moving {
		t.Error("moves away from nothing")
	}
	first.store.Replace(snapshot.New(), "")
	views.show(first)
	second, moving := views.prepare(next)
	if again, _ := views.prepare(next); !moving || views.get() != first || again != second {
		t.Error("the next view is shown before it is read")
	}
	second.store.Begin()
	views.write(snapshot.Write{ID: vhost.QueueID("orders"), Apply: func(s *snapshot.Snapshot) bool { return s.PutQueue("orders", vhost.Queue{}) }})
	second.store.Replace(snapshot.New(), "")
	for _, shown := range []*view{first, second} { // the old view is shown already
		views.show(shown)
		if observed, _ := views.observe(vhost.Selection{Queues: []string{"orders"}}); len(observed.Queues) != 1 {
			t.Error("one of the views lacks what was written")
		}
	}
	if same, moving := views.prepare(next); moving || same != second || len(views.observations.shared) != 1 {
		t.Error("the old view is not closed")
	}
}

// A connection does not wait forever while another connection refreshes.
func TestWaitForAnotherRefreshIsBounded(t *testing.T) {
	t.Parallel()
	view := NewObservations().open(observationKey{}, viewer{})
	view.reading <- struct{}{}
	read := func(context.Context, string) (*snapshot.Snapshot, string, error) {
		t.Error("two connections read at the same time")
		return snapshot.New(), "", nil
	}
	_, err := view.refresh(t.Context(), brokererr.Errors{}, demand{oldest: time.Now(), limit: time.Millisecond}, read)
	if !errors.Is(err, brokererr.ErrTimeout) {
		t.Errorf("error is %v", err)
	}
}

// In another view, everything may differ. The receiver gets a notice once the view is shown.
func TestAnotherViewCausesANotice(t *testing.T) {
	t.Parallel()
	heard, shown := 0, (*view)(nil)
	views := &views{observations: NewObservations(), lifetime: t.Context(), listen: deaf}
	views.viewer = viewer{
		notify: func(notice snapshot.Notice) {
			if notice.Health {
				heard, shown = heard+1, views.get()
			}
		},
	}
	first, _ := views.prepare(observationKey{clusterID: "blue"})
	views.show(first)
	second, _ := views.prepare(observationKey{clusterID: "green"})
	if heard != 0 {
		t.Error("the first view is news")
	}
	views.show(second)
	views.show(second)
	if heard != 1 || shown != second {
		t.Errorf("%d notices", heard)
	}
}

// A connection that moves to another view refreshes twice, because one refresh does not see the vhost at one moment.
func TestFirstRefreshAfterAMoveIsRepeated(t *testing.T) {
	t.Parallel()
	for twice, want := range map[bool]int{false: 1, true: 2} {
		view, readings := NewObservations().open(observationKey{}, silent()), 0
		read := func(context.Context, string) (*snapshot.Snapshot, string, error) {
			readings++
			return snapshot.New(), "", nil
		}
		if _, err := view.refresh(t.Context(), brokererr.Errors{}, demand{oldest: time.Now(), twice: twice, limit: within}, read); err != nil {
			t.Fatal(err)
		}
		if readings != want {
			t.Errorf("%d readings, want %d", readings, want)
		}
	}
}

func silent() viewer {
	return viewer{notify: func(snapshot.Notice) {}}
}

// A change of one connection causes the same notice for the others as a change of another client.
func TestWritesConcernWhatChangesConcern(t *testing.T) {
	t.Parallel()
	toExchange := vhost.Binding{Source: "in", Destination: "dlx", ToExchange: true}
	before := func() *snapshot.Snapshot {
		s := snapshot.New()
		s.PutExchange("in", vhost.Exchange{Type: "topic", Durable: true})
		s.PutExchange("dlx", vhost.Exchange{Type: "topic", Durable: true})
		s.PutQueue("grave", vhost.Queue{})
		s.BindingsFrom["in"] = []vhost.Binding{toExchange}
		s.PutBinding(vhost.Binding{Source: "dlx", Destination: "grave", RoutingKey: "#"})
		return s
	}
	binding := vhost.Binding{Source: "dlx", Destination: "grave", RoutingKey: "new"}
	for name, write := range map[string]snapshot.Write{
		"a queue that goes":     {ID: vhost.QueueID("grave"), Apply: func(s *snapshot.Snapshot) bool { return s.DropQueue("grave") }},
		"an exchange that goes": {ID: vhost.ExchangeID("dlx"), Apply: func(s *snapshot.Snapshot) bool { return s.DropExchange("dlx") }},
		"a binding that comes":  {ID: binding.ID(), Apply: func(s *snapshot.Snapshot) bool { return s.PutBinding(binding) }},
		"a queue that comes":    {ID: vhost.QueueID("new"), Apply: func(s *snapshot.Snapshot) bool { return s.PutQueue("new", vhost.Queue{}) }},
		"nothing new":           {ID: vhost.QueueID("grave"), Apply: func(s *snapshot.Snapshot) bool { return s.PutQueue("grave", vhost.Queue{}) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			observations, heard := NewObservations(), snapshot.Notice{}
			writer := observations.open(observationKey{clusterID: "c"}, silent())
			observations.open(observationKey{clusterID: "c"}, viewer{
				notify: func(notice snapshot.Notice) { heard = snapshot.Merge([]snapshot.Notice{heard, notice}) },
			})
			writer.store.Replace(before(), "")
			writer.write(write)
			after := before()
			write.Apply(after)
			want := snapshot.Changes(before(), after)
			read := func(context.Context, string) (*snapshot.Snapshot, string, error) { return after, "", nil }
			if _, err := writer.refresh(t.Context(), brokererr.Errors{}, demand{oldest: time.Now(), limit: within}, read); err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(want, heard, cmpopts.EquateEmpty()); difference != "" {
				t.Errorf("what changes concern (-), what was told (+):\n%s", difference)
			}
		})
	}
}

// If a connection closes while it reads the members of queues, the other connections retain the members that are known.
func TestClosingAConnectionRetainsMembers(t *testing.T) {
	t.Parallel()
	views := &views{observations: NewObservations(), lifetime: t.Context(), listen: deaf, viewer: silent()}
	view, _ := views.prepare(observationKey{clusterID: "c"})
	views.show(view)
	view.members.replace(3, map[string]int{"orders": 2})
	closed, cancel := context.WithCancel(t.Context())
	cancel()
	config := configOf(brokers.Newest(t).NewVHost(t))
	config.Limits = management.NewLimits(0)
	to, err := config.parse()
	if err != nil {
		t.Fatal(err)
	}
	r := &refresher{
		views: views, api: management.NewClient(config.managementOptions(to, time.Second, 1)), info: &management.BrokerInfo{Nodes: 3},
	}
	r.readMembers(closed)
	var observed vhost.Observed
	view.members.observe(vhost.Selection{Queues: []string{"orders"}}, &observed)
	if observed.Nodes != 3 || observed.Members["orders"] != 2 {
		t.Errorf("%+v", observed)
	}
}

// deaf receives no events.
func deaf(context.Context, *view) {}

// A vhost is not read more often than the pace allows, however many callers ask and however long each refresh takes.
func TestPace(t *testing.T) {
	t.Parallel()
	read := time.Now()
	for name, test := range map[string]struct {
		took time.Duration
		pace timing.Pace
		wait time.Duration
	}{
		"a quick reading": {took: 10 * time.Millisecond, pace: timing.Pace{Pause: time.Second, Share: 10}, wait: time.Second},
		"a slow reading":  {took: 3 * time.Second, pace: timing.Pace{Pause: time.Second, Share: 10}, wait: 30 * time.Second},
		"no pace":         {took: 3 * time.Second},
	} {
		observed := &observation{readAt: read, took: test.took}
		if wait := observed.nextReading(test.pace).Sub(read); wait != test.wait {
			t.Errorf("%s: %v, want %v", name, wait, test.wait)
		}
	}
}

func TestRefreshesKeepThePace(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	config := configOf(vh)
	config.Observations = NewObservations()
	slow := timing.Default
	slow.Pace = timing.Pace{Pause: 2 * time.Second}
	first, second := connectedWith(t, config, slow), connectedWith(t, config, slow)
	hearing(t, first)
	var readings []time.Time
	for range 3 {
		var asking sync.WaitGroup
		for range 10 {
			asking.Go(func() {
				for _, connection := range []*Connection{first, second} {
					if err := connection.Refresh(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		asking.Wait()
		readings = append(readings, first.views.get().lastRead())
	}
	for i := range readings[1:] {
		if pause := readings[i+1].Sub(readings[i]); pause < slow.Pace.Pause {
			t.Errorf("the vhost was read again after %v", pause)
		}
	}
}
