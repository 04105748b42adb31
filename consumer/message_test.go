package consumer_test

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
)

func TestID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
			seen = append(seen, m.ID(), m.String())
			return nil
		})
		b.Publish("", "orders", amqp.Publishing{MessageId: "m-1", CorrelationId: "c-1"})
		synctest.Wait()
		b.Publish("", "orders", amqp.Publishing{CorrelationId: "c-2"})
		pass(time.Second)
		equal(t, "ID and text of each message", []string{"m-1", "m-1", "", "tag 2"}, seen)
		equal(t, "Run", nil, b.end())
	})
}

func TestDeferrals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen [][2]int
		b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
			seen = append(seen, [2]int{m.Deferrals(), m.Attempt()})
			switch {
			case m.Deferrals() < 2:
				return consumer.Defer(time.Second)
			case m.Attempt() == 1:
				return io.EOF
			}
			return nil
		})
		b.send(t, "a")
		pass(time.Hour)
		equal(t, "deferrals and attempts", [][2]int{{0, 1}, {1, 1}, {2, 1}, {2, 2}}, seen)
		equal(t, "Run", nil, b.end())
	})
}

// Under None, maxAttempts of the contract has no effect.
func TestTheOnlyAttemptIsTheLastOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		current := contract.Default("orders")
		current.Strategy, current.Tiers = contract.StrategyNone, nil
		b := run(t, current, func(_ context.Context, m *consumer.Message[string]) error {
			equal(t, "attempts", 1, m.MaxAttempts())
			equal(t, "the last attempt", true, m.IsLastAttempt())
			return io.EOF
		})
		b.send(t, "a")
		pass(time.Second)
		equal(t, "dead letters", []string{"a exhausted 1"}, b.dead())
		equal(t, "Run", nil, b.end())
	})
}

// A handler may change the headers that it forwards.
func TestForwardHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen []amqp.Table
		b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
			forwarded := m.ForwardHeaders()
			seen = append(seen, m.ForwardHeaders())
			forwarded["step"] = int32(1)
			switch {
			case m.Deferrals() == 0:
				return consumer.Defer(time.Second)
			case m.Attempt() == 1:
				return io.EOF
			}
			return nil
		})
		b.Publish("", "orders", amqp.Publishing{Headers: amqp.Table{
			"trace": "7", "CC": []any{"audit"}, contract.HeaderRedriveCount: int32(1), "x-warren-redrive-id": "1",
			"x-warren-origin-exchange": "shop",
		}})
		pass(time.Hour)
		want := amqp.Table{"trace": "7"}
		equal(t, "headers at the first delivery, after a deferral and after a failure", []amqp.Table{want, want, want}, seen)
		equal(t, "Run", nil, b.end())
	})
}

// At most ten lines of a kind are logged per second. The next line of another second says how many are missing.
func TestTheLogIsLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &record{}
		b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[int]) error {
			if m.Body%2 == 0 {
				return consumer.Discard(io.EOF)
			}
			return io.EOF
		}, consumer.WithConcurrency(1), consumer.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		for i := range 30 {
			b.send(t, strconv.Itoa(i))
		}
		pass(2 * time.Second)
		equal(t, "discarded", 10, log.count("The message was discarded"))
		equal(t, "failed", 10, log.count("The message failed and waits for its next attempt"))
		equal(t, "not logged", 0, log.count("Further messages were not logged"))
		b.send(t, "30")
		pass(time.Second)
		equal(t, "discarded, and one in another second", 11, log.count("The message was discarded"))
		equal(t, "not logged", 1, log.count(`msg="Further messages were not logged" count=10`))
		equal(t, "Run", nil, b.end())
	})
}
