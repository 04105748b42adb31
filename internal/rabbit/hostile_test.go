package rabbit_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/health"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/observe"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/hostile"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

// A management API that misbehaves costs its own connection, and neither the memory of the process nor another connection.
// Not parallel, because it measures the memory of the process.
func TestHostileManagementCostsItsOwnConnectionOnly(t *testing.T) {
	const response = 4 * management.Mebibyte
	vhost := brokers.Newest(t).NewVHost(t)
	limits := management.NewLimits(response)
	hurried := rabbittest.Unpaced()
	hurried.Request = 2 * time.Second
	hurried.FirstRetry, hurried.LastRetry = 50*time.Millisecond, 100*time.Millisecond // so that all connections retry at the same time
	defer debug.SetGCPercent(debug.SetGCPercent(100))                                 // `make test` collects garbage less often
	before := inUse()

	bad := map[string]*rabbittest.Connection{}
	for name, way := range hostile.Ways() {
		config := rabbittest.ConfigOf(vhost)
		config.ManagementURI, config.Limits = hostile.NewManagement(t, way).URI, limits
		connection, err := rabbittest.OpenWith(config, logr.Discard(), func(snapshot.Notice) {}, hurried)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(connection.Close)
		bad[name] = connection
	}
	config := rabbittest.ConfigOf(vhost)
	config.Limits = limits
	good := rabbittest.Connected(t, config, nil)
	highest := uint64(0)
	for name, connection := range bad {
		NewWithT(t).Eventually(func() error {
			highest = max(highest, inUse())
			return connection.Health().Err
		}).WithTimeout(rabbittest.Within).WithPolling(10*time.Millisecond).Should(
			SatisfyAny(MatchError(brokererr.ErrUnreachable), MatchError(brokererr.ErrResponseTooLarge)), name)
		if !connection.Health().SyncedAt.IsZero() {
			t.Errorf("%s: was taken for a vhost", name)
		}
		if text := connection.Health().Err.Error(); len(text) > brokererr.LongestText+200 {
			t.Errorf("%s: the error has %d bytes", name, len(text))
		}
	}
	if err := good.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	apply := good.Apply(t.Context(), topology.Topology{Queues: []topology.Queue{{Name: "q"}}})
	if apply != nil {
		t.Error(apply)
	}
	t.Logf("%d bad connections took %d MiB at most", len(bad), (highest-before)/management.Mebibyte)
	// Twice the sum of all limits, because garbage is collected late, and more for the servers of this test.
	if allowed := before + 2*management.MemoryFactor*response + 64*management.Mebibyte; highest > allowed {
		t.Errorf("%d MiB in use, %d before, %d allowed", highest/management.Mebibyte, before/management.Mebibyte, allowed/management.Mebibyte)
	}
	for _, connection := range bad {
		connection.Close()
	}
	good.Close()
	if limits.Used != 0 {
		t.Errorf("%d bytes are still counted as in use", limits.Used)
	}
}

// A list that is longer than any real one takes little memory while it is read, and little of it is retained. Not parallel, because it
// measures the memory of the process.
func TestHugeAnswersTakeLittleMemory(t *testing.T) {
	deadline.InTestAll(t)
	const size, peak, left = 24 * management.Mebibyte, 80 * management.Mebibyte, 4 * management.Mebibyte
	defer debug.SetGCPercent(debug.SetGCPercent(30)) // as in the manager
	none := func(string) bool { return false }
	for list, read := range map[string]func(*management.Client) (any, error){
		"members": func(api *management.Client) (any, error) {
			_, few, err := api.Members(t.Context(), 3, none)
			rabbittest.MustBe(t, err, brokererr.ErrResponseTooLarge, "the memory of all vhosts")
			return few, nil
		},
		"message counts": func(api *management.Client) (any, error) { return api.MessageCounts(t.Context(), none) },
		"owners": func(api *management.Client) (any, error) {
			errs := brokererr.Errors{}
			observer := observe.New(t.Context(), observe.Settings{
				WriteAPI: api, KnownOwners: rabbittest.Knowing(), Errors: errs, Health: health.New("/", logr.Discard(), func() {}),
			})
			rabbittest.MustBe(t, observer.CheckUnshared(t.Context()), brokererr.ErrShared)
			return observer, nil
		},
		"tags": func(api *management.Client) (any, error) { return api.Probe(t.Context()) },
		"built-in exchanges": func(api *management.Client) (any, error) {
			info, err := api.Probe(t.Context())
			rabbittest.MustBe(t, err, brokererr.ErrUnreachable, "more than 100 exchanges in a page")
			return info, nil
		},
		"arguments of a built-in exchange": func(api *management.Client) (any, error) { return api.Probe(t.Context()) },
		"match queues": func(api *management.Client) (any, error) {
			names, err := api.MatchQueues(t.Context())
			rabbittest.MustBe(t, err, brokererr.ErrUnreachable, "more than 500 queues in a page")
			return names, nil
		},
		"pages": func(api *management.Client) (any, error) {
			infos, err := api.QueueInfos(t.Context(), []string{"a", "b"}, "^(a|b)$")
			rabbittest.MustBe(t, err, brokererr.ErrUnreachable, "2000000000 pages for 2 queues")
			return infos, nil
		},
	} {
		t.Run(list, func(t *testing.T) {
			api := managementAt(t, hostile.NewManagement(t, hostile.HugeAnswers(size)[list]).URI, management.NewLimits(2*size))
			runtime.GC()
			before, highest, done := inUse(), uint64(0), make(chan any)
			go func() {
				kept, err := read(api)
				if err != nil {
					t.Error(err)
				}
				done <- kept
			}()
			ticker := time.NewTicker(10 * time.Millisecond)
			defer ticker.Stop()
			kept := any(nil)
			for kept == nil {
				select {
				case kept = <-done:
				case <-ticker.C:
					highest = max(highest, inUse())
				}
			}
			runtime.GC()
			after := inUse()
			t.Logf("%d MiB before, %d MiB at most, %d MiB after", before/management.Mebibyte, highest/management.Mebibyte, after/management.Mebibyte)
			if highest > before+peak {
				t.Errorf("takes more than %d MiB while it is read", peak/management.Mebibyte)
			}
			if after > before+left {
				t.Errorf("keeps more than %d MiB", left/management.Mebibyte)
			}
			runtime.KeepAlive(kept)
		})
	}
}

// inUse returns the memory of the process, including garbage.
func inUse() uint64 {
	stats := runtime.MemStats{}
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc + stats.StackInuse
}

// The status has the lowest version of all nodes, and the API server refuses a longer text.
func TestTheVersionOfANodeFitsIntoTheStatus(t *testing.T) {
	t.Parallel()
	node := `[{"name": "rabbit@a", "rabbitmq_version": "4.3.5-` + strings.Repeat("x", 10_000) + `"}]`
	info, err := managementAt(t, hostile.NewManagement(t, hostile.At("nodes", hostile.Text(node))).URI, nil).Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(info.Version, "4.3.5-x") || len(info.Version) > management.LongestVersion {
		t.Errorf("version %q", info.Version)
	}
}

// An answer that exceeds its limit is not read again for a hundred times as long as it took. Refresh returns the reason.
func TestTooLargeAnswerIsNotReadAgainSoon(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	api := hostile.NewManagement(t, hostile.At("whoami", func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		time.Sleep(rabbittest.Within / 50)
		hostile.Endless(`{"tags": ["`, "a")(w, r)
	}))
	config := rabbit.Config{
		AMQPURI: "amqp://127.0.0.1:1", ManagementURI: api.URI, Username: "guest", Password: "guest", VHost: "/", ResyncInterval: time.Millisecond,
	}
	connection, err := rabbittest.OpenWith(config, logr.Discard(), func(snapshot.Notice) {}, rabbittest.Unpaced())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	for range 5 {
		if err := connection.Refresh(t.Context()); !errors.Is(err, brokererr.ErrResponseTooLarge) {
			t.Errorf("got %v", err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("the management API was asked %d times", asked.Load())
	}
}

// The vhost is not read again soon if a refresh failed late, after large answers were decoded.
func TestCostlyFailureIsNotRepeatedSoon(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	queue := func(i int) string { return fmt.Sprintf(`{"name":"%x"}`, i) }
	connection := listedAt(t, 1000, hostile.Either(
		hostile.At("queues", hostile.Huge(management.Mebibyte, "[", queue, "]")),
		hostile.At("operator-policies", func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			hostile.Text("[{]")(w, r)
		}),
	))
	for range 5 {
		if err := connection.Refresh(t.Context()); !errors.Is(err, brokererr.ErrUnreachable) {
			t.Errorf("got %v", err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("the vhost was read %d times", asked.Load())
	}
}

// A refresh failed late, and AMQP reconnects during the pause. It is matched and can be used, and the vhost is not read again.
func TestAMQPIsMatchedDuringThePauseAfterACostlyFailure(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	api := hostile.NewManagement(t, hostile.Either(
		hostile.AtQuery("queues", "columns", hostile.Huge(management.Mebibyte, "[", func(i int) string { return fmt.Sprintf(`{"name":"%x"}`, i) }, "]")),
		hostile.At("operator-policies", func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			hostile.Text("[{]")(w, r)
		}),
	))
	api.Tags = "management" // an administrator reads the definitions instead
	amqp := netfault.NewProxy(t, hostile.NewAMQP(t, wellBehaved).URI)
	timeouts := rabbittest.Unpaced()
	// With this Link, AMQP connects before the first refresh. With this Share, the pause lasts minutes after the large response, and
	// seconds after a failed match.
	timeouts.Link, timeouts.Pace.Share = rabbittest.Within, 10_000
	connection, err := rabbittest.OpenWith(rabbit.Config{
		AMQPURI: amqp.URI, ManagementURI: api.URI, Username: "guest", Password: "guest", VHost: "/", ResyncInterval: time.Hour,
	}, logr.Discard(), func(snapshot.Notice) {}, timeouts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	matchedBy := func() string {
		if now := connection.Health(); now.Matched {
			return now.Place.MatchQueue
		}
		return ""
	}
	NewWithT(t).Eventually(matchedBy).WithTimeout(rabbittest.Within).ShouldNot(BeEmpty())
	if err := connection.Refresh(t.Context()); !errors.Is(err, brokererr.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
	before := matchedBy()
	amqp.Cut()
	NewWithT(t).Eventually(matchedBy).WithTimeout(rabbittest.Within).ShouldNot(Or(BeEmpty(), Equal(before)))
	if asked.Load() != 1 {
		t.Errorf("the vhost was read %d times", asked.Load())
	}
}

// wellBehaved is an AMQP server that makes no mistake.
func wellBehaved(*hostile.Session, hostile.Received) bool { return false }

// The vhost is read again soon if a refresh failed because the broker was slow. Waiting for an answer costs no CPU time.
func TestSlowFailureIsRepeatedSoon(t *testing.T) {
	t.Parallel()
	var failed atomic.Bool
	connection := listedAt(t, 100, hostile.At("operator-policies", func(w http.ResponseWriter, r *http.Request) {
		if failed.Swap(true) {
			hostile.Text("[]")(w, r)
			return
		}
		hostile.Drip("[{]", rabbittest.Within/100)(w, r)
	}))
	NewWithT(t).Eventually(connection.Refresh).WithContext(t.Context()).WithTimeout(rabbittest.Within).Should(Succeed())
	if !failed.Load() {
		t.Error("no refresh failed")
	}
}

func refreshesOften(t *testing.T, connection *rabbittest.Connection) {
	t.Helper()
	for range 5 {
		if err := connection.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A list of connections that cannot be read does not fail refreshes, and is not read again with each of them.
func TestConnectionsAreNotListedAgainSoonAfterAFailure(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	owner := func(i int) string { return fmt.Sprintf(`{"client_properties":{"product":"%x"}}`, i) }
	connection := listedAt(t, 0, hostile.At("vhosts", func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		hostile.Huge(management.Mebibyte, "[", owner, ",[")(w, r)
	}))
	refreshesOften(t, connection)
	if asked.Load() != 1 {
		t.Errorf("the connections were listed %d times", asked.Load())
	}
}

// The messages are not counted again for fifty times as long as the last count took.
func TestMessagesAreNotCountedAgainSoonAfterASlowCount(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	api := hostile.NewManagement(t, hostile.AtQuery("queues", "enable_queue_totals", func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		hostile.Drip("[]", 300*time.Millisecond)(w, r)
	}))
	timeouts := rabbittest.Unpaced()
	timeouts.Link = time.Millisecond // no AMQP server listens
	connection, err := rabbittest.OpenWith(rabbit.Config{
		AMQPURI: "amqp://127.0.0.1:1", ManagementURI: api.URI, Username: "guest", Password: "guest", VHost: "/", ResyncInterval: time.Hour,
		MessageCountsInterval: time.Millisecond, KnownOwners: rabbittest.Knowing(),
	}, logr.Discard(), func(snapshot.Notice) {}, timeouts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	refreshesOften(t, connection)
	if asked.Load() != 1 {
		t.Errorf("the messages were counted %d times", asked.Load())
	}
}

// After the tags of its user have changed, a connection reads the vhost twice, because one read does not see the vhost at one moment. It
// does not use an earlier read of another connection, because that read may lack a change that this connection has made since.
func TestTheVHostIsReadTwiceAfterTheTagsHaveChanged(t *testing.T) {
	t.Parallel()
	var changed, joins atomic.Bool
	var asked atomic.Int32
	connections := make([]*rabbittest.Connection, 2)
	api := hostile.NewManagement(t, hostile.Either(
		hostile.At("whoami", func(w http.ResponseWriter, r *http.Request) {
			hostile.Text(map[bool]string{false: `{"tags": ["management"]}`, true: `{"tags": ["monitoring"]}`}[changed.Load()])(w, r)
		}),
		hostile.Either(
			hostile.At("nodes", func(w http.ResponseWriter, r *http.Request) {
				if joins.Swap(false) {
					if err := connections[0].Refresh(t.Context()); err != nil {
						t.Error(err)
					}
					asked.Store(0)
				}
				hostile.Text(`[{"rabbitmq_version": "4.3.6"}]`)(w, r)
			}),
			hostile.AtQuery("queues", "columns="+management.QueueColumns, func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				hostile.Text("[]")(w, r)
			}),
		),
	))
	timeouts := rabbittest.Unpaced()
	timeouts.Link = rabbittest.Within // AMQP connects before the first refresh: without it, no snapshot is shared
	config := rabbit.Config{
		AMQPURI: hostile.NewAMQP(t, wellBehaved).URI, ManagementURI: api.URI, Username: "guest", Password: "guest", VHost: "/",
		ResyncInterval: time.Hour, KnownOwners: rabbittest.Knowing(), Observations: rabbit.NewObservations(),
	}
	for i := range connections {
		connection, err := rabbittest.OpenWith(config, logr.Discard(), func(snapshot.Notice) {}, timeouts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(connection.Close)
		rabbittest.AwaitHealth(t, connection, func(g Gomega, health rabbit.Health) {
			g.Expect(health.Matched && !health.SyncedAt.IsZero()).To(BeTrue())
		})
		connections[i] = connection
	}
	changed.Store(true)
	if err := connections[0].Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	joins.Store(true) // the other connection reads the vhost while this one reads the identity of the broker
	if err := connections[1].Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if asked.Load() != 2 {
		t.Errorf("the vhost was read %d times", asked.Load())
	}
}

// The connections are listed once for all fences of recreations, and not again soon. Their owner is connected, so the fences stay.
func TestConnectionsAreListedOnceForManyFences(t *testing.T) {
	t.Parallel()
	var asked, kept atomic.Int32
	fences := make([]string, 20)
	for i := range fences {
		fences[i] = fmt.Sprintf(`{"name":"warren-recreate-1-AAAAAA:other:q%[1]d","vhost":"/","pattern":"^q%[1]d$","definition":{}}`, i)
	}
	listed := fmt.Sprintf(`[{"client_properties":{"product":%q,%q:"other"}}]`, amqpconn.Product, amqpconn.OwnerProperty)
	api := hostile.NewManagement(t, hostile.Either(
		hostile.At("definitions", hostile.Text(
			`{"queues": [], "exchanges": [], "bindings": [], "parameters": [], "policies": [`+strings.Join(fences, ",")+"]}")),
		hostile.AtQuery("vhosts", "client_properties", func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			hostile.Drip(listed, 10*time.Millisecond)(w, r) // most of a second, so that the pause is longer than the test
		}),
	))
	logger := funcr.New(func(_, line string) {
		if strings.Contains(line, "Cannot take down a fence") {
			kept.Add(1)
		}
	}, funcr.Options{})
	timeouts := rabbittest.Unpaced()
	timeouts.Leftover, timeouts.Vanish = time.Millisecond, time.Millisecond
	connection, err := rabbittest.OpenWith(rabbit.Config{
		AMQPURI: hostile.NewAMQP(t, wellBehaved).URI, ManagementURI: api.URI,
		Username: "guest", Password: "guest", VHost: "/", ResyncInterval: time.Hour, KnownOwners: rabbittest.Knowing(),
	}, logger, func(snapshot.Notice) {}, timeouts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	NewWithT(t).Eventually(func() int32 {
		_ = connection.Refresh(t.Context())
		return kept.Load()
	}).WithTimeout(rabbittest.Within).Should(BeNumerically(">=", len(fences)))
	if asked.Load() != 1 {
		t.Errorf("the connections were listed %d times", asked.Load())
	}
}

// listedAt opens a connection to a management API alone. It reads the vhost with several requests. share is Pace.Share.
func listedAt(t *testing.T, share int, misbehave func(http.ResponseWriter, *http.Request) bool) *rabbittest.Connection {
	t.Helper()
	api := hostile.NewManagement(t, misbehave)
	api.Tags = "management" // an administrator reads the definitions instead
	timeouts := rabbittest.Unpaced()
	timeouts.Link, timeouts.Pace.Share = time.Millisecond, share
	connection, err := rabbittest.OpenWith(rabbit.Config{
		AMQPURI: "amqp://127.0.0.1:1", ManagementURI: api.URI, Username: "guest", Password: "guest", VHost: "/", ResyncInterval: time.Hour,
		KnownOwners: rabbittest.Knowing(),
	}, logr.Discard(), func(snapshot.Notice) {}, timeouts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	return connection
}

// The error names the limit that was exceeded, and the flag that raises it.
func TestResponseTooLarge(t *testing.T) {
	t.Parallel()
	ways := hostile.Ways()
	small := int64(4 * management.Mebibyte) // for answers that are read up to the limit
	for name, test := range map[string]struct {
		limit int64
		says  string
	}{
		"one endless string": {0, "response too large: the answer is larger than 1Mi"},
		"endless parameters": {small, "response too large: the memory of all vhosts, with this answer, is larger than 24Mi: raise"},
		"endless arguments":  {0, "response too large: an item of the answer is larger than 1Mi"},
		"endless nothing":    {small, "response too large: the answer is larger than 4Mi: raise the manager's flag --max-management-response"},
		"a bomb":             {0, "response too large: the answer is larger than 1Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := managementAt(t, hostile.NewManagement(t, ways[name]).URI, management.NewLimits(test.limit))
			_, err := api.Probe(t.Context())
			if err == nil {
				_, _, err = snapshot.ReadDefinitions(t.Context(), api, "", nil)
			}
			rabbittest.MustBe(t, err, brokererr.ErrResponseTooLarge, "management API, GET /api/", test.says)
			if !errors.Is(err, brokererr.ErrUnreachable) {
				t.Errorf("%v is not ErrUnreachable", err)
			}
		})
	}
}

func managementAt(t *testing.T, uri string, limits *management.Limits) *management.Client {
	t.Helper()
	return managementThrough(t, uri, limits, nil)
}

// managementThrough returns a client whose requests pass through wrap.
func managementThrough(t *testing.T, uri string, limits *management.Limits, wrap func(http.RoundTripper) http.RoundTripper) *management.Client {
	t.Helper()
	to, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	return management.NewClient(management.Options{
		URI: to, VHost: "/", Endpoint: "localhost:5672", Timeout: rabbittest.Within, Connections: 1, Limits: limits, Wrap: wrap,
	})
}

// The largest vhost that was measured, 60,000 queues in 16 MB, is far below the limits. A tenth of it takes no more memory than is
// counted, and less than a tenth of a sixth of the limit.
func TestLargeVHostIsWithinTheLimits(t *testing.T) {
	limits := management.NewLimits(0)
	server := hostile.NewManagement(t, hostile.At("definitions", hostile.Text(largeVHost(1000))))
	api := managementAt(t, server.URI, limits)
	runtime.GC()
	before := inUse()
	fresh, _, err := snapshot.ReadDefinitions(t.Context(), api, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(fresh.Queues) != 6000 {
		t.Errorf("%d queues", len(fresh.Queues))
	}
	runtime.GC()
	taken, counted := int64(inUse()-before), fresh.Room.Taken
	if taken > counted {
		t.Errorf("takes %d bytes, counted are %d", taken, counted)
	}
	if counted > limits.Memory/60 {
		t.Errorf("%d MiB of %d are counted", counted/management.Mebibyte, limits.Memory/management.Mebibyte)
	}
	runtime.KeepAlive(fresh)
}

// largeVHost returns the definitions of topologies of six queues each.
func largeVHost(topologies int) string {
	queues, exchanges, bindings := []string{}, []string{}, []string{}
	for i := range topologies {
		main := fmt.Sprintf("department.service-%05d.event", i)
		for _, suffix := range []string{"", ".retry.30s", ".retry.5m", ".retry.30m", ".retry.1h", ".dlq"} {
			queues = append(queues, fmt.Sprintf(`{"name":%q,"durable":true,"auto_delete":false,"arguments":{"x-queue-type":"quorum",`+
				`"x-dead-letter-exchange":"","x-dead-letter-routing-key":%q,"x-dead-letter-strategy":"at-least-once",`+
				`"x-overflow":"reject-publish","x-message-ttl":%d}}`, main+suffix, main, 30000+i))
		}
		exchanges = append(exchanges, fmt.Sprintf(`{"name":"%s.dlx","type":"fanout","durable":true,"auto_delete":false,"internal":false,"arguments":{}}`, main))
		for _, source := range []string{"events", main + ".dlx"} {
			bindings = append(bindings, fmt.Sprintf(`{"source":%q,"destination":%q,"destination_type":"queue","routing_key":%q,"arguments":{}}`,
				source, main, main))
		}
	}
	return fmt.Sprintf(`{"queues":[%s],"exchanges":[%s],"bindings":[%s]}`,
		strings.Join(queues, ","), strings.Join(exchanges, ","), strings.Join(bindings, ","))
}

// Following a redirect would send the password to another server.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	asked := atomic.Int32{}
	elsewhere := hostile.NewManagement(t, func(http.ResponseWriter, *http.Request) bool {
		asked.Add(1)
		return false
	})
	server := hostile.NewManagement(t, hostile.At("", hostile.Redirect(elsewhere.URI+"/api/whoami")))
	_, err := managementAt(t, server.URI, nil).Probe(t.Context())
	rabbittest.MustBe(t, err, brokererr.ErrUnreachable, "answered 307 Temporary Redirect; is this RabbitMQ's management API?")
	if asked.Load() > 0 {
		t.Error("the other server was asked")
	}
}

// The end of a request's context does not close a connection that was switched to another protocol, and the server sends nothing on it.
func TestASwitchOfProtocolsIsRefused(t *testing.T) {
	t.Parallel()
	server := hostile.NewManagement(t, hostile.At("", hostile.SwitchingProtocols()))
	api := managementAt(t, server.URI, nil)
	for name, request := range map[string]func() error{
		"a read": func() error {
			_, err := api.Probe(t.Context())
			return err
		},
		"a write": func() error { return api.Delete(t.Context(), "/queues/%2F/orders") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answered := make(chan error, 1)
			go func() { answered <- request() }()
			NewWithT(t).Eventually(answered).WithTimeout(rabbittest.Within).Should(Receive(SatisfyAll(
				MatchError(brokererr.ErrUnreachable),
				MatchError(ContainSubstring("answered 101 Switching Protocols; is this RabbitMQ's management API?")),
			)))
		})
	}
}

// A worker of the manager waits for the end of Close.
func TestCloseEndsAfterASwitchOfProtocols(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := hostile.NewManagement(t, hostile.At("", hostile.SwitchingProtocols()))
	connection, err := rabbittest.OpenWith(rabbit.Config{
		AMQPURI: "amqp://127.0.0.1:1", ManagementURI: server.URI, Username: "guest", Password: "guest", VHost: "/", ResyncInterval: time.Hour,
	}, logr.Discard(), func(snapshot.Notice) {}, rabbittest.Unpaced())
	g.Expect(err).NotTo(HaveOccurred())
	refused := func() error { return connection.Health().Err }
	g.Eventually(refused).WithTimeout(rabbittest.Within).Should(MatchError(ContainSubstring("answered 101 Switching Protocols")))
	closed := make(chan struct{})
	go func() {
		connection.Close()
		close(closed)
	}()
	g.Eventually(closed).WithTimeout(rabbittest.Within).Should(BeClosed())
}

// A server that quotes the request puts the password into a reason, encoded as in the header Authorization. Conditions and Events show
// the reason to users who must not read the Secret.
func TestRefusalThatQuotesTheAuthorization(t *testing.T) {
	t.Parallel()
	server := hostile.NewManagement(t, hostile.At("", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, `{"error": "denied", "reason": "the request had %s"}`, r.Header.Get("Authorization"))
	}))
	uri, err := url.Parse(server.URI)
	if err != nil {
		t.Fatal(err)
	}
	api := management.NewClient(management.Options{
		URI: uri, Username: "warren", Password: "correct-horse", VHost: "/", Timeout: rabbittest.Within, Connections: 1,
	})
	t.Cleanup(api.Close)
	_, err = api.Probe(t.Context())
	want := `management API, GET /api/whoami: access refused: user "warren": the request had Basic [redacted]`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// A proxy refuses a request with an answer in HTML.
func TestRefusalWithoutReason(t *testing.T) {
	t.Parallel()
	server := hostile.NewManagement(t, hostile.At("", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<html>No!</html>")
	}))
	api := managementAt(t, server.URI, nil)
	_, err := api.Probe(t.Context())
	want := `management API, GET /api/whoami: access refused: user "": answered 403 Forbidden; is this RabbitMQ's management API?`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// An error quotes a part of the broker's answer, without half a password at its end.
func TestErrorsAreShort(t *testing.T) {
	t.Parallel()
	errs := brokererr.Errors{Password: "correct-horse"}
	err := errs.Fail(brokererr.ErrUnreachable, "%s", strings.Repeat("x", brokererr.LongestText-len("broker unreachable: ")-8)+errs.Password)
	if len(err.Error()) > brokererr.LongestText || strings.Contains(err.Error(), "corr") || !strings.Contains(err.Error(), "[reda") {
		t.Errorf("%d bytes, ends in %q", len(err.Error()), err.Error()[brokererr.LongestText-30:])
	}
}

// The same failure has the same text each time.
func TestExpiredCertificatesGiveOneText(t *testing.T) {
	t.Parallel()
	for detail, want := range map[string]string{
		"current time 2026-01-02T03:04:05Z is after 2025-01-01T00:00:00Z":       "valid until 2025-01-01T00:00:00Z",
		"current time 2026-01-02T03:04:06+01:00 is before 2027-01-01T00:00:00Z": "valid from 2027-01-01T00:00:00Z",
	} {
		certificate := x509.CertificateInvalidError{Reason: x509.Expired, Detail: detail}
		err := brokererr.Errors{}.Unreachable(&url.Error{Op: "Get", URL: "https://mq", Err: &tls.CertificateVerificationError{Err: certificate}})
		want = "broker unreachable: tls: failed to verify certificate: x509: certificate has expired or is not yet valid: " + want
		if err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// A connection that is closed before its broker has answered must not begin another refresh.
func TestCloseBeforeTheBrokerHasAnswered(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 100)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		asked <- struct{}{}
		<-request.Context().Done()
	}))
	t.Cleanup(silent.Close)
	config := rabbit.Config{
		AMQPURI: "amqp://127.0.0.1:1", ManagementURI: silent.URL, Username: "guest", Password: "guest", VHost: "/",
		ResyncInterval: time.Hour,
	}
	timeouts := timing.Default
	timeouts.Link = time.Millisecond // no AMQP server listens
	for range 20 {                   // the former error was intermittent
		connection, err := rabbit.OpenWith(config, logr.Discard(), func(snapshot.Notice) {}, timeouts)
		if err != nil {
			t.Fatal(err)
		}
		<-asked
		connection.RequestRefresh()
		connection.Close()
	}
}
