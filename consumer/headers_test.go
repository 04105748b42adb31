package consumer_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
)

// What a handler changes is in the next copy. What counts the attempts stays.
func TestAHandlerChangesTheHeadersOfCopies(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(d *consumer.Delivery){
		"in place":     func(d *consumer.Delivery) { d.Raw.Headers["step"] = int32(d.Attempt()) },
		"with a table": func(d *consumer.Delivery) { d.Raw.Headers = amqp.Table{"step": int32(d.Attempt())} },
		"and the count": func(d *consumer.Delivery) {
			d.Raw.Headers["step"] = int32(d.Attempt())
			delete(d.Raw.Headers, contract.HeaderRetryCount)
		},
		"and counts before the first copy": func(d *consumer.Delivery) {
			d.Raw.Headers["step"] = int32(d.Attempt())
			d.Raw.Headers[contract.HeaderRetryCount], d.Raw.Headers[contract.HeaderOriginalExchange] = int32(9), "elsewhere"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var seen []string
				b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
					seen = append(seen, fmt.Sprint(m.Attempt(), " after ", m.Raw.Headers["step"]))
					change(m.Delivery)
					return io.EOF
				})
				b.send(t, "a")
				pass(3 * time.Hour)
				equal(t, "attempts", []string{"1 after <nil>", "2 after 1", "3 after 2", "4 after 3"}, seen)
				equal(t, "dead letters", []string{"a exhausted 4"}, b.dead())
				dead := b.Messages("orders.dlq")[0].Headers
				equal(t, "in the dead letter", []any{int32(4), ""}, []any{dead["step"], dead[contract.HeaderOriginalExchange]})
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// A message that another client copied has attempts behind it, and no header of RabbitMQ.
func TestAHandlerCannotResetTheAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handled := 0
		b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
			handled++
			clear(m.Raw.Headers)
			return io.EOF
		})
		b.Publish("", "orders", amqp.Publishing{Body: []byte("a"), Headers: amqp.Table{contract.HeaderRetryCount: int64(3)}})
		pass(3 * time.Hour)
		equal(t, "handled", 1, handled)
		equal(t, "dead letters", []string{"a exhausted 4"}, b.dead())
		equal(t, "Run", nil, b.end())
	})
}

// A frame has 131,072 bytes. The dead letter is the message as delivered.
func TestAHandlerThatMakesTheHeadersTooLarge(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 200_000)
	for name, test := range map[string]struct {
		change      func(headers amqp.Table)
		dead        []string
		least, most int64 // publications
	}{
		"with a header": {func(headers amqp.Table) { headers["debug"] = large }, []string{"a permanent 1"}, 3, 3},
		"in a table that was delivered": {func(headers amqp.Table) {
			table, _ := headers["table"].(amqp.Table)
			table["debug"] = large
		}, []string{"a <nil> <nil>"}, 5, 15}, // rejected after 30 s
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				published := atomic.Int64{}
				b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
					test.change(m.Raw.Headers)
					return io.EOF
				}, consumer.WithObserver(consumer.Observer{Published: func(consumer.Publication) { published.Add(1) }}))
				b.Publish("", "orders", amqp.Publishing{Body: []byte("a"), Headers: amqp.Table{"table": amqp.Table{}}})
				pass(time.Minute)
				equal(t, "dead letters", test.dead, b.dead())
				equal(t, "header in the dead letter", nil, b.Messages("orders.dlq")[0].Headers["debug"])
				if times := published.Load(); times < test.least || times > test.most {
					t.Errorf("the copy was published %d times", times)
				}
				equal(t, "connections", 2, b.Dials())
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// amqp091-go closes the connection for a property of more than 255 bytes, and with it the copies of other messages.
func TestAHandlerThatMakesAPropertyTooLong(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	for name, change := range map[string]func(raw *amqp.Delivery){
		"the correlation ID": func(raw *amqp.Delivery) { raw.CorrelationId = long },
		"the type":           func(raw *amqp.Delivery) { raw.Type = long },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				published := atomic.Int64{}
				b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
					change(&m.Raw)
					return io.EOF
				}, consumer.WithObserver(consumer.Observer{Published: func(consumer.Publication) { published.Add(1) }}))
				b.send(t, "a")
				pass(time.Minute)
				equal(t, "dead letters", []string{"a permanent 1"}, b.dead())
				equal(t, "published", 3, int(published.Load())) // to the tier, to the dead-letter queue, and there as delivered
				equal(t, "connections", 2, b.Dials())
				equal(t, "Run", nil, b.end())
			})
		})
	}
}

// amqp091-go refuses a message with such a header, or closes its connection, so the copy does not have it.
func TestACopyLeavesOutAHeaderThatCannotBeSent(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{
		"an unsigned number":   uint64(1),
		"a list of texts":      []string{"a"},
		"a map in a table":     amqp.Table{"a": map[string]any{}},
		"a duration in a list": []any{time.Second},
		"a long name":          amqp.Table{strings.Repeat("x", 256): true},
		"a long name in lists": []any{[]any{amqp.Table{strings.Repeat("x", 256): true}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				log, published := &record{}, atomic.Int64{}
				b := run(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
					m.Raw.Headers["good"], m.Raw.Headers["step"] = "yes", value
					return io.EOF
				}, consumer.WithLogger(slog.New(slog.NewTextHandler(log, nil))),
					consumer.WithObserver(consumer.Observer{Published: func(consumer.Publication) { published.Add(1) }}))
				b.send(t, "a")
				pass(20 * time.Second)
				equal(t, "published", 1, int(published.Load()))
				for _, copied := range b.Messages("orders.retry.30s") {
					equal(t, "headers", []any{"yes", nil}, []any{copied.Headers["good"], copied.Headers["step"]})
				}
				equal(t, "in the tier", 1, len(b.Messages("orders.retry.30s")))
				equal(t, "logged", 1, log.count("header=step"))
				equal(t, "connections", 2, b.Dials())
				equal(t, "Run", nil, b.end())
			})
		})
	}
}
