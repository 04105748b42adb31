package consumer_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

// longName is the name of a queue. RabbitMQ cuts the reason of an internal error in the middle of the name.
var longName = strings.Repeat("n", 220)

// A queue that has lost its majority costs the connection of its consumer again and again.
func TestAQueueThatDoesNotAnswerCostsTheConnectionOfOthersOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		queue string
		fail  func(b *memory.Broker, failing bool)
	}{
		"no answer to basic.consume":       {"invoices", func(b *memory.Broker, failing bool) { b.Ignore("basic.consume invoices", failing) }},
		"no answer to basic.cancel":        {"invoices", func(b *memory.Broker, failing bool) { b.Ignore("basic.cancel invoices", failing) }},
		"an internal error":                {"invoices", func(b *memory.Broker, failing bool) { b.Break("invoices", failing) }},
		"an internal error of a long name": {longName, func(b *memory.Broker, failing bool) { b.Break(longName, failing) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				orders, other, _ := startTwo(t, test.queue, func(*memory.Broker) {})
				pass(time.Second)
				test.fail(orders.Broker, true)
				for range 10 {
					other.consumer.Pause()
					pass(30 * time.Second)
					other.consumer.Resume()
					pass(30 * time.Second)
				}
				equal(t, "reconnects of the consumer of orders", 1, orders.consumer.Health().Reconnects)
				test.fail(orders.Broker, false)
				pass(time.Minute)
				equal(t, "state", consumer.StateDelivering, other.consumer.Health().State)
				equal(t, "connections: two for consuming, one for copies", 3, orders.Connections())
				reconnects := other.consumer.Health().Reconnects
				pass(10 * time.Minute)
				equal(t, "connections ten minutes after the last failure", 2, orders.Connections())
				equal(t, "state on the shared connection", consumer.StateDelivering, other.consumer.Health().State)
				equal(t, "reconnects because of the way back", 0, other.consumer.Health().Reconnects-reconnects)
				equal(t, "Run", nil, other.end())
				pass(time.Minute)
				equal(t, "reconnects of the consumer of orders in the end", 1, orders.consumer.Health().Reconnects)
				equal(t, "channels in the end", 1, orders.Channels())
				equal(t, "Run of the consumer of orders", nil, orders.end())
			})
		})
	}
}

// RabbitMQ closes the connection because of one queue, while another consumer waits for an answer.
func TestAConsumerIsNotIsolatedBecauseOfAnotherQueue(t *testing.T) {
	t.Parallel()
	for name, queue := range map[string]string{"short name": "invoices", "long name": longName} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				orders, other, conn := startTwo(t, queue, func(b *memory.Broker) { b.Ignore("basic.consume orders", true) })
				pass(time.Second)
				other.consumer.Pause()
				pass(time.Second)
				orders.Break(queue, true)
				other.consumer.Resume()
				pass(100 * time.Millisecond) // less than the delay before the next attempt, which would have no answer in time
				orders.Ignore("basic.consume orders", false)
				orders.Break(queue, false)
				pass(time.Minute)
				equal(t, "connections: two for consuming, one for copies", 3, orders.Connections())
				third := join(t, conn, "orders")
				pass(time.Second)
				equal(t, "connections with a third consumer", 3, orders.Connections())
				equal(t, "Run", nil, other.end())
				equal(t, "Run of the third consumer", nil, third.end())
				equal(t, "Run of the consumer of orders", nil, orders.end())
			})
		})
	}
}

// The user may open no further connection. A consumer must not wait for its own one forever.
func TestAConsumerSharesTheConnectionIfItMayNotOpenAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		orders, invoices, _ := startTwo(t, "invoices", func(*memory.Broker) {})
		pass(time.Second)
		orders.LimitConnections(orders.Connections())
		orders.Break("invoices", true)
		invoices.consumer.Pause()
		pass(time.Second)
		invoices.consumer.Resume()
		pass(time.Second)
		orders.Break("invoices", false)
		pass(time.Minute)
		equal(t, "state", consumer.StateDelivering, invoices.consumer.Health().State)
		equal(t, "Run", nil, invoices.end())
		equal(t, "Run of the other consumer", nil, orders.end())
	})
}

// The user may open as many connections as the program needs without isolated consumers.
func TestAnIsolatedConsumerKeepsNoOtherConnectionFromOpening(t *testing.T) {
	t.Parallel()
	works := func(orders *fixture, _ *consumer.Conn) bool {
		return orders.consumer.Health().State == consumer.StateDelivering
	}
	publishes := func(_ *fixture, conn *consumer.Conn) bool {
		return conn.Publish(context.Background(), "", "orders", consumer.Publishing{}) == nil
	}
	for name, test := range map[string]struct {
		limit int
		cut   string // the queue whose consumers lose their connection
		works func(orders *fixture, conn *consumer.Conn) bool
	}{
		"for consuming": {2, "orders", works},
		"for Publish":   {3, "no queue", publishes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				orders, invoices, conn := startTwo(t, "invoices", func(b *memory.Broker) { b.Break("invoices", true) })
				pass(time.Second)
				orders.Break("invoices", false)
				pass(40 * time.Second) // the consumer checks its connection every 30 s
				equal(t, "connections: two for consuming, one for copies", 3, orders.Connections())
				reconnects := invoices.consumer.Health().Reconnects
				orders.LimitConnections(test.limit)
				orders.CutConsumers(test.cut)
				pass(time.Second)
				equal(t, "works at first", false, test.works(orders, conn))
				pass(time.Minute)
				equal(t, "works after a minute", true, test.works(orders, conn))
				equal(t, "connections", test.limit, orders.Connections())
				equal(t, "state of the other consumer", consumer.StateDelivering, invoices.consumer.Health().State)
				equal(t, "reconnects of the other consumer", 0, invoices.consumer.Health().Reconnects-reconnects)
				orders.LimitConnections(0)
				for what, want := range []int{test.limit, test.limit + 1} {
					orders.Break("invoices", true)
					orders.CutConsumers("invoices")
					pass(time.Second)
					orders.Break("invoices", false)
					pass(time.Minute)
					equal(t, fmt.Sprintf("connections after failure %d", what), want, orders.Connections())
					pass(10 * time.Minute)
				}
				equal(t, "Run", nil, invoices.end())
				equal(t, "Run of the consumer of orders", nil, orders.end())
				conn.Close()
			})
		})
	}
}

// amqp091-go returns ErrVhost if the broker ends the connection without a reason while it is opened.
func TestAConnectionThatFailsEndsNoIsolation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		orders, invoices, _ := startTwo(t, "invoices", func(b *memory.Broker) { b.Break("invoices", true) })
		pass(time.Second)
		orders.Break("invoices", false)
		pass(time.Minute)
		orders.FailDials(amqp.ErrVhost)
		orders.CutConsumers("invoices")
		pass(time.Minute)
		equal(t, "connections without that of the isolated consumer", 2, orders.Connections())
		orders.FailDials(nil)
		pass(time.Minute)
		equal(t, "connections: two for consuming, one for copies", 3, orders.Connections())
		equal(t, "Run", nil, invoices.end())
		equal(t, "Run of the consumer of orders", nil, orders.end())
	})
}

// A pause may last ten minutes, and an isolated consumer needs no connection during it.
func TestAPauseClosesTheConnectionOfAnIsolatedConsumer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "contract.json")
	synctest.Test(t, func(t *testing.T) {
		p := runFile(t, path, nil, func(context.Context, string) {})
		pass(time.Second)
		p.Break("orders", true)
		p.CutConsumers("orders")
		pass(time.Second)
		p.Break("orders", false)
		pass(time.Minute)
		equal(t, "connections: its own, one for copies", 2, p.Connections())
		p.ask(&contract.Pause{ID: "k3v9q2m7xa", Until: time.Now().Add(5 * time.Minute)})
		pass(time.Minute)
		equal(t, "state", consumer.StatePaused, p.consumer.Health().State)
		equal(t, "connections during the pause", 1, p.Connections())
		equal(t, "Run", nil, p.end())
	})
}

// startTwo starts consumers of orders and of another queue with one Conn.
func startTwo(t *testing.T, queue string, prepare func(*memory.Broker)) (orders, other *fixture, shared *consumer.Conn) {
	t.Helper()
	orders = startWith(t, contract.Default("orders"), func(b *memory.Broker) {
		b.Declare(contract.Default(queue))
		prepare(b)
	}, func(conn *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
		shared = conn
		return consumer.New(conn, source, ignore, options...)
	})
	return orders, join(t, shared, queue), shared
}

// join starts a consumer with a Conn of other consumers.
func join(t *testing.T, shared *consumer.Conn, queue string) *fixture {
	t.Helper()
	return startWith(t, contract.Default(queue), func(*memory.Broker) {},
		func(_ *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
			return consumer.New(shared, source, ignore, options...)
		})
}
