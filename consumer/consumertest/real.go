package consumertest

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

// Real declares the queues and exchanges of a contract at a real broker, for tests for which the one in memory is not enough, and
// deletes them when the test ends. They do what those of the operator do, and have other arguments, so give it a vhost of its own.
func Real(tb testing.TB, uri string, kept contract.Contract) *consumer.Conn {
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
	for name, arguments := range queuesOf(kept) {
		_, err := channel.QueueDeclare(name, true, false, false, false, arguments)
		check(err)
		tb.Cleanup(func() { _, _ = channel.QueueDelete(name, false, false, false) })
	}
	for route, queue := range bindingsOf(kept) {
		check(channel.ExchangeDeclare(route.Exchange, amqp.ExchangeDirect, true, false, false, false, nil))
		check(channel.QueueBind(queue, route.RoutingKey, route.Exchange, false, nil))
		tb.Cleanup(func() { _ = channel.ExchangeDelete(route.Exchange, false, false) })
	}
	conn := consumer.NewConn(consumer.URI(uri))
	tb.Cleanup(conn.Close)
	return conn
}

// queuesOf are the queues of a contract with their arguments.
func queuesOf(kept contract.Contract) map[string]amqp.Table {
	main := amqp.Table{"x-queue-type": "quorum"}
	queues := map[string]amqp.Table{kept.Queue: main}
	if kept.SingleActiveConsumer {
		main["x-single-active-consumer"] = true
	}
	if kept.Strategy == contract.StrategyRequeue {
		main["x-delivery-limit"] = int64(kept.MaxAttempts - 1)
	}
	if kept.DeadLetterQueue != "" {
		queues[kept.DeadLetterQueue] = amqp.Table{"x-queue-type": "quorum"}
		main["x-dead-letter-exchange"], main["x-dead-letter-routing-key"] = "", kept.DeadLetterQueue
	}
	for _, tier := range kept.Tiers {
		name := memory.TierQueue(kept, tier)
		queues[name] = amqp.Table{
			"x-queue-type": "quorum", "x-message-ttl": time.Duration(tier.Delay).Milliseconds(),
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": kept.Queue,
		}
		if kept.Strategy == contract.StrategyReject {
			main["x-dead-letter-exchange"], main["x-dead-letter-routing-key"] = "", name
		}
	}
	return queues
}

// bindingsOf are the queues that the exchanges of a contract lead to.
func bindingsOf(kept contract.Contract) map[contract.Route]string {
	bindings := map[contract.Route]string{}
	for _, tier := range kept.Tiers {
		bindings[tier.Route] = memory.TierQueue(kept, tier)
	}
	if kept.Park != nil {
		bindings[*kept.Park] = kept.DeadLetterQueue
	}
	for route := range bindings {
		if route.Exchange == "" {
			delete(bindings, route)
		}
	}
	return bindings
}
