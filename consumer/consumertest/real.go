package consumertest

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

// DeclareTopology declares the queues and exchanges of a contract on a real broker, and returns a Conn. When the test ends, it closes the
// Conn and deletes these queues and exchanges. They work like the objects that the operator declares, but have other arguments. So use a
// separate virtual host. Errors fail the test.
func DeclareTopology(tb testing.TB, uri string, c contract.Contract) *consumer.Conn {
	tb.Helper()
	check := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatalf("consumertest: %v", err)
		}
	}
	connection, err := amqp.Dial(uri)
	check(err)
	tb.Cleanup(func() { _ = connection.Close() })
	channel, err := connection.Channel()
	check(err)
	for name, arguments := range queuesOf(c) {
		_, err := channel.QueueDeclare(name, true, false, false, false, arguments)
		check(err)
		tb.Cleanup(func() { _, _ = channel.QueueDelete(name, false, false, false) })
	}
	for route, queue := range bindingsOf(c) {
		check(channel.ExchangeDeclare(route.Exchange, amqp.ExchangeDirect, true, false, false, false, nil))
		check(channel.QueueBind(queue, route.RoutingKey, route.Exchange, false, nil))
		tb.Cleanup(func() { _ = channel.ExchangeDelete(route.Exchange, false, false) })
	}
	conn := consumer.NewConn(consumer.URI(uri))
	tb.Cleanup(conn.Close)
	return conn
}

// queuesOf returns the queues of a contract with their arguments.
func queuesOf(c contract.Contract) map[string]amqp.Table {
	main := amqp.Table{"x-queue-type": "quorum"}
	queues := map[string]amqp.Table{c.Queue: main}
	if c.SingleActiveConsumer {
		main["x-single-active-consumer"] = true
	}
	if c.Strategy == contract.StrategyRequeue {
		main["x-delivery-limit"] = int64(c.MaxAttempts - 1)
	}
	if c.DeadLetterQueue != "" {
		queues[c.DeadLetterQueue] = amqp.Table{"x-queue-type": "quorum"}
		main["x-dead-letter-exchange"], main["x-dead-letter-routing-key"] = "", c.DeadLetterQueue
	}
	for _, tier := range c.Tiers {
		name := memory.TierQueue(c, tier)
		queues[name] = amqp.Table{
			"x-queue-type": "quorum", "x-message-ttl": time.Duration(tier.Delay).Milliseconds(),
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": c.Queue,
		}
		if c.Strategy == contract.StrategyReject {
			main["x-dead-letter-exchange"], main["x-dead-letter-routing-key"] = "", name
		}
	}
	return queues
}

// bindingsOf returns the queue for each exchange and routing key of a contract.
func bindingsOf(c contract.Contract) map[contract.Route]string {
	bindings := map[contract.Route]string{}
	for _, tier := range c.Tiers {
		bindings[tier.Route] = memory.TierQueue(c, tier)
	}
	if c.Park != nil {
		bindings[*c.Park] = c.DeadLetterQueue
	}
	for route := range bindings {
		if route.Exchange == "" {
			delete(bindings, route)
		}
	}
	return bindings
}
