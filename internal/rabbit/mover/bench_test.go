package mover

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
)

// BenchmarkMove compares three ways to move a queue's messages, alternately: a Redrive, a bare program that only consumes, publishes,
// waits for confirms and acks, and the Shovel plugin. With -benchtime=3x, each has three rounds. rate/bare and rate/shovel are the
// geometric means of the ratios. where/all is the ratio of a Redrive with an expression on headers to a Redrive without one.
func BenchmarkMove(b *testing.B) {
	everything, selected := redriveAll(b, ""), redriveAll(b, `!("x-exception" in headers) && size > 0`)
	for _, broker := range brokers.All(b) {
		for name, size := range map[string]struct{ bytes, messages int }{
			"100 B": {100, 100_000}, "1 kB": {1000, 100_000}, "64 kB": {64_000, 10_000},
		} {
			b.Run(broker.Version+", "+name, func(b *testing.B) {
				vh := broker.NewVHost(b)
				vh.DeclareQueue(source, quorum(vh, nil))
				vh.DeclareQueue(destination, quorum(vh, nil))
				bodies := make([]string, size.messages)
				if testing.Short() { // only checks that the benchmark works
					bodies = bodies[:size.messages/100]
				}
				for i := range bodies {
					bodies[i] = strings.Repeat("x", size.bytes)
				}
				bare, moved, chosen, shovelled := 0.0, 0.0, 0.0, 0.0
				for b.Loop() {
					bare += math.Log(perSecond(b, vh, bodies, moveBare))
					moved += math.Log(perSecond(b, vh, bodies, moveByMover(everything)))
					chosen += math.Log(perSecond(b, vh, bodies, moveByMover(selected)))
					shovelled += math.Log(perSecond(b, vh, bodies, moveByShovel))
				}
				n := float64(b.N)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(math.Exp(moved/n), "msg/s")
				b.ReportMetric(math.Exp((moved-bare)/n), "rate/bare")
				b.ReportMetric(math.Exp((moved-shovelled)/n), "rate/shovel")
				b.ReportMetric(math.Exp((chosen-moved)/n), "where/all")
			})
		}
	}
}

// BenchmarkRate moves messages at a rate for 30 seconds. The metric kept is the actual rate divided by the requested one.
func BenchmarkRate(b *testing.B) {
	for _, rate := range []int{100, 1000} {
		b.Run(strconv.Itoa(rate), func(b *testing.B) {
			const lasts = 30 // seconds
			vh := brokers.Newest(b).NewVHost(b)
			vh.DeclareQueue(source, quorum(vh, nil))
			vh.DeclareQueue(destination, quorum(vh, nil))
			bodies := make([]string, lasts*rate)
			for b.Loop() {
				config := configFor(b, vh, redriveAll(b, ""), len(bodies))
				config.Settings = func() Settings { return Settings{Rate: rate, MaxDepth: -1} }
				kept := perSecond(b, vh, bodies, func(b *testing.B, _ *brokers.VHost, _ int) { runWell(b, config) })
				b.ReportMetric(kept/float64(rate), "kept")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// redriver filters messages as a Redrive to one queue does.
type redriver struct {
	rules   deadletter.Rules
	headers deadletter.RedriveHeaders
}

// redriveAll returns a redriver of all messages that match an expression.
func redriveAll(b *testing.B, where string) redriver {
	b.Helper()
	selector, err := deadletter.Compile(v1alpha1.DeadLetterSelector{Expression: where})
	if err != nil {
		b.Fatal(err)
	}
	return redriver{
		deadletter.Rules{Source: deadletter.Source{Main: destination}, Selector: selector, RedriveID: "uid", MaxRedrives: 3},
		deadletter.RedriveHeaders{ID: "uid", Name: "shop/orders", From: source},
	}
}

func (r redriver) Skips(message *amqp.Delivery, size int64) string {
	return string(r.rules.Skips(r.rules.Source.ReadWithSize(message, size), time.Now()))
}

func (r redriver) Copy(message *amqp.Delivery, seq int64) (contract.Route, amqp.Publishing, error) {
	return contract.Route{RoutingKey: destination}, r.headers.Copy(r.rules.Source.Read(message), time.Now(), seq), nil
}

// perSecond is how many messages are moved each second.
func perSecond(b *testing.B, vh *brokers.VHost, bodies []string, move func(*testing.B, *brokers.VHost, int)) float64 {
	b.Helper()
	vh.Purge(destination)
	vh.Publish("", source, bodies...)
	begun := time.Now()
	move(b, vh, len(bodies))
	took := time.Since(begun)
	if arrived := vh.Ready(destination); arrived != len(bodies) {
		b.Fatalf("%d of %d messages have arrived", arrived, len(bodies))
	}
	vh.DeleteQueue(source) // unacknowledged messages must not return
	vh.DeclareQueue(source, quorum(vh, nil))
	return float64(len(bodies)) / took.Seconds()
}

func moveByMover(filter redriver) func(*testing.B, *brokers.VHost, int) {
	return func(b *testing.B, vh *brokers.VHost, count int) {
		b.Helper()
		runWell(b, configFor(b, vh, filter, count))
	}
}

func configFor(b *testing.B, vh *brokers.VHost, filter redriver, count int) Config {
	b.Helper()
	return Config{
		Dial: dialer(b, vh, vh.Broker.AMQPURI), Errs: brokererr.Errors{VHost: vh.Name}, Log: logr.Discard(), Queue: source,
		Destination: destination, Filter: filter, Copier: filter, Settings: func() Settings { return Settings{MaxDepth: -1} }, Total: count,
		MaxFailures: 1, Report: func(Progress) {},
	}
}

func runWell(b *testing.B, config Config) {
	b.Helper()
	if _, err := Run(context.Background(), config); err != nil {
		b.Fatal(err)
	}
}

// moveBare has as many messages in flight as a move, and acks each message separately.
func moveBare(b *testing.B, vh *brokers.VHost, count int) {
	b.Helper()
	channel, closeConnection := connect(b, vh, "bare")
	defer closeConnection()
	err := channel.Confirm(false)
	if err == nil {
		err = channel.Qos(maxWindow, 0, false)
	}
	if err != nil {
		b.Fatal(err)
	}
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, maxWindow))
	messages, err := channel.Consume(source, "", false, false, false, false, nil)
	if err != nil {
		b.Fatal(err)
	}
	for confirmed := 0; confirmed < count; {
		select {
		case message := <-messages:
			err = channel.Publish("", destination, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: message.Body})
		case confirm := <-confirms: // the numbers of confirms are those of the deliveries
			confirmed++
			err = channel.Ack(confirm.DeliveryTag, false)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// moveByShovel moves the messages with the broker's Shovel plugin, with confirms, and with as many messages in flight as a
// move.
func moveByShovel(b *testing.B, vh *brokers.VHost, count int) {
	b.Helper()
	const name = "bench"
	uri, err := url.Parse(vh.Broker.AMQPURI)
	if err != nil {
		b.Fatal(err)
	}
	uri.User, uri.Path, uri.RawPath = url.UserPassword(vh.Broker.Username, vh.Broker.Password), "/"+vh.Name, "/"+url.PathEscape(vh.Name)
	vh.SetParameter("shovel", name, map[string]any{
		"src-protocol": "amqp091", "src-uri": uri.String(), "src-queue": source, "src-prefetch-count": maxWindow,
		"dest-protocol": "amqp091", "dest-uri": uri.String(), "dest-queue": destination, "ack-mode": "on-confirm",
	})
	defer vh.DeleteParameter("shovel", name)
	NewWithT(b).Eventually(vh.Ready).WithArguments(destination).WithTimeout(deadline.For(5 * time.Minute)).WithPolling(10 * time.Millisecond).
		Should(BeNumerically(">=", count))
}

// BenchmarkDryRun counts 300,000 messages of 200 B, as a dry run with an expression does, and then checks that all of them are in
// order.
func BenchmarkDryRun(b *testing.B) {
	const count = 300_000
	filter := redriveAll(b, `!("x-exception" in headers) && size > 0`)
	for _, broker := range brokers.All(b) {
		b.Run(broker.Version, func(b *testing.B) {
			vh := broker.NewVHost(b)
			vh.DeclareQueue(source, quorum(vh, nil))
			vh.DeclareQueue(destination, quorum(vh, nil))
			bodies := make([]string, count)
			for i := range bodies {
				bodies[i] = fmt.Sprintf("%0200d", i)
			}
			vh.Publish("", source, bodies...)
			for b.Loop() {
				config := configFor(b, vh, filter, count)
				config.DryRun, config.Selective = true, true
				progress, err := Run(b.Context(), config)
				if err != nil || progress.Moved != count {
					b.Fatalf("%d messages were counted: %v", progress.Moved, err)
				}
			}
			next := 0
			_, err := Browse(b.Context(), BrowseConfig{
				Dial: dialer(b, vh, vh.Broker.AMQPURI), Errs: brokererr.Errors{VHost: vh.Name}, Log: logr.Discard(), Queue: source, MaxMessages: count,
				Visit: func(_ int, message *amqp.Delivery) bool {
					next++
					return string(message.Body) == bodies[next-1]
				},
			})
			if err != nil || next != count {
				b.Fatalf("message %d is not in its place: %v", next-1, err)
			}
		})
	}
}

// BenchmarkBrowse browses messages of 1 kB at the head of a queue of 100,000, on a separate connection as the dead-letter API does.
func BenchmarkBrowse(b *testing.B) {
	for _, broker := range brokers.All(b) {
		for _, most := range []int{50, 1000, 10_000, 100_000} {
			b.Run(broker.Version+", "+strconv.Itoa(most), func(b *testing.B) {
				vh := broker.NewVHost(b)
				vh.DeclareQueue(source, quorum(vh, nil))
				bodies := make([]string, 100_000)
				for i := range bodies {
					bodies[i] = strings.Repeat("x", 1000)
				}
				vh.Publish("", source, bodies...)
				seen := 0
				config := BrowseConfig{
					Dial: dialer(b, vh, vh.Broker.AMQPURI), Errs: brokererr.Errors{VHost: vh.Name}, Log: logr.Discard(), Queue: source, MaxMessages: most,
					Visit: func(int, *amqp.Delivery) bool {
						seen++
						return true
					},
				}
				for b.Loop() {
					if _, err := Browse(b.Context(), config); err != nil {
						b.Fatal(err)
					}
				}
				if seen != b.N*most {
					b.Fatalf("%d messages were seen", seen)
				}
			})
		}
	}
}
