package amqpconn

import (
	"fmt"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/test/brokers"
)

// connect returns a pool with a connection to a vhost.
func connect(tb testing.TB, vh *brokers.VHost, uri string, timeout time.Duration) *Pool {
	tb.Helper()
	parsed, err := url.Parse(uri)
	if err != nil {
		tb.Fatal(err)
	}
	user := vh.Broker
	errs := brokererr.Errors{Username: user.Username, Password: user.Password, VHost: vh.Name}
	link, err := Dial(tb.Context(), DialOptions{
		URI: parsed, Username: user.Username, Password: user.Password, VHost: vh.Name, Timeout: timeout,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(link.CloseSocket)
	pool := NewPool(errs, timeout)
	pool.Set(link, nil)
	return pool
}

// declare declares so many quorum queues, as many at a time as the pool allows. It returns how long that took, and the lowest limit during
// that time.
func declare(tb testing.TB, pool *Pool, prefix string, count int) (took time.Duration, lowest int) {
	tb.Helper()
	began := time.Now()
	var all sync.WaitGroup
	limits := make([]int, count)
	for i := range count {
		all.Go(func() {
			if err := pool.Do(tb.Context(), func(channel *amqp.Channel) error {
				_, err := channel.QueueDeclare(fmt.Sprint(prefix, i), true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
				return err
			}); err != nil {
				tb.Error(err)
			}
			limits[i] = pool.Limit()
		})
	}
	all.Wait()
	return time.Since(began), slices.Min(limits)
}

// BenchmarkDeclare compares an adaptive limit with a fixed limit, alternately on one broker. ratio is the number of quorum queues per second
// with the adaptive limit, divided by that with the fixed limit. lowest is the lowest adaptive limit.
func BenchmarkDeclare(b *testing.B) {
	const count, rounds = 80, 8
	for _, broker := range brokers.All(b) {
		b.Run(broker.Version, func(b *testing.B) {
			vh := broker.NewVHost(b)
			adaptive, fixed := connect(b, vh, broker.AMQPURI, 10*time.Second), connect(b, vh, broker.AMQPURI, 10*time.Second)
			declare(b, adaptive, "first-", ChannelLimit)
			declare(b, fixed, "second-", ChannelLimit)
			fixed.slots.adapt(func(l *limit) { l.since = time.Now().Add(time.Hour) }) // no answer counts, so the limit stays fixed
			var adapting, fixing time.Duration
			lowest, declared := ChannelLimit, 0
			for b.Loop() {
				for range rounds {
					declared++
					took, _ := declare(b, fixed, fmt.Sprint("fixed-", declared, "-"), count)
					fixing += took
					took, fell := declare(b, adaptive, fmt.Sprint("adaptive-", declared, "-"), count)
					adapting, lowest = adapting+took, min(lowest, fell)
				}
			}
			b.ReportMetric(float64(declared*count)/adapting.Seconds(), "queues/s")
			b.ReportMetric(fixing.Seconds()/adapting.Seconds(), "ratio")
			b.ReportMetric(float64(lowest), "lowest")
		})
	}
}
