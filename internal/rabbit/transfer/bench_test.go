package transfer

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/test/brokers"
)

// BenchmarkMove moves a queue's messages by a transfer and by a bare program that does nothing but consume, publish, wait for confirms and ack, in
// turns: -benchtime=3x are three turns. rate/bare is the geometric mean of the ratios.
func BenchmarkMove(b *testing.B) {
	for _, broker := range brokers.All(b) {
		for name, size := range map[string]struct{ bytes, messages int }{
			"100 B": {100, 50_000}, "1 kB": {1000, 50_000}, "64 kB": {64_000, 5000},
		} {
			b.Run(broker.Version+", "+name, func(b *testing.B) {
				vh := broker.NewVHost(b)
				vh.DeclareQueue(source, quorum(vh, nil))
				vh.DeclareQueue(destination, quorum(vh, nil))
				bodies := make([]string, size.messages)
				for i := range bodies {
					bodies[i] = strings.Repeat("x", size.bytes)
				}
				bare, moved := 0.0, 0.0
				for b.Loop() {
					bare += math.Log(perSecond(b, vh, bodies, moveBare))
					moved += math.Log(perSecond(b, vh, bodies, moveByTransfer))
				}
				n := float64(b.N)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(math.Exp(moved/n), "msg/s")
				b.ReportMetric(math.Exp((moved-bare)/n), "rate/bare")
			})
		}
	}
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
	return float64(len(bodies)) / took.Seconds()
}

func moveByTransfer(b *testing.B, vh *brokers.VHost, count int) {
	b.Helper()
	_, err := Run(context.Background(), Config{
		Dial: dialer(b, vh, vh.Broker.AMQPURI), Errs: brokererr.Errors{VHost: vh.Name}, Log: logr.Discard(), Queue: source,
		Destination: destination, Judge: toDestination{}, Settings: func() Settings { return Settings{MaxDepth: -1} }, Total: count,
		MaxFailures: 1, Report: func(Progress) {},
	})
	if err != nil {
		b.Fatal(err)
	}
}

// moveBare has as many messages under way as a transfer, and acks each by itself.
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
