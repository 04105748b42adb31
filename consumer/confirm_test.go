package consumer_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

// publishLater publishes a message and returns the channel of the result, without waiting for the result.
func publishLater(t *testing.T, conn *consumer.Conn, exchange string, message consumer.Publishing) chan error {
	t.Helper()
	published := make(chan error, 1)
	go func() { published <- conn.Publish(t.Context(), exchange, "orders", message) }()
	synctest.Wait()
	return published
}

func isUnknown(err error) bool { return errors.As(err, new(*consumer.UnknownOutcomeError)) }

// At most 256 messages wait for their confirm, including those whose callers no longer wait.
func TestAbandonedMessagesKeepTheirPlaceUntilTheirOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(contract.Default("orders"))
		conn := consumer.NewConn(nil, withTransport(b))
		defer conn.Close()
		b.Silence("orders", true)
		publish := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return conn.Publish(ctx, "", "orders", consumer.Publishing{})
		}
		var publishing sync.WaitGroup
		for range 256 {
			publishing.Go(func() { equal(t, "abandoned and unknown", true, isUnknown(publish())) })
		}
		publishing.Wait()
		equal(t, "one more is sent", false, isUnknown(publish()))
		b.Silence("orders", false)
		pass(40 * time.Second)
		equal(t, "published afterwards", nil, publish())
	})
}

// RabbitMQ confirms nothing while it blocks publishers. The time to confirm begins again when it unblocks them.
func TestAMessageSentBeforeAnAlarmKeepsWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(contract.Default("orders"))
		conn := consumer.NewConn(nil, withTransport(b))
		defer conn.Close()
		b.Silence("orders", true)
		published := publishLater(t, conn, "", consumer.Publishing{})
		b.Block(true)
		pass(10 * time.Minute)
		equal(t, "answered during the alarm", 0, len(published))
		b.Block(false)
		pass(25 * time.Second)
		equal(t, "answered after the alarm", 0, len(published))
		pass(10 * time.Second)
		equal(t, "unknown in the end", true, isUnknown(<-published))
		equal(t, "connections", 1, b.Dials())
	})
}

// The broker may have routed a message before the exchange was deleted.
func TestAMessageThatWaitsWhileItsExchangeIsDeletedHasAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(contract.Default("orders"))
		conn := consumer.NewConn(nil, withTransport(b))
		defer conn.Close()
		b.Bind("shop", "orders", "orders")
		equal(t, "published before", nil, <-publishLater(t, conn, "shop", consumer.Publishing{}))
		b.Silence("orders", true)
		waiting := publishLater(t, conn, "shop", consumer.Publishing{})
		equal(t, "answered before the deletion", 0, len(waiting))
		b.DeleteExchange("shop")
		publishLater(t, conn, "shop", consumer.Publishing{}) // closes the channel
		equal(t, "unknown", true, isUnknown(<-waiting))
	})
}
