package safedelete_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

// BenchmarkDeleteEmpty deletes the empty queues of WARREN_DELETED_TOGETHER (100) topologies of a main queue, a tier and a dead-letter
// queue in parallel, as the manager does: tier and main queue together, and then the dead-letter queue. It requests a refresh before
// each fence, as the manager does.
func BenchmarkDeleteEmpty(b *testing.B) {
	count, err := strconv.Atoi(os.Getenv("WARREN_DELETED_TOGETHER"))
	if err != nil {
		count = 100
	}
	private := brokers.NewPrivate(b)                                     // no other client uses its CPU time
	private.Eval("vm_memory_monitor:set_vm_memory_high_watermark(0.9).") // thousands of queues must not raise an alarm
	for b.Loop() {
		b.StopTimer()
		vh := private.Broker.NewVHost(b)
		declareTopologies(b, vh, count)
		config := rabbittest.ConfigOf(vh)
		sent, management := &methods{}, netfault.NewHTTPProxy(b, config.ManagementURI, netfault.HTTPOptions{})
		config.AMQPURI, config.ManagementURI = sent.proxy(b, config.AMQPURI), management.URI
		connection, err := rabbittest.OpenWith(config, logr.Discard(), func(snapshot.Notice) {}, timing.Default)
		if err != nil {
			b.Fatal(err)
		}
		if err := connection.Refresh(b.Context()); err != nil {
			b.Fatal(err)
		}
		requests, methods, cpu := len(management.Requests()), sent.Load(), cpuOf(b, private)
		b.StartTimer()
		deleteTopologies(b, connection, count)
		b.StopTimer()
		b.ReportMetric(cpuOf(b, private)-cpu, "broker-cpu-s")
		b.ReportMetric(b.Elapsed().Seconds(), "s")
		b.ReportMetric(float64(len(management.Requests())-requests), "http-requests")
		b.ReportMetric(float64(sent.Load()-methods), "amqp-methods")
		connection.Close()
		if left := len(vh.Definitions().Queues); left > 0 {
			b.Errorf("%d queues are left", left)
		}
		b.StartTimer()
	}
}

// cpuOf returns the CPU time that a broker has used, in seconds.
func cpuOf(b *testing.B, broker *brokers.Private) float64 {
	b.Helper()
	milliseconds, err := strconv.ParseFloat(strings.TrimSpace(broker.Eval("element(1, erlang:statistics(runtime)).")), 64)
	if err != nil {
		b.Fatal(err)
	}
	return milliseconds / 1000
}

func topologyNames(i int) (tier, main, deadLetters string) {
	main = fmt.Sprintf("scale-%04d", i)
	return main + ".retry.30s", main, main + ".dlq"
}

func declareTopologies(b *testing.B, vh *brokers.VHost, count int) {
	b.Helper()
	connection, err := vh.Connect("benchmark")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	const channels = 16
	var all sync.WaitGroup
	for first := range channels {
		all.Go(func() {
			channel, err := connection.Channel()
			for i := first; i < count && err == nil; i += channels {
				err = declareTopology(channel, i)
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
}

func declareTopology(channel *amqp.Channel, i int) error {
	tier, main, deadLetters := topologyNames(i)
	queues := []struct {
		name      string
		arguments vhost.Arguments
	}{
		{deadLetters, nil},
		{main, vhost.Arguments{
			"x-dead-letter-exchange": main + ".dlx", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		}},
		{tier, vhost.Arguments{
			"x-message-ttl": int64(30000), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": main,
			"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
		}},
	}
	if err := channel.ExchangeDeclare(main+".dlx", "fanout", true, false, false, false, nil); err != nil {
		return err
	}
	for _, queue := range queues {
		if _, err := channel.QueueDeclare(queue.name, true, false, false, false, amqp.Table(rabbittest.Quorum(queue.arguments))); err != nil {
			return err
		}
	}
	return channel.QueueBind(deadLetters, "", main+".dlx", false, nil)
}

func deleteTopologies(b *testing.B, connection *rabbittest.Connection, count int) {
	b.Helper()
	cluster := connection.Health().Cluster.Key()
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			tier, main, deadLetters := topologyNames(i)
			for _, group := range [][]string{{tier, main}, {deadLetters}} {
				for b.Context().Err() == nil {
					err := connection.DeleteEmpty(b.Context(), cluster, group, func(ctx context.Context) error { return connection.Refresh(ctx) })
					if err == nil {
						break
					}
					b.Logf("tried again: %v", err)
				}
			}
		})
	}
	all.Wait()
}

// methods counts the AMQP methods that clients send.
type methods struct{ atomic.Int64 }

// proxy forwards clients to a broker, and counts the methods that they send.
func (c *methods) proxy(b *testing.B, uri string) string {
	b.Helper()
	to, err := url.Parse(uri)
	if err != nil {
		b.Fatal(err)
	}
	return "amqp://" + netfault.Listen(b, func(client net.Conn) {
		broker, err := net.Dial("tcp", to.Host)
		if err != nil {
			_ = client.Close()
			return
		}
		go func() {
			_, _ = io.Copy(client, broker)
			_ = client.Close()
		}()
		go func() {
			c.pass(broker, bufio.NewReader(client))
			_ = broker.Close()
		}()
	})
}

// pass forwards the protocol header, and then each frame: type, channel, size, payload, end.
func (c *methods) pass(to io.Writer, from *bufio.Reader) {
	const protocolHeader, frameHeader, frameEnd, frameMethod = 8, 7, 1, 1
	if _, err := io.CopyN(to, from, protocolHeader); err != nil {
		return
	}
	for {
		header, err := from.Peek(frameHeader)
		if err != nil {
			return
		}
		if header[0] == frameMethod {
			c.Add(1)
		}
		size := frameHeader + int(binary.BigEndian.Uint32(header[3:])) + frameEnd
		frame := make([]byte, size)
		if _, err := io.ReadFull(from, frame); err != nil {
			return
		}
		whole := append([]byte(nil), frame...)
		for from.Buffered() >= frameHeader { // frames that arrive in one piece are forwarded in one piece
			next, _ := from.Peek(frameHeader)
			size := frameHeader + int(binary.BigEndian.Uint32(next[3:])) + frameEnd
			if from.Buffered() < size {
				break
			}
			if next[0] == frameMethod {
				c.Add(1)
			}
			rest := make([]byte, size)
			if _, err := io.ReadFull(from, rest); err != nil {
				return
			}
			whole = append(whole, rest...)
		}
		if _, err := to.Write(whole); err != nil {
			return
		}
	}
}
