// Package consumer_test tests the consumer library on real brokers.
package consumer_test

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
)

// maxTests is how many tests run at the same time. Most of them wait for a delay or a timeout.
const maxTests = 24

func TestMain(m *testing.M) {
	if folder := os.Getenv("WARREN_CHAOS_FOLDER"); folder != "" { // see BenchmarkChaos
		if err := consumeInChaos(folder, os.Getenv("WARREN_CHAOS_URI")); err != nil {
			_, _ = io.WriteString(os.Stderr, err.Error())
			os.Exit(1)
		}
		return
	}
	SetDefaultEventuallyTimeout(deadline.For(10 * time.Second))
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(maxTests)); err != nil {
		panic(err)
	}
	code := m.Run()
	// The tests' own HTTP connections stay open for a while.
	idle := []goleak.Option{goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop")}
	if err := goleak.Find(idle...); code == 0 && err != nil {
		_, _ = io.WriteString(os.Stderr, err.Error())
		code = 1
	}
	os.Exit(code)
}

// world is the topology of a ConsumerQueue named orders in its own vhost.
type world struct {
	*brokers.VHost

	tb       testing.TB
	contract contract.Contract
}

// onEach runs a test on each version of RabbitMQ, with the topology of a spec.
func onEach(t *testing.T, spec string, test func(w *world)) {
	t.Helper()
	for _, broker := range brokers.All(t) {
		t.Run(broker.Version, func(t *testing.T) {
			t.Parallel()
			test(newWorld(t, broker, spec))
		})
	}
}

func newWorld(t testing.TB, broker brokers.Broker, spec string) *world {
	t.Helper()
	cq := &v1alpha1.ConsumerQueue{}
	cq.Name = "orders"
	if err := yaml.UnmarshalStrict([]byte(spec), &cq.Spec); err != nil {
		t.Fatal(err)
	}
	version, err := vhost.ParseVersion(broker.Version)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{VHost: broker.NewVHost(t), tb: t}
	if w.contract, err = topology.ContractOf(cq, w.Name, version); err != nil {
		t.Fatal(err)
	}
	desired, err := topology.Desired(cq, version)
	if err != nil {
		t.Fatal(err)
	}
	w.declare(desired)
	return w
}

func (w *world) declare(desired topology.Topology) {
	w.tb.Helper()
	for _, exchange := range desired.Exchanges {
		w.DeclareExchange(exchange.Name, string(exchange.Type), nil)
	}
	for _, queue := range desired.Queues {
		w.DeclareQueue(queue.Name, queue.Arguments)
	}
	for _, binding := range desired.Bindings {
		w.Bind(binding.Source, binding.Destination, binding.RoutingKey, binding.Arguments)
	}
}

// uri returns the URI of the vhost, with another address if one is given.
func (w *world) uri(address string) string {
	uri, err := url.Parse(w.Broker.AMQPURI)
	if err != nil {
		w.tb.Fatal(err)
	}
	if address != "" {
		uri.Host = address
	}
	uri.User = url.UserPassword(w.Broker.Username, w.Broker.Password)
	uri.Path, uri.RawPath = "/"+w.Name, "/"+url.PathEscape(w.Name)
	return uri.String()
}

// running is a running consumer.
type running struct {
	*consumer.Consumer

	stop  context.CancelFunc
	ended chan error
}

// run runs a consumer until the test ends or end is called.
func (w *world) run(conn *consumer.Conn, handle consumer.Handler[string], options ...consumer.Option) *running {
	w.tb.Helper()
	logger := slog.New(slog.NewTextHandler(testLog{w.tb}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	made, err := consumer.New(conn, w.contract, handle, append([]consumer.Option{consumer.WithLogger(logger)}, options...)...)
	if err != nil {
		w.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Consumer: made, stop: cancel, ended: make(chan error, 1)}
	go func() {
		r.ended <- made.Run(ctx)
		close(r.ended)
	}()
	w.tb.Cleanup(func() {
		_ = r.end() // nil if the test has called it before
	})
	return r
}

func (w *world) conn(options ...consumer.ConnOption) *consumer.Conn {
	return consumer.NewConn(consumer.URI(w.uri("")), options...)
}

// connPublishingThrough returns a Conn that consumes directly and publishes through a proxy. A consumer opens the consuming
// connection first.
func (w *world) connPublishingThrough(proxy *netfault.Proxy) *consumer.Conn {
	consumes := &atomic.Bool{}
	return w.conn(consumer.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		if consumes.Swap(true) {
			address = proxy.Address
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}))
}

// quiet discards the log.
var quiet = consumer.WithLogger(slog.New(slog.DiscardHandler))

// end stops a consumer and returns the result of Run.
func (r *running) end() error {
	r.stop()
	return <-r.ended
}

// testLog writes to the log of a test.
type testLog struct{ t testing.TB }

func (l testLog) Write(line []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}

// handledCounts counts how often each message was handled.
type handledCounts struct {
	mu      sync.Mutex
	handled map[string]int
}

func (c *handledCounts) add(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handled == nil {
		c.handled = map[string]int{}
	}
	c.handled[id]++
	return c.handled[id]
}

func (c *handledCounts) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handled = nil
}

// different returns the number of handled messages, and repeated the number of repetitions.
func (c *handledCounts) different() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.handled)
}

func (c *handledCounts) repeated() (count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, times := range c.handled {
		count += times - 1
	}
	return count
}

// deadLetter contains the failure headers of a dead letter.
type deadLetter struct {
	Kind, Message string
	Retries       any
}

func deadLetterOf(message amqp.Delivery) deadLetter {
	kind, _ := message.Headers[contract.HeaderFailureKind].(string)
	text, _ := message.Headers[contract.HeaderFailureMessage].(string)
	return deadLetter{kind, text, message.Headers[contract.HeaderRetryCount]}
}

// deadLetters waits until the dead-letter queue has count messages, removes them, and returns them by body.
func (w *world) deadLetters(count int) map[string]deadLetter {
	w.tb.Helper()
	g := NewWithT(w.tb)
	g.Eventually(func() int { return w.Ready(w.contract.DeadLetterQueue) }).WithTimeout(deadline.For(time.Minute)).WithPolling(100 * time.Millisecond).Should(Equal(count))
	connection, err := w.Connect("dead letters")
	g.Expect(err).NotTo(HaveOccurred())
	defer connection.Close()
	channel, err := connection.Channel()
	g.Expect(err).NotTo(HaveOccurred())
	found := map[string]deadLetter{}
	for range count {
		message, ok, err := channel.Get(w.contract.DeadLetterQueue, true)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(ok).To(BeTrue())
		found[string(message.Body)] = deadLetterOf(message)
	}
	return found
}

// changing are credentials that change.
type changing struct {
	mu  sync.Mutex
	uri string
}

// URI returns the last URI that was set.
func (c *changing) URI(context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.uri, nil
}

func (c *changing) set(uri string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uri = uri
}
