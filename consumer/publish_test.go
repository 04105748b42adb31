package consumer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

func TestCopiesFitIntoAFrame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := run(t, contract.Default("orders"), func(context.Context, *consumer.Message[string]) error {
			return errors.New(strings.Repeat("no stock ", 1000))
		})
		b.Publish("", "orders", amqp.Publishing{Headers: amqp.Table{"large": strings.Repeat("x", 130000)}})
		b.Publish("", "orders", amqp.Publishing{Headers: amqp.Table{"small": "x"}})
		pass(time.Second)
		told := map[bool]int{}
		for _, m := range b.Messages("orders.retry.30s") {
			told[m.Headers["x-failure-message"] != nil]++
		}
		equal(t, "copies with and without a text", map[bool]int{true: 1, false: 1}, told)
		equal(t, "Run", nil, b.end())
	})
}

func TestConnPublish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(contract.Default("orders"))
		conn := consumer.NewConn(nil, consumer.WithTransport(b))
		defer conn.Close()
		equal(t, "published", nil, conn.Publish(t.Context(), "", "orders", consumer.Publishing{Body: []byte("a")}))
		equal(t, "in the queue", 1, len(b.Messages("orders")))
		equal(t, "delivery mode", amqp.Persistent, b.Messages("orders")[0].DeliveryMode)
		unroutable := &consumer.UnroutableError{}
		if err := conn.Publish(t.Context(), "", "nowhere", consumer.Publishing{}); !errors.As(err, &unroutable) {
			t.Errorf("a message without a queue: %v", err)
		}
		b.Refuse("orders", true)
		refused := &consumer.RefusedError{}
		if err := conn.Publish(t.Context(), "", "orders", consumer.Publishing{}); !errors.As(err, &refused) {
			t.Errorf("a full queue: %v", err)
		}
		b.Refuse("orders", false)
		b.Cut()
		equal(t, "published after a cut", nil, conn.Publish(t.Context(), "", "orders", consumer.Publishing{}))
		b.Block(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := conn.Publish(ctx, "", "orders", consumer.Publishing{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a blocked broker: %v", err)
		}
	})
}
