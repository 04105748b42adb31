package consumertest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/consumertest"
	"github.com/warren-mq/warren/consumer/contract"
)

func TestHandleReturnsTheAction(t *testing.T) {
	t.Parallel()
	late, cancel := context.WithCancelCause(t.Context())
	cancel(consumer.ErrTimeout)
	for name, test := range map[string]struct {
		ctx     context.Context
		attempt int
		returns error
		want    contract.Action
	}{
		"nil":                {t.Context(), 1, nil, contract.Action{Verb: contract.VerbAck}},
		"an error":           {t.Context(), 1, errors.New("no stock"), contract.Action{Verb: contract.VerbPublish, Kind: contract.KindFailed, Route: &contract.Route{RoutingKey: "orders.retry.30s"}}},
		"the second error":   {t.Context(), 2, errors.New("no stock"), contract.Action{Verb: contract.VerbPublish, Kind: contract.KindFailed, Route: &contract.Route{RoutingKey: "orders.retry.5m"}}},
		"the last error":     {t.Context(), 4, errors.New("no stock"), contract.Action{Verb: contract.VerbPublish, Kind: contract.KindExhausted, GivenUp: true, Route: &contract.Route{Exchange: "orders.dlx"}, Otherwise: contract.VerbReject}},
		"Permanent":          {t.Context(), 1, consumer.Permanent(errors.New("no such customer")), contract.Action{Verb: contract.VerbPublish, Kind: contract.KindPermanent, GivenUp: true, Route: &contract.Route{Exchange: "orders.dlx"}, Otherwise: contract.VerbReject}},
		"Defer":              {t.Context(), 4, consumer.Defer(time.Hour), contract.Action{Verb: contract.VerbPublish, Route: &contract.Route{RoutingKey: "orders.retry.30m"}}},
		"Discard":            {t.Context(), 1, consumer.Discard(errors.New("too old")), contract.Action{Verb: contract.VerbAck}},
		"an error, too late": {late, 1, errors.New("no stock"), contract.Action{Verb: contract.VerbPublish, Kind: contract.KindTimeout, Route: &contract.Route{RoutingKey: "orders.retry.30s"}}},
		"Permanent(nil)":     {t.Context(), 1, consumer.Permanent(nil), contract.Action{Verb: contract.VerbAck}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := consumertest.Message(contract.Default("orders"), order{Amount: 7}, consumertest.Attempt(test.attempt))
			got := consumertest.Handle(test.ctx, func(_ context.Context, m *consumer.Message[order]) error {
				if m.Attempt() != test.attempt || m.MaxAttempts() != 4 || m.Queue() != "orders" || string(m.Raw.Body) != `{"amount":7}` {
					t.Errorf("attempt %d of %d of queue %q: %s", m.Attempt(), m.MaxAttempts(), m.Queue(), m.Raw.Body)
				}
				if m.IsLastAttempt() != (test.attempt == 4) {
					t.Errorf("attempt %d is the last: %t", test.attempt, m.IsLastAttempt())
				}
				return test.returns
			}, m)
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(contract.Action{}, "Headers")); diff != "" {
				t.Errorf("action (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHandleBatchReturnsTheActionOfEachMessage(t *testing.T) {
	t.Parallel()
	message := func(body string, attempt int) *consumer.Message[string] {
		return consumertest.Message(contract.Default("orders"), body, consumertest.Attempt(attempt))
	}
	ends := func(handle consumer.BatchHandler[string]) (all []string) {
		for _, action := range consumertest.HandleBatch(t.Context(), handle, message("a", 1), message("b", 1), message("c", 4)) {
			all = append(all, fmt.Sprint(action.Verb, " ", action.Kind))
		}
		return all
	}
	for name, test := range map[string]struct {
		handle consumer.BatchHandler[string]
		want   []string
	}{
		"one has a result of its own": {func(_ context.Context, b *consumer.Batch[string]) error {
			b.SetResult(b.Messages[1], consumer.Permanent(errors.New("no such customer")))
			return nil
		}, []string{"ack ", "publish permanent", "ack "}},
		"an error":  {func(context.Context, *consumer.Batch[string]) error { return errors.New("no stock") }, []string{"publish failed", "publish failed", "publish exhausted"}},
		"it panics": {func(context.Context, *consumer.Batch[string]) error { panic("no stock") }, []string{"publish panic", "publish panic", "publish exhausted"}},
	} {
		if diff := cmp.Diff(test.want, ends(test.handle)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestABatchAtTheInMemoryBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		b := consumertest.NewBatch(t, contract.Default("orders"), 100, time.Second, func(_ context.Context, b *consumer.Batch[order]) error {
			sizes = append(sizes, len(b.Messages))
			return nil
		})
		for range 130 {
			b.Publish(consumer.Publishing{Body: []byte(`{"amount": 7}`)})
		}
		b.Wait(2 * time.Second)
		if diff := cmp.Diff([]int{100, 30}, sizes); diff != "" {
			t.Errorf("sizes (-want +got):\n%s", diff)
		}
	})
}

func TestAMessageWithOneAttemptIsDeadAfterOneFailure(t *testing.T) {
	t.Parallel()
	for _, strategy := range []contract.Strategy{contract.StrategyPublish, contract.StrategyRequeue} {
		synctest.Test(t, func(t *testing.T) {
			c := contract.Default("orders")
			c.Strategy, c.MaxAttempts = strategy, 1
			if strategy == contract.StrategyRequeue {
				c.Tiers = nil
			}
			attempts := 0
			b := consumertest.New(t, c, func(context.Context, *consumer.Message[order]) error {
				attempts++
				return errors.New("the warehouse is closed")
			})
			b.Publish(consumer.Publishing{Body: []byte(`{"amount": 7}`)})
			b.Wait(time.Hour)
			if dead := b.DeadLetters(); attempts != 1 || len(dead) != 1 {
				t.Errorf("%s: %d attempts, %d dead letters", strategy, attempts, len(dead))
			}
		})
	}
}

func TestAVerdictCanBeInspected(t *testing.T) {
	t.Parallel()
	verdict := &consumer.Verdict{}
	if err := ship(t.Context(), consumertest.Message(contract.Default("orders"), order{Amount: -1})); !errors.As(err, &verdict) || verdict.Result != contract.ResultPermanent {
		t.Errorf("a negative amount: %v", err)
	}
}

// A second ack of a message would make the broker close the channel.
func TestAHandlerCannotSettleItsMessage(t *testing.T) {
	t.Parallel()
	d := consumertest.NewDelivery(amqp.Delivery{Acknowledger: &amqp.Channel{}}, contract.Default("orders"))
	if d.Raw.Acknowledger != nil || d.Raw.Ack(false) == nil {
		t.Error("the handler can ack")
	}
}

func TestAttemptFollowsTheStrategy(t *testing.T) {
	t.Parallel()
	for _, strategy := range []contract.Strategy{contract.StrategyPublish, contract.StrategyReject, contract.StrategyRequeue} {
		c := contract.Default("orders")
		c.Strategy = strategy
		if got := consumertest.Message(c, "a", consumertest.Attempt(4)).Attempt(); got != 4 {
			t.Errorf("%s: attempt %d", strategy, got)
		}
	}
}

func TestAHandlerThatPanicsFails(t *testing.T) {
	t.Parallel()
	m := consumertest.Message(contract.Default("orders"), []byte("a"), consumertest.ModifyDelivery(func(raw *amqp.Delivery) { raw.MessageId = "m-1" }))
	action := consumertest.Handle(t.Context(), func(_ context.Context, m *consumer.Message[[]byte]) error { panic(m.ID()) }, m)
	if action.Kind != contract.KindPanic || action.Headers[contract.HeaderFailureMessage] != "the handler panicked: m-1" {
		t.Errorf("%+v", action)
	}
}

// The handler publishes to an exchange of the application.
func TestAHandlerThatPublishes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var conn *consumer.Conn
		b := consumertest.New(t, contract.Default("orders"), func(ctx context.Context, m *consumer.Message[order]) error {
			return conn.Publish(ctx, "shop", "order.shipped", consumer.Publishing{Body: m.Raw.Body})
		})
		conn = b.Conn()
		b.Bind("shop", "order.shipped", "mails")
		b.Publish(consumer.Publishing{Body: []byte(`{"amount": 7}`)})
		b.Wait(time.Second)
		if got := b.Published(); len(got) != 1 || got[0].Exchange != "shop" || got[0].RoutingKey != "order.shipped" {
			t.Errorf("published: %v", got)
		}
		b.Refuse("mails", true)
		b.Publish(consumer.Publishing{Body: []byte(`{"amount": 8}`)})
		b.Wait(time.Second)
		if waiting := b.Messages("orders.retry.30s"); len(waiting) != 1 {
			t.Errorf("%d messages wait for another attempt", len(waiting))
		}
	})
}

// Bindings work as those of a topic exchange.
func TestBind(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		bind [][2]string // routing key and queue
		key  string
		want map[string]int // messages by queue; nil if no queue receives the message
	}{
		"another queue":                      {[][2]string{{"order.shipped", "mails"}, {"order.shipped", "audit"}}, "order.shipped", map[string]int{"mails": 1, "audit": 1}},
		"the same binding twice":             {[][2]string{{"order.shipped", "mails"}, {"order.shipped", "mails"}}, "order.shipped", map[string]int{"mails": 1}},
		"two bindings of a queue that match": {[][2]string{{"order.*", "mails"}, {"#", "mails"}}, "order.shipped", map[string]int{"mails": 1}},
		"* is one word":                      {[][2]string{{"order.*.eu", "mails"}}, "order.shipped.eu", map[string]int{"mails": 1}},
		"* is not two words":                 {[][2]string{{"order.*", "mails"}}, "order.shipped.eu", nil},
		"* is not no word":                   {[][2]string{{"order.*", "mails"}}, "order", nil},
		"# is two words":                     {[][2]string{{"order.#", "mails"}}, "order.shipped.eu", map[string]int{"mails": 1}},
		"# is no word":                       {[][2]string{{"order.#", "mails"}}, "order", map[string]int{"mails": 1}},
		"# in the middle":                    {[][2]string{{"order.#.eu", "mails"}}, "order.a.b.eu", map[string]int{"mails": 1}},
		"# with another end":                 {[][2]string{{"order.#.eu", "mails"}}, "order.a.b.us", nil},
		"another key":                        {[][2]string{{"order.shipped", "mails"}}, "order.placed", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := consumertest.New(t, contract.Default("orders"), ship)
				for _, binding := range test.bind {
					b.Bind("shop", binding[0], binding[1])
				}
				err := b.Conn().Publish(t.Context(), "shop", test.key, consumer.Publishing{Body: []byte("a")})
				if routed := err == nil; routed != (test.want != nil) {
					t.Errorf("publish: %v", err)
				}
				for queue, count := range test.want {
					if got := b.Messages(queue); len(got) != count {
						t.Errorf("%d messages in %s, not %d", len(got), queue, count)
					}
				}
				if routed := len(b.Published()); routed != min(1, len(test.want)) {
					t.Errorf("published %d messages", routed)
				}
			})
		})
	}
}

// A full queue does not keep the message from other queues.
func TestAQueueRefusesAMessageOfTwo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := consumertest.New(t, contract.Default("orders"), ship)
		b.Bind("shop", "#", "mails")
		b.Bind("shop", "#", "audit")
		b.Refuse("mails", true)
		err := b.Conn().Publish(t.Context(), "shop", "order.shipped", consumer.Publishing{})
		if refused := new(consumer.RefusedError); !errors.As(err, &refused) {
			t.Errorf("publish: %v", err)
		}
		if len(b.Messages("mails")) != 0 || len(b.Messages("audit")) != 1 {
			t.Errorf("%d mails, %d in audit", len(b.Messages("mails")), len(b.Messages("audit")))
		}
	})
}

// Outside synctest.Test, the broker works in real time, for tests with a database or a web server.
func TestRealTime(t *testing.T) {
	t.Parallel()
	c := contract.Default("orders")
	for i := range c.Tiers {
		c.Tiers[i].Delay = contract.Duration(time.Millisecond)
	}
	b := consumertest.New(t, c, ship)
	b.Publish(consumer.Publishing{Body: []byte(`{"amount": 7}`)})
	b.Publish(consumer.Publishing{Body: []byte(`{"amount": -1}`)})
	b.Wait(time.Minute)
	if dead := b.DeadLetters(); len(dead) != 1 {
		t.Errorf("%d dead letters", len(dead))
	}
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
}

// A handler must not use the test or its parts, such as a database, after the end of the test.
func TestTheConsumerHasStoppedAfterTheTest(t *testing.T) {
	t.Parallel()
	var b *consumertest.Broker
	var ended atomic.Bool
	t.Run("test", func(t *testing.T) {
		began := make(chan struct{})
		b = consumertest.New(t, contract.Default("orders"), func(ctx context.Context, _ *consumer.Message[string]) error {
			close(began)
			<-ctx.Done()
			ended.Store(true)
			return nil
		})
		b.Publish(consumer.Publishing{})
		<-began
	})
	if state := b.Consumer().Health().State; state != consumer.StateDisconnected || !ended.Load() {
		t.Errorf("state %s, the handler has ended: %t", state, ended.Load())
	}
}

// No consumer of the test takes the messages that a handler publishes to other queues.
func TestWaitIgnoresMessagesInOtherQueues(t *testing.T) {
	t.Parallel()
	var conn *consumer.Conn
	b := consumertest.New(t, contract.Default("orders"), func(ctx context.Context, _ *consumer.Message[string]) error {
		return conn.Publish(ctx, "shop", "order.shipped", consumer.Publishing{})
	})
	conn = b.Conn()
	b.Bind("shop", "order.shipped", "mails")
	b.Publish(consumer.Publishing{})
	began := time.Now()
	b.Wait(time.Minute)
	if took := time.Since(began); took > 50*time.Second || len(b.Messages("mails")) != 1 {
		t.Errorf("%d messages in the other queue after %s", len(b.Messages("mails")), took)
	}
}

func TestHandleKeepsTheHeadersThatAHandlerSets(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(raw *amqp.Delivery){
		"of a message without headers": func(raw *amqp.Delivery) { raw.Headers = nil },
		"of a message with a death":    func(raw *amqp.Delivery) { raw.Headers["x-death"] = []any{amqp.Table{"queue": "orders"}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := consumertest.Message(contract.Default("orders"), "", consumertest.ModifyDelivery(prepare))
			action := consumertest.Handle(t.Context(), func(_ context.Context, m *consumer.Message[string]) error {
				m.Raw.Headers = amqp.Table{"step": int32(1)}
				return io.EOF
			}, m)
			if action.Headers["step"] != int32(1) {
				t.Errorf("headers of the copy: %v", action.Headers)
			}
		})
	}
}

func TestAnAttemptKeepsTheProducersRoutingKey(t *testing.T) {
	t.Parallel()
	attempt := consumertest.Attempt(2)
	placed := consumertest.ModifyDelivery(func(raw *amqp.Delivery) { raw.Exchange, raw.RoutingKey = "shop", "order.placed" })
	for _, strategy := range []contract.Strategy{
		contract.StrategyPublish, contract.StrategyReject, contract.StrategyRequeue, contract.StrategyNone,
	} {
		c := contract.Default("orders")
		c.Strategy = strategy
		for _, options := range [][]consumertest.MessageOption{{attempt, placed}, {placed, attempt}} {
			m := consumertest.Message(c, "", options...)
			if m.OriginalExchange() != "shop" || m.OriginalRoutingKey() != "order.placed" {
				t.Errorf("%s: exchange %q, routing key %q", strategy, m.OriginalExchange(), m.OriginalRoutingKey())
			}
		}
	}
}

// fails records the message with which a test would end.
type fails struct {
	testing.TB
	message string
}

func (f *fails) Fatalf(format string, arguments ...any) {
	f.message = fmt.Sprintf(format, arguments...)
	panic(f)
}

func TestAQueueWithAnotherNameFailsTheTest(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*consumertest.Broker){
		"Messages": func(b *consumertest.Broker) { b.Messages("orders.retry") },
		"Refuse":   func(b *consumertest.Broker) { b.Refuse("orders.retry", true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failing := &fails{TB: t}
			b := consumertest.New(failing, contract.Default("orders"), ship)
			defer func() {
				const want = `no queue "orders.retry"; the queues are ["orders" "orders.dlq" "orders.retry.30m" "orders.retry.30s" "orders.retry.5m"]`
				if ended := recover(); ended != failing || failing.message != want {
					t.Errorf("%v: %q, want %q", ended, failing.message, want)
				}
			}()
			use(b)
		})
	}
}
