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
				var shared *consumer.Conn
				orders := startWith(t, contract.Default("orders"), func(*memory.Broker) {},
					func(conn *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
						shared = conn
						return consumer.New(conn, source, ignore, options...)
					})
				orders.Declare(contract.Default("invoices"))
				invoices := startWith(t, contract.Default("invoices"), func(*memory.Broker) {},
					func(_ *consumer.Conn, source contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
						return consumer.New(shared, source, ignore, options...)
					})
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
				equal(t, "Run", nil, invoices.end())
				pass(time.Minute)
				equal(t, "reconnects of the other consumer in the end", 1, orders.consumer.Health().Reconnects)
				equal(t, "channels in the end", 1, orders.Channels())
				equal(t, "Run of the other consumer", nil, orders.end())
			})
		})
	}
}
