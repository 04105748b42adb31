package rabbit_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
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

// hasty has short timeouts, for brokers that do not answer.
var hasty = timing.Timeouts{
	Dial: 2 * time.Second, Operation: 3 * time.Second, Request: 5 * time.Second, Close: 100 * time.Millisecond,
	FirstRetry: 10 * time.Millisecond, LastRetry: 100 * time.Millisecond, Marker: time.Hour, Event: 3 * time.Second,
}

func openedHastily(t *testing.T, config rabbit.Config) *rabbittest.Connection {
	t.Helper()
	connection, err := rabbittest.OpenWith(config, testr.New(t), func(snapshot.Notice) {}, hasty)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	return connection
}

func TestHealthIdentifiesTheBroker(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		health := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil).Health()
		if health.Version != vh.Broker.Version || health.ClusterName == "" || !health.FailingSince.IsZero() {
			t.Errorf("%+v", health)
		}
	})
}

// ofObjects selects the requests for objects of the vhost. A refresh also reads the tags of the user, and checks that AMQP leads to the
// same broker.
func ofObjects(requests []netfault.Request) []netfault.Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r netfault.Request) bool {
		return r.Path == "/api/whoami" || strings.Contains(r.Path, "/"+management.MatchQueue)
	})
}

// A connection of an administrator makes one request for the definitions of the vhost in each interval.
func TestSteadyStateIsOneRequestPerInterval(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		rabbittest.Fill(vh)
		config := rabbittest.DeafConfigOf(t, vh)
		proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
		config.ManagementURI, config.ResyncInterval = proxy.URI, 200*time.Millisecond
		connection := rabbittest.Connected(t, config, nil)
		if err := connection.Apply(t.Context(), rabbittest.OneQueue); err != nil {
			t.Fatal(err)
		}
		rabbittest.Seen(t, connection)
		proxy.Requests()
		var steady []netfault.Request
		NewWithT(t).Eventually(func() int {
			steady = append(steady, ofObjects(proxy.Requests())...)
			return len(steady)
		}).WithTimeout(rabbittest.Within).WithPolling(time.Millisecond).Should(BeNumerically(">=", 6))
		for i, request := range steady {
			if request.Path != "/api/definitions/"+management.Escape(vh.Name) {
				t.Errorf("request %d: %s", i, request.Path)
			}
		}
		took, intervals := steady[len(steady)-1].At.Sub(steady[0].At), len(steady)-2 // one request may come late
		if took < time.Duration(intervals)*config.ResyncInterval*85/100 {
			t.Errorf("%d requests came within %v", len(steady), took)
		}
		if proxy.Sockets() != 1 {
			t.Errorf("%d TCP connections were opened for all requests", proxy.Sockets())
		}
	})
}

// RabbitMQ closes a TCP connection of the management API that has been idle for 5 s, which is less than an interval. One request for the
// match queue of the AMQP connection shows that the next TCP connection leads to the same broker.
func TestSteadyStateOverNewTCPConnections(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		config := rabbittest.DeafConfigOf(t, vh)
		proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
		config.ManagementURI = proxy.URI
		connection := rabbittest.Connected(t, config, nil)
		rabbittest.Seen(t, connection)
		for range 3 {
			proxy.Requests()
			sockets := proxy.Sockets()
			connection.ReadAPI.Close()
			rabbittest.Seen(t, connection)
			kinds := ""
			for _, request := range proxy.Requests() {
				kinds += strings.Split(request.Path, "/")[2] + " "
			}
			if kinds != "definitions queues " || proxy.Sockets() != sockets+1 {
				t.Errorf("%s over %d new connections", kinds, proxy.Sockets()-sockets)
			}
		}
	})
}

// With the tag management or monitoring, four or five listings are read in each interval: queues, exchanges, bindings, policies, and
// operator policies if the user may read them.
func TestSteadyStateWithoutAdministratorIsFiveListings(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	user := vh.Broker.NewUser(t, "management")
	vh.Grant(user, ".*", ".*", ".*")
	config := rabbittest.ConfigOf(vh)
	proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
	config.ManagementURI, config.Username, config.Password = proxy.URI, user.Username, user.Password
	connection := rabbittest.Connected(t, config, nil)
	rabbittest.Seen(t, connection) // a refresh that had begun has ended
	proxy.Requests()
	rabbittest.Seen(t, connection)
	kinds := ""
	for _, request := range ofObjects(proxy.Requests()) {
		kinds += strings.Split(request.Path, "/")[2] + " "
	}
	if kinds != "queues exchanges bindings policies operator-policies " {
		t.Error(kinds)
	}
}

// RabbitMQ 4.3.5 and newer send ETags, and answer "not modified" while nothing changed. A change in any vhost of the broker changes the
// ETags of all vhosts.
func TestBrokersWithETags(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		m := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil).ReadAPI
		version, err := vhost.ParseVersion(vh.Broker.Version)
		if err != nil {
			t.Fatal(err)
		}
		var definitions any
		etag, err := m.Get(t.Context(), "/definitions/"+management.Escape(vh.Name), "", &definitions)
		if has := etag != ""; err != nil || has != version.AtLeast(vhost.RabbitMQ43) {
			t.Fatalf("ETag %q, %v", etag, err)
		}
		if etag == "" {
			return
		}
		NewWithT(t).Eventually(func() (err error) { // other tests change the broker in between
			before := etag
			etag, err = m.Get(t.Context(), "/definitions/"+management.Escape(vh.Name), before, &definitions)
			return err
		}).WithTimeout(rabbittest.Within).WithPolling(time.Millisecond).Should(MatchError(management.ErrNotModified))
	})
}

// The proxy simulates the ETags of a broker that no other client uses.
func TestETagIsUsedUntilAChange(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	config := rabbittest.DeafConfigOf(t, vh)
	proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
	config.ManagementURI = proxy.URI
	etagIs := func(etag string) {
		proxy.Change(func(response *http.Response) error {
			if !strings.Contains(response.Request.URL.Path, "/definitions/") {
				return nil
			}
			response.Header.Set("ETag", etag)
			if response.Request.Header.Get("If-None-Match") == etag {
				response.StatusCode = http.StatusNotModified
				netfault.Replace(response, "")
			}
			return nil
		})
	}
	etagIs(`"one"`)
	connection := rabbittest.Connected(t, config, nil)
	refreshes := func(statuses ...int) {
		t.Helper()
		for i, status := range statuses {
			proxy.Requests()
			rabbittest.Seen(t, connection)
			if requests := ofObjects(proxy.Requests()); len(requests) != 1 || requests[0].Status != status {
				t.Fatalf("refresh %d: %+v, should be one request answered with %d", i+1, requests, status)
			}
		}
	}
	misses := func() {
		t.Helper()
		proxy.Requests()
		rabbittest.Seen(t, connection)
		if requests := ofObjects(proxy.Requests()); len(requests) != 2 || requests[0].Status != 200 || requests[1].Status != 200 {
			t.Fatalf("%+v, should be two full answers, because the connection searches once more for missing objects", requests)
		}
	}
	has := func(queues int) {
		t.Helper()
		if observed, _ := connection.Observe(rabbittest.NamesOf(rabbittest.OneQueue)); len(observed.Queues) != queues {
			t.Errorf("%d queues observed, should be %d", len(observed.Queues), queues)
		}
	}
	before := connection.Health().SyncedAt
	refreshes(200, 304, 304)
	if !connection.Health().SyncedAt.After(before) {
		t.Error("a refresh without changes is a successful refresh")
	}
	vh.DeclareQueue("q", rabbittest.Quorum(nil))
	etagIs(`"two"`)
	refreshes(200, 200, 304)
	has(1)
	vh.DeleteQueue("q")
	etagIs(`"one"`)
	misses()
	has(0)
	refreshes(200, 304)
	if err := connection.Apply(t.Context(), rabbittest.OneQueue); err != nil {
		t.Fatal(err)
	}
	has(1)
	vh.DeleteQueue("q") // the broker has the state of the ETag again
	misses()
	has(0)
	refreshes(200, 304)
}

func TestReconnectsWhenTheBrokerClosesTheConnection(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		config := rabbittest.DeafConfigOf(t, vh)
		proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
		config.ManagementURI = proxy.URI
		connection := rabbittest.Connected(t, config, nil)
		if err := connection.Apply(t.Context(), rabbittest.OneQueue); err != nil {
			t.Fatal(err)
		}
		proxy.Requests()
		vh.DeleteQueue("q")
		NewWithT(t).Eventually(func() int { // the management API lists connections late
			return vh.Broker.CloseConnections(t, "warren "+vh.Name)
		}).WithTimeout(rabbittest.Within).WithPolling(50 * time.Millisecond).Should(Equal(1))
		rabbittest.AwaitHealth(t, connection, func(g Gomega, health rabbit.Health) { // it refreshes immediately, and probes the user's rights again
			observed, _ := connection.Observe(rabbittest.NamesOf(rabbittest.OneQueue))
			g.Expect(observed.Queues).To(BeEmpty())
			rabbittest.IsWell(g, health)
		})
		if requests := fmt.Sprint(proxy.Requests()); !strings.Contains(requests, "/api/whoami") {
			t.Errorf("who the broker is was not asked again: %s", requests)
		}
		if err := connection.Apply(t.Context(), rabbittest.OneQueue); err != nil {
			t.Fatal(err)
		}
	})
}

func TestEachProtocolWorksWithoutTheOther(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	config := rabbittest.ConfigOf(vh)
	relay, proxy := netfault.NewProxy(t, config.AMQPURI), netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
	config.AMQPURI, config.ManagementURI = relay.URI, proxy.URI
	connection := openedHastily(t, config)
	rabbittest.AwaitHealth(t, connection, rabbittest.IsWell)

	relay.Refuse()
	rabbittest.AwaitHealth(t, connection, rabbittest.FailsWith(brokererr.ErrUnreachable, "AMQP: "))
	since := connection.Health().FailingSince
	vh.DeclareQueue("seen", nil)
	if now := rabbittest.Seen(t, connection); len(now.Queues) != 1 {
		t.Error("without AMQP nothing is seen")
	}
	rabbittest.MustBe(t, connection.Apply(t.Context(), rabbittest.OneQueue), brokererr.ErrUnreachable, `declare queue "q" in vhost`)
	if health := connection.Health(); health.Connected || !health.FailingSince.Equal(since) || health.Version != vh.Broker.Version {
		t.Errorf("%+v", health)
	}
	relay.Accept()
	rabbittest.AwaitHealth(t, connection, rabbittest.IsWell)

	proxy.Change(func(response *http.Response) error {
		response.StatusCode, response.Status = http.StatusServiceUnavailable, "503 Service Unavailable"
		return nil
	})
	rabbittest.MustBe(t, connection.Refresh(t.Context()), brokererr.ErrUnreachable, "503")
	NewWithT(t).Eventually(func() error { return connection.Apply(t.Context(), rabbittest.OneQueue) }).WithTimeout(rabbittest.Within).Should(Succeed())
	if observed, _ := connection.Observe(rabbittest.NamesOf(rabbittest.OneQueue)); len(observed.Queues) != 1 {
		t.Error("without the management API nothing is written through")
	}
	rabbittest.AwaitHealth(t, connection, rabbittest.FailsWith(brokererr.ErrUnreachable, "management API, GET /api/", "503"))
	proxy.Change(nil)
	rabbittest.AwaitHealth(t, connection, rabbittest.IsWell)
}

func TestABrokerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	t.Run("from the start", func(t *testing.T) {
		t.Parallel()
		config := rabbittest.ConfigOf(vh)
		config.AMQPURI, config.ManagementURI = "amqp://"+netfault.Mute(t), "http://"+netfault.Mute(t)
		connection := openedHastily(t, config)
		rabbittest.AwaitHealth(t, connection, rabbittest.FailsWith(brokererr.ErrTimeout, "AMQP: ", "management API, GET /api/whoami"))
		rabbittest.MustBe(t, connection.Apply(t.Context(), rabbittest.OneQueue), brokererr.ErrTimeout)
		rabbittest.MustBe(t, connection.Refresh(t.Context()), brokererr.ErrTimeout)
		promptly(t, connection.Close)
	})
	t.Run("in the TLS handshake", func(t *testing.T) {
		t.Parallel()
		config := rabbittest.ConfigOf(vh)
		config.AMQPURI, config.ManagementURI = "amqps://"+netfault.Mute(t), "https://"+netfault.Mute(t)
		connection := openedHastily(t, config)
		rabbittest.AwaitHealth(t, connection, rabbittest.FailsWith(brokererr.ErrTimeout, "AMQP: ", "management API"))
		promptly(t, connection.Close)
	})
	t.Run("in the middle of the handshake", func(t *testing.T) {
		t.Parallel()
		config := rabbittest.ConfigOf(vh)
		relay := netfault.NewProxy(t, config.AMQPURI)
		relay.Hold() // the TCP connection opens, and the broker sends nothing
		config.AMQPURI = relay.URI
		connection := openedHastily(t, config)
		rabbittest.AwaitHealth(t, connection, rabbittest.FailsWith(brokererr.ErrTimeout, "AMQP: "))
		relay.Release()
		rabbittest.AwaitHealth(t, connection, rabbittest.IsWell)
	})
	t.Run("in the middle of an operation", func(t *testing.T) {
		t.Parallel()
		config := rabbittest.ConfigOf(vh)
		relay := netfault.NewProxy(t, config.AMQPURI)
		config.AMQPURI = relay.URI
		connection := openedHastily(t, config)
		rabbittest.AwaitHealth(t, connection, rabbittest.IsWell)
		relay.Hold()
		rabbittest.MustBe(t, connection.Apply(t.Context(), rabbittest.OneQueue), brokererr.ErrTimeout, `declare queue "q"`)
		rabbittest.AwaitHealth(t, connection, rabbittest.FailsWith(brokererr.ErrTimeout))
		relay.Release()
		NewWithT(t).Eventually(func() error { return connection.Apply(t.Context(), rabbittest.OneQueue) }).WithTimeout(rabbittest.Within).Should(Succeed())
	})
}

func TestContextsEndWaiting(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	config := rabbittest.ConfigOf(vh)
	relay, proxy := netfault.NewProxy(t, config.AMQPURI), netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
	config.AMQPURI, config.ManagementURI = relay.URI, proxy.URI
	connection := rabbittest.ConnectedWith(t, config, lasting())
	relay.Hold()
	blocked := make(chan struct{})
	proxy.Change(func(*http.Response) error { <-blocked; return nil })
	defer close(blocked)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	many := topology.Topology{}
	for i := range 3 * amqpconn.ChannelLimit { // more than there are channels
		many.Queues = append(many.Queues, topology.Queue{Name: fmt.Sprint(i), Arguments: rabbittest.Quorum(nil)})
	}
	rabbittest.MustBe(t, connection.Apply(ctx, many), context.Canceled)
	rabbittest.MustBe(t, connection.Refresh(ctx), context.Canceled)
	soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	rabbittest.MustBe(t, connection.Apply(soon, rabbittest.OneQueue), context.DeadlineExceeded)
	promptly(t, connection.Close) // during operations and a refresh
	rabbittest.MustBe(t, connection.Refresh(t.Context()), brokererr.ErrClosed)
	rabbittest.MustBe(t, connection.Apply(t.Context(), rabbittest.OneQueue), brokererr.ErrClosed)
}

func TestWaitsForTheFirstConnection(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	config := rabbittest.ConfigOf(vh)
	relay := netfault.NewProxy(t, config.AMQPURI)
	config.AMQPURI = relay.URI
	relay.Hold()
	connection := rabbittest.Opened(t, config, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rabbittest.MustBe(t, connection.Apply(ctx, rabbittest.OneQueue), context.Canceled)
	applied := make(chan error, 1)
	go func() { applied <- connection.Apply(t.Context(), rabbittest.OneQueue) }()
	relay.Release()
	if err := <-applied; err != nil {
		t.Fatal(err)
	}
}

// promptly fails if a step waits without end, because a process must be able to stop.
func promptly(t *testing.T, step func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		step()
	}()
	select {
	case <-done:
	case <-time.After(deadline.For(5 * time.Second)):
		t.Fatalf("took more than %s", deadline.For(5*time.Second))
	}
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		config := rabbittest.ConfigOf(vh)
		hung := config
		hung.AMQPURI, hung.ManagementURI = "amqp://"+netfault.Mute(t), "http://"+netfault.Mute(t)
		// Goroutines inherit labels from the goroutine that starts them. The label separates ours from the goroutines of other tests.
		pprof.Do(t.Context(), pprof.Labels("opened by", t.Name()), func(context.Context) {
			for name, config := range map[string]rabbit.Config{"well": config, "hung": hung} {
				connection, err := rabbittest.OpenWith(config, logr.Discard(), func(snapshot.Notice) {}, lasting())
				if err != nil {
					t.Fatal(err)
				}
				if name == "well" {
					if err := connection.Apply(t.Context(), rabbittest.OneQueue); err != nil {
						t.Error(err)
					}
					rabbittest.Seen(t, connection)
				}
				promptly(t, connection.Close)
				connection.Close() // a second call is allowed
			}
		})
		NewWithT(t).Eventually(func() string {
			var profile bytes.Buffer
			if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
				t.Fatal(err)
			}
			for stack := range strings.SplitSeq(profile.String(), "\n\n") {
				if strings.Contains(stack, t.Name()) && !strings.Contains(stack, "testing.tRunner") {
					return stack
				}
			}
			return ""
		}).WithTimeout(rabbittest.Within).WithPolling(10 * time.Millisecond).Should(BeEmpty())
	})
}

func TestAVHostThatIsDeleted(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		vh.Delete()
		rabbittest.MustBe(t, connection.Refresh(t.Context()), brokererr.ErrVHostNotFound)
		rabbittest.AwaitHealth(t, connection, func(g Gomega, health rabbit.Health) {
			rabbittest.FailsWith(brokererr.ErrVHostNotFound)(g, health)
			g.Expect(health.Connected).To(BeFalse())
		})
		if _, ok := connection.Observe(vhost.Selection{}); !ok {
			t.Error("what was known should stay known")
		}
	})
}

// lasting has timeouts of an hour, so that a test that waits for one of them fails by its own limit.
func lasting() timing.Timeouts {
	slow := rabbittest.Unpaced()
	slow.Dial, slow.Operation, slow.Request = time.Hour, time.Hour, time.Hour
	return slow
}
