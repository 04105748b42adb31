package consumer_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

// beginPublish publishes a message. It returns the channel of the result once the message was sent.
func beginPublish(t *testing.T, conn *consumer.Conn, exchange string, message consumer.Publishing) chan error {
	t.Helper()
	published := make(chan error, 1)
	go func() { published <- conn.Publish(t.Context(), exchange, "orders", message) }()
	pass(time.Second) // a new channel opens with a delay
	return published
}

func isRefused(err error) bool { return errors.As(err, new(*consumer.RefusedError)) }

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
		published := beginPublish(t, conn, "", consumer.Publishing{})
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

// A return without an ID could belong to any message of its channel.
func TestAMessageWithoutAnIDHasItsOwnChannel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(contract.Default("orders"))
		conn := consumer.NewConn(nil, withTransport(b), consumer.WithPublishHook(
			func(_ context.Context, _, _ string, message *consumer.Publishing) { message.Headers = nil }))
		defer conn.Close()
		equal(t, "published", nil, conn.Publish(t.Context(), "", "orders", consumer.Publishing{}))
		equal(t, "channels after the confirm", 0, b.Channels())
		b.Silence("orders", true)
		for range 2 {
			beginPublish(t, conn, "", consumer.Publishing{})
		}
		equal(t, "channels of two messages", 2, b.Channels())
	})
}

// The broker closes the channel of the first message for such an exchange. The next one has a channel of its own.
func TestAMissingExchangeCostsOthersTheirConfirmOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(contract.Default("orders"))
		conn := consumer.NewConn(nil, withTransport(b))
		defer conn.Close()
		b.Silence("orders", true)
		missing := func() bool {
			return errors.As(<-beginPublish(t, conn, "nowhere", consumer.Publishing{}), new(*consumer.UnroutableError))
		}
		waiting := beginPublish(t, conn, "", consumer.Publishing{})
		equal(t, "the exchange is missing", true, missing())
		equal(t, "unknown", true, isUnknown(<-waiting))
		waiting = beginPublish(t, conn, "", consumer.Publishing{})
		equal(t, "the exchange is still missing", true, missing())
		equal(t, "answered", 0, len(waiting))
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
		equal(t, "published before", nil, <-beginPublish(t, conn, "shop", consumer.Publishing{}))
		b.Silence("orders", true)
		waiting := beginPublish(t, conn, "shop", consumer.Publishing{})
		equal(t, "answered before the deletion", 0, len(waiting))
		b.DeleteExchange("shop")
		beginPublish(t, conn, "shop", consumer.Publishing{}) // closes the channel
		equal(t, "unknown", true, isUnknown(<-waiting))
	})
}

// RabbitMQ checks the permission for a routing key after the one for the exchange.
func TestAForbiddenRoutingKeyRefusesNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(contract.Default("orders"))
		conn := consumer.NewConn(nil, withTransport(b))
		defer conn.Close()
		b.Bind("shop", "orders", "orders")
		b.ForbidTopic("shop", "secret")
		b.Silence("orders", true)
		waiting := beginPublish(t, conn, "shop", consumer.Publishing{})
		for range 3 {
			err := conn.Publish(t.Context(), "shop", "secret", consumer.Publishing{})
			if !isRefused(err) || !strings.Contains(err.Error(), "topic 'secret'") {
				t.Errorf("a forbidden routing key: %v", err)
			}
		}
		equal(t, "the message with another key is unknown", true, isUnknown(<-waiting))
		b.Silence("orders", false)
		equal(t, "published with another key", nil, conn.Publish(t.Context(), "shop", "orders", consumer.Publishing{}))
	})
}

// RabbitMQ closes the channel of a message that is too large, so other messages would lose their confirm.
func TestAMessageThatIsKnownToBeTooLargeIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(contract.Default("orders"))
		conn := consumer.NewConn(nil, withTransport(b))
		defer conn.Close()
		b.Limit(1000, "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000")
		large := consumer.Publishing{Body: make([]byte, 1001)}
		equal(t, "refused", true, isRefused(conn.Publish(t.Context(), "", "orders", large)))
		b.Silence("orders", true)
		waiting := beginPublish(t, conn, "", consumer.Publishing{})
		equal(t, "refused again", true, isRefused(<-beginPublish(t, conn, "", large)))
		equal(t, "answered", 0, len(waiting))
	})
}

// A broker that blocks publishers does not answer when a channel is closed. Other channels of the connection must remain.
func TestAnAbandonedMessageDisturbsNoOtherDuringAnAlarm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(contract.Default("orders"))
		conn := consumer.NewConn(nil, withTransport(b))
		defer conn.Close()
		err := <-beginPublish(t, conn, "shop", consumer.Publishing{})
		equal(t, "the exchange is missing", true, errors.As(err, new(*consumer.UnroutableError)))
		b.Bind("shop", "orders", "orders") // a message for the exchange is now tried on its own channel
		b.Silence("orders", true)
		waiting := beginPublish(t, conn, "", consumer.Publishing{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.AfterFunc(time.Millisecond, func() { b.Block(true) })
		equal(t, "abandoned and unknown", true, isUnknown(conn.Publish(ctx, "shop", "orders", consumer.Publishing{})))
		pass(time.Minute)
		equal(t, "answered", 0, len(waiting))
	})
}

// RabbitMQ 3.10 refuses messages on such a channel even when the queue is no longer full.
func TestAChannelOnWhichAQueueRefusesMessagesIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(contract.Default("orders"))
		conn := consumer.NewConn(nil, withTransport(b))
		defer conn.Close()
		b.KeepRefusing()
		b.Refuse("orders", true)
		equal(t, "refused", true, isRefused(<-beginPublish(t, conn, "", consumer.Publishing{})))
		pass(10 * time.Second)
		equal(t, "refused again", true, isRefused(<-beginPublish(t, conn, "", consumer.Publishing{})))
		b.Refuse("orders", false)
		equal(t, "published", nil, <-beginPublish(t, conn, "", consumer.Publishing{}))
	})
}
