package consumer_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
)

// chaosMessages is the default for WARREN_CHAOS_MESSAGES, the number of messages of each case.
const chaosMessages = 100_000

// chaosStride is the number of messages between two faults. It keeps a consumer busy for seconds, because the growth of reconnect
// delays is not measured here.
const chaosStride = 20_000

// BenchmarkChaos consumes a backlog in a separate process while a fault occurs repeatedly, and counts lost and repeated messages.
// One message in five fails at first.
func BenchmarkChaos(b *testing.B) {
	count := chaosMessages
	if given, err := strconv.Atoi(os.Getenv("WARREN_CHAOS_MESSAGES")); err == nil {
		count = given
	}
	for strategy, spec := range map[string]string{
		"Publish": `{retry: {maxAttempts: 20, delayTiers: [{delay: 200ms}]}, queue: {consumerTimeout: 5s}}`,
		"Reject":  `{retry: {strategy: Reject, maxAttempts: 20, delayTiers: [{delay: 200ms}]}, queue: {consumerTimeout: 5s}}`,
		"Requeue": `{retry: {strategy: Requeue, maxAttempts: 100}, queue: {consumerTimeout: 5s}}`,
	} {
		for name, fault := range map[string]func(c *chaos){
			"connections cut":    func(c *chaos) { c.proxy.Cut() },
			"consumer killed":    func(c *chaos) { c.restart(syscall.SIGKILL) },
			"consumer drained":   func(c *chaos) { c.restart(syscall.SIGTERM) },
			"consumer timeout":   (*chaos).freeze,
			"permission revoked": (*chaos).revoke,
			"broker stopped":     func(c *chaos) { c.broker.Stop(); c.broker.Start() },
		} {
			b.Run(strategy+", "+name, func(b *testing.B) {
				for b.Loop() {
					newChaos(b, spec, count).run(fault)
				}
			})
		}
	}
}

// chaos is a private broker and a consumer in a separate process, which records the handled messages.
type chaos struct {
	b        *testing.B
	count    int
	broker   *brokers.Private
	world    *world
	proxy    *netfault.Proxy
	folder   string
	consumer *exec.Cmd
	faults   int
	unclean  int // drains that failed

	written *bufio.Reader
	partial string         // an incomplete line
	times   map[string]int // how often each message was handled
}

func newChaos(b *testing.B, spec string, count int) *chaos {
	b.Helper()
	c := &chaos{b: b, count: count, broker: brokers.NewPrivate(b), folder: b.TempDir(), times: map[string]int{}}
	c.world = newWorld(b, c.broker.Broker, spec)
	for backlog := range slices.Chunk(bodies(count), 50_000) {
		c.world.Publish("", "orders", backlog...)
	}
	c.proxy = netfault.NewProxy(b, c.broker.Broker.AMQPURI)
	document, err := json.Marshal(c.world.contract)
	if err == nil {
		err = os.WriteFile(filepath.Join(c.folder, "contract.json"), document, 0o600)
	}
	c.world.check(err)
	file, err := os.Create(filepath.Join(c.folder, "handled"))
	c.world.check(err)
	b.Cleanup(func() { _ = file.Close() })
	c.written = bufio.NewReader(file)
	return c
}

func (c *chaos) run(fault func(*chaos)) {
	c.b.Helper()
	c.start()
	began := time.Now()
	for handled := 0; handled < c.count && time.Since(began) < time.Hour; handled = c.handled() {
		time.Sleep(10 * time.Millisecond)
		if handled > (c.faults+1)*chaosStride {
			fault(c)
			c.faults++
		}
	}
	c.end(syscall.SIGTERM)
	c.handled()
	twice := 0
	for _, n := range c.times {
		twice += n - 1
	}
	c.b.ReportMetric(0, "ns/op")
	c.b.ReportMetric(float64(c.faults), "faults")
	c.b.ReportMetric(float64(c.count), "messages")
	c.b.ReportMetric(float64(c.count-len(c.times)), "lost")
	c.b.ReportMetric(float64(twice), "twice")
	c.b.ReportMetric(float64(c.world.Ready("orders.dlq")), "dead-lettered")
	c.b.ReportMetric(float64(c.unclean), "unclean-drains")
}

// start starts the consumer, which is this program; see TestMain.
func (c *chaos) start() {
	c.consumer = exec.Command(os.Args[0])
	c.consumer.Env = append(os.Environ(), "WARREN_CHAOS_FOLDER="+c.folder, "WARREN_CHAOS_URI="+c.world.uri(c.proxy.Address))
	c.consumer.Stderr = os.Stderr
	c.world.check(c.consumer.Start())
}

func (c *chaos) restart(how syscall.Signal) {
	c.end(how)
	c.start()
}

// freeze stops the consumer for longer than the consumer timeout, but shorter than the connection survives without heartbeats.
func (c *chaos) freeze() {
	c.world.check(c.consumer.Process.Signal(syscall.SIGSTOP))
	time.Sleep(8 * time.Second)
	c.world.check(c.consumer.Process.Signal(syscall.SIGCONT))
}

// revoke revokes the permission to write for a while. A channel caches permissions, so revoke closes the connections.
func (c *chaos) revoke() {
	user := brokers.User{Username: c.world.Broker.Username, Password: c.world.Broker.Password}
	c.world.Grant(user, ".*", "^$", ".*")
	c.proxy.Cut()
	time.Sleep(5 * time.Second)
	c.world.Grant(user, ".*", ".*", ".*")
}

func (c *chaos) end(how syscall.Signal) {
	c.world.check(c.consumer.Process.Signal(how))
	if err := c.consumer.Wait(); err != nil && how == syscall.SIGTERM {
		c.unclean++
	}
}

// handled returns the number of different messages that were handled. It reads the new lines since the last call.
func (c *chaos) handled() int {
	c.b.Helper()
	for {
		line, err := c.written.ReadString('\n')
		c.partial += line
		if errors.Is(err, io.EOF) {
			return len(c.times)
		}
		c.world.check(err)
		c.times[c.partial]++
		c.partial = ""
	}
}

// consumeInChaos is the process of the consumer. A handled message is in the file once a write has returned, whatever happens to
// the process.
func consumeInChaos(folder, uri string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	file, err := os.OpenFile(filepath.Join(folder, "handled"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	made, err := consumer.New(consumer.NewConn(consumer.URI(uri)), contract.File(filepath.Join(folder, "contract.json")),
		func(_ context.Context, m *consumer.Message[string]) error {
			if strings.HasSuffix(m.Body, "7") && m.Attempt() == 1 {
				return errors.New("no stock")
			}
			_, err := fmt.Fprintln(file, m.Body)
			return err
		}, consumer.WithConcurrency(16), consumer.WithPrefetch(64), consumer.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	return made.Run(ctx)
}
