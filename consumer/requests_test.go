package consumer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
	"github.com/warren-mq/warren/consumer/internal/transport"
)

// requests counts the requests of the consuming channels of a broker.
type requests struct {
	*memory.Broker

	consumes, inFlight, closedBeside atomic.Int32
}

func (r *requests) Dial(ctx context.Context, name string, blocked func(bool)) (transport.Connection, error) {
	made, err := r.Broker.Dial(ctx, name, blocked)
	return countedConnection{made, r}, err
}

type countedConnection struct {
	transport.Connection

	requests *requests
}

func (c countedConnection) ConsumingChannel(closed chan *amqp.Error, cancelled chan string) (transport.ConsumingChannel, error) {
	made, err := c.Connection.ConsumingChannel(closed, cancelled)
	return &countedChannel{ConsumingChannel: made, requests: c.requests}, err
}

type countedChannel struct {
	transport.ConsumingChannel

	requests *requests
	inFlight atomic.Int32
}

// begin counts a request until end is called.
func (c *countedChannel) begin() (end func()) {
	c.inFlight.Add(1)
	c.requests.inFlight.Add(1)
	return func() {
		c.inFlight.Add(-1)
		c.requests.inFlight.Add(-1)
	}
}

func (c *countedChannel) Consume(
	queue, tag string, autoAck, exclusive, noLocal, noWait bool, arguments amqp.Table,
) (<-chan amqp.Delivery, error) {
	c.requests.consumes.Add(1)
	defer c.begin()()
	return c.ConsumingChannel.Consume(queue, tag, autoAck, exclusive, noLocal, noWait, arguments)
}

func (c *countedChannel) Cancel(tag string, noWait bool) error {
	defer c.begin()()
	return c.ConsumingChannel.Cancel(tag, noWait)
}

func (c *countedChannel) Close() error {
	c.requests.closedBeside.Add(c.inFlight.Load())
	return c.ConsumingChannel.Close()
}

// startCounted runs a consumer that new creates, and counts its requests.
func startCounted(t *testing.T, current contract.Contract, makeConsumer create, options ...consumer.Option) (*fixture, *requests) {
	t.Helper()
	counted := &requests{}
	b := startWith(t, current, func(b *memory.Broker) { counted.Broker = b },
		func(_ *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
			return makeConsumer(consumer.NewConn(nil, withTransport(counted)), source, options...)
		}, options...)
	return b, counted
}

// In amqp091-go, two requests of a channel at the same time can get each other's answers.
func TestAChannelIsNotClosedBesideAnotherRequest(t *testing.T) {
	t.Parallel()
	pausing := func(b *fixture) {
		b.Ignore("basic.cancel", true)
		b.consumer.Pause()
		pass(time.Second)
	}
	resuming := func(b *fixture) {
		b.consumer.Pause()
		pass(time.Second)
		b.Ignore("basic.consume", true)
		b.consumer.Resume()
		pass(time.Second)
	}
	pausingForTheLimiter := func(b *fixture) {
		b.Ignore("basic.cancel", true)
		b.Publish("", "orders", amqp.Publishing{})
		pass(16*time.Minute + 35*time.Second) // what the timeout of the handler leaves of the consumer timeout is 16m30s
	}
	stops := func(b *fixture) { b.stop() }
	for name, test := range map[string]struct {
		singleActive bool
		request, end func(*fixture)
	}{
		"a drain beside basic.cancel":                              {false, pausing, stops},
		"a drain beside basic.consume":                             {false, resuming, stops},
		"a drain of a single active consumer beside basic.cancel":  {true, pausing, stops},
		"a drain of a single active consumer beside basic.consume": {true, resuming, stops},
		"a deleted queue beside basic.cancel":                      {false, pausingForTheLimiter, func(b *fixture) { b.Delete("orders") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				current := contract.Default("orders")
				current.SingleActiveConsumer = test.singleActive
				b, counted := startCounted(t, current,
					func(conn *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
						return consumer.New(conn, source, ignore, options...)
					}, consumer.WithLimiter(&limiter{}))
				pass(time.Second)
				test.request(b)
				equal(t, "requests in flight", int32(1), counted.inFlight.Load())
				test.end(b)
				pass(30 * time.Second)
				equal(t, "closed beside another request", int32(0), counted.closedBeside.Load())
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// A batch that is collected returns after the basic.cancel of a pause, so a drain must cancel once more after many returns.
func TestADrainDuringAPauseCancelsAgainAfterManyReturnsOfABatch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		size     int
		consumes int32
	}{
		"32 messages are unsettled": {17, 1},
		"33 messages are unsettled": {18, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				b, counted := startCounted(t, contract.Default("orders"),
					func(conn *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
						return consumer.NewBatch(conn, source, test.size, time.Minute,
							func(context.Context, *consumer.Batch[int]) error {
								<-release
								return nil
							}, options...)
					}, consumer.WithConcurrency(2))
				for range test.size + 15 { // 15 wait for the rest of their batch
					b.send(t, "7")
				}
				pass(time.Second)
				b.consumer.Pause()
				pass(time.Second)
				b.stop()
				close(release)
				equal(t, "Run", nil, <-b.ended)
				equal(t, "basic.consume was sent", test.consumes, counted.consumes.Load())
				equal(t, "returned", 15, len(b.Messages("orders")))
			})
		})
	}
}
