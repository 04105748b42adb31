package consumer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

// A queue that has lost its majority costs the connection of its consumer again and again.
func TestAQueueThatDoesNotAnswerCostsTheConnectionOfOthersOnce(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(b *memory.Broker, failing bool){
		"no answer to basic.consume": func(b *memory.Broker, failing bool) { b.Ignore("basic.consume invoices", failing) },
		"no answer to basic.cancel":  func(b *memory.Broker, failing bool) { b.Ignore("basic.cancel invoices", failing) },
		"an internal error":          func(b *memory.Broker, failing bool) { b.Break("invoices", failing) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				orders, invoices := startTwo(t, func(*memory.Broker) {})
				pass(time.Second)
				fail(orders.Broker, true)
				for range 10 {
					invoices.consumer.Pause()
					pass(30 * time.Second)
					invoices.consumer.Resume()
					pass(30 * time.Second)
				}
				equal(t, "reconnects of the other consumer", 1, orders.consumer.Health().Reconnects)
				fail(orders.Broker, false)
				pass(time.Minute)
				equal(t, "state", consumer.StateDelivering, invoices.consumer.Health().State)
				equal(t, "connections: two for consuming, one for copies", 3, orders.Connections())
				pass(10 * time.Minute)
				invoices.consumer.Pause()
				pass(time.Second)
				orders.Cut()
				invoices.consumer.Resume()
				pass(time.Minute)
				equal(t, "connections ten minutes after the last failure", 1, orders.Connections())
				equal(t, "Run", nil, invoices.end())
				pass(time.Minute)
				equal(t, "reconnects of the other consumer in the end", 2, orders.consumer.Health().Reconnects)
				equal(t, "channels in the end", 1, orders.Channels())
				equal(t, "Run of the other consumer", nil, orders.end())
			})
		})
	}
}

// RabbitMQ closes the connection because of one queue, while another consumer waits for an answer.
func TestAConsumerIsNotIsolatedBecauseOfAnotherQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		orders, invoices := startTwo(t, func(b *memory.Broker) {
			b.Ignore("basic.consume orders", true)
			b.Break("invoices", true)
		})
		pass(time.Second)
		orders.Ignore("basic.consume orders", false)
		orders.Break("invoices", false)
		pass(time.Minute)
		equal(t, "connections: two for consuming, one for copies", 3, orders.Connections())
		equal(t, "Run", nil, invoices.end())
		pass(time.Minute)
		equal(t, "connections of the consumer of orders: the shared ones", 2, orders.Connections())
		equal(t, "Run of the other consumer", nil, orders.end())
	})
}

// The user may open no further connection. A consumer must not wait for its own one forever.
func TestAConsumerSharesTheConnectionIfItMayNotOpenAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		orders, invoices := startTwo(t, func(*memory.Broker) {})
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

// startTwo starts consumers of orders and of invoices with one Conn.
func startTwo(t *testing.T, prepare func(*memory.Broker)) (orders, invoices *fixture) {
	t.Helper()
	var shared *consumer.Conn
	orders = startWith(t, contract.Default("orders"), func(b *memory.Broker) {
		b.Declare(contract.Default("invoices"))
		prepare(b)
	}, func(conn *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
		shared = conn
		return consumer.New(conn, source, ignore, options...)
	})
	invoices = startWith(t, contract.Default("invoices"), func(*memory.Broker) {},
		func(_ *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
			return consumer.New(shared, source, ignore, options...)
		})
	return orders, invoices
}
