package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/test/brokers"
)

// shape is how a backlog is consumed.
type shape struct {
	messages, prefetch, concurrency, body int
	fails                                 bool
	slow                                  time.Duration // average time per message
}

// BenchmarkConsumer consumes a backlog with amqp091-go alone, which acks each message, and then with the library. One iteration
// runs both. It reports geometric means of the library's figures divided by amqp091-go's.
func BenchmarkConsumer(b *testing.B) {
	for name, s := range map[string]shape{
		"prefetch 1":                      {messages: 5000, prefetch: 1, concurrency: 1, body: 100},
		"prefetch 10, concurrency 8":      {messages: 20000, prefetch: 10, concurrency: 8, body: 100},
		"prefetch 20, concurrency 10":     {messages: 30000, prefetch: 20, concurrency: 10, body: 100},
		"prefetch 100, concurrency 1":     {messages: 60000, prefetch: 100, concurrency: 1, body: 100},
		"prefetch 100, concurrency 8":     {messages: 60000, prefetch: 100, concurrency: 8, body: 100},
		"prefetch 1000, concurrency 1":    {messages: 60000, prefetch: 1000, concurrency: 1, body: 100},
		"prefetch 1000, concurrency 8":    {messages: 60000, prefetch: 1000, concurrency: 8, body: 100},
		"prefetch 100, bodies of 1 kB":    {messages: 60000, prefetch: 100, concurrency: 8, body: 1000},
		"prefetch 100, all messages fail": {messages: 10000, prefetch: 100, concurrency: 8, body: 100, fails: true},
		"prefetch 100, one takes 0.7 s":   {messages: 30000, prefetch: 100, concurrency: 8, body: 100, slow: 700 * time.Millisecond},
	} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, brokers.Newest(b), `{retry: {delayTiers: [{delay: 1h}]}}`)
			broker := processOf(b, w.Broker)
			rate, clientCPU, brokerCPU, allocations, raw := 0.0, 0.0, 0.0, 0.0, 0.0
			for b.Loop() {
				bare := w.measure(s, broker, consumeBare)
				ours := w.measure(s, broker, consumeByLibrary)
				raw += math.Log(bare.rate)
				rate += math.Log(ours.rate / bare.rate)
				clientCPU += math.Log(ours.client / bare.client)
				brokerCPU += math.Log(ours.broker / bare.broker)
				allocations += ours.allocations - bare.allocations
			}
			n := float64(b.N)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(math.Exp(raw/n), "bare-msg/s")
			b.ReportMetric(math.Exp(rate/n), "rate/bare")
			b.ReportMetric(math.Exp(clientCPU/n), "client-CPU/bare")
			b.ReportMetric(math.Exp(brokerCPU/n), "broker-CPU/bare")
			b.ReportMetric(allocations/n, "allocs-over-bare")
		})
	}
}

// figures are the results of one run: messages per second, and CPU seconds and allocations per message.
type figures struct{ rate, client, broker, allocations float64 }

// handled counts messages and records the times of the first and the last.
type handled struct {
	count       atomic.Int64
	begun       atomic.Int64
	of          int64
	first, last atomic.Int64
	done        chan struct{}
}

func (h *handled) add() {
	switch h.count.Add(1) {
	case 1:
		h.first.Store(time.Now().UnixNano())
	case h.of:
		h.last.Store(time.Now().UnixNano())
		close(h.done)
	}
}

// begin simulates the work for one message.
func (h *handled) begin(s shape) {
	if s.slow > 0 && h.begun.Add(1) == h.of/2 {
		time.Sleep(s.slow)
	}
}

// measure fills the queue and consumes it.
func (w *world) measure(s shape, broker procfs.Proc, consume func(*world, shape, *handled)) figures {
	w.tb.Helper()
	w.Publish("", "orders", repeated(strings.Repeat("x", s.body), s.messages)...)
	counted := &handled{of: int64(s.messages), done: make(chan struct{})}
	runtime.GC()
	before, client, server := mallocs(), cpuOf(syscall.RUSAGE_SELF), cpuOfProcess(w.tb, broker)
	consume(w, s, counted)
	n := float64(s.messages)
	return figures{
		rate:        (n - 1) / time.Duration(counted.last.Load()-counted.first.Load()).Seconds(),
		client:      (cpuOf(syscall.RUSAGE_SELF) - client).Seconds() / n,
		broker:      (cpuOfProcess(w.tb, broker) - server).Seconds() / n,
		allocations: float64(mallocs()-before) / n,
	}
}

func repeated(body string, count int) []string {
	all := make([]string, count)
	for i := range all {
		all[i] = body
	}
	return all
}

// consumeBare acks each message. If messages fail, the handling goroutine publishes each to the tier and waits for its confirm.
func consumeBare(w *world, s shape, counted *handled) {
	connection, err := w.Connect("bare")
	w.check(err)
	defer connection.Close()
	channel, err := connection.Channel()
	w.check(err)
	w.check(channel.Qos(s.prefetch, 0, false))
	publishing, err := connection.Channel()
	w.check(err)
	w.check(publishing.Confirm(false))
	deliveries, err := channel.Consume("orders", "bare", false, false, false, false, nil)
	w.check(err)
	var working sync.WaitGroup
	for range s.concurrency {
		working.Go(func() {
			for d := range deliveries {
				counted.begin(s)
				if s.fails {
					confirmation, err := publishing.PublishWithDeferredConfirm("", w.contract.Tiers[0].RoutingKey, true, false,
						amqp.Publishing{DeliveryMode: amqp.Persistent, Body: d.Body, Headers: amqp.Table{"x-retry-count": int64(1)}})
					if err != nil || !confirmation.Wait() {
						return
					}
				}
				if d.Ack(false) != nil {
					return
				}
				counted.add()
			}
		})
	}
	<-counted.done
	w.check(channel.Cancel("bare", false))
	working.Wait()
}

func consumeByLibrary(w *world, s shape, counted *handled) {
	observe := consumer.Observer{}
	if s.fails { // measured is the end of the delivery, not the return of the handler
		observe.Settled = func(consumer.Settlement) { counted.add() }
	}
	made, err := consumer.New(w.conn(), w.contract, func(context.Context, *consumer.Message[[]byte]) error {
		counted.begin(s)
		if s.fails {
			return errors.New("no stock")
		}
		counted.add()
		return nil
	}, consumer.WithPrefetch(s.prefetch), consumer.WithConcurrency(s.concurrency), consumer.WithObserver(observe),
		consumer.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))))
	w.check(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	<-counted.done
	cancel()
	w.check(<-ended)
}

func (w *world) check(err error) {
	w.tb.Helper()
	if err != nil {
		w.tb.Fatal(err)
	}
}

func mallocs() uint64 {
	stats := runtime.MemStats{}
	runtime.ReadMemStats(&stats)
	return stats.Mallocs
}

func cpuOf(who int) time.Duration {
	usage := syscall.Rusage{}
	_ = syscall.Getrusage(who, &usage) // fails only for an unknown who
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// processOf returns the local process that listens at a broker's port.
func processOf(tb testing.TB, broker brokers.Broker) procfs.Proc {
	tb.Helper()
	uri, err := url.Parse(broker.AMQPURI)
	if err != nil {
		tb.Fatal(err)
	}
	socket := listeningSocket(tb, uri.Port())
	processes, err := procfs.AllProcs()
	if err != nil {
		tb.Fatal(err)
	}
	for _, process := range processes {
		if files, err := process.FileDescriptorTargets(); err == nil && slices.Contains(files, socket) {
			return process
		}
	}
	tb.Fatalf("no local process listens on port %s", uri.Port())
	return procfs.Proc{}
}

// listeningSocket returns the socket that listens at a port, as it appears among the files of a process.
func listeningSocket(tb testing.TB, port string) string {
	tb.Helper()
	machine, err := procfs.NewDefaultFS()
	if err != nil {
		tb.Fatal(err)
	}
	const listens = 0x0A
	//nolint:staticcheck // deprecated, because netlink is faster: here it is called once
	for _, read := range []func() (procfs.NetTCP, error){machine.NetTCP, machine.NetTCP6} {
		sockets, err := read()
		if err != nil {
			tb.Fatal(err)
		}
		for _, socket := range sockets {
			if socket.St == listens && strconv.FormatUint(socket.LocalPort, 10) == port {
				return fmt.Sprintf("socket:[%d]", socket.Inode)
			}
		}
	}
	tb.Fatalf("no process listens on port %s", port)
	return ""
}

func cpuOfProcess(tb testing.TB, process procfs.Proc) time.Duration {
	tb.Helper()
	stat, err := process.Stat()
	if err != nil {
		tb.Fatal(err)
	}
	return time.Duration(stat.CPUTime() * float64(time.Second))
}
