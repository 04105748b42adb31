package consumertest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/consumertest"
	"github.com/warren-mq/warren/consumer/contract"
)

type order struct {
	Amount int `json:"amount"`
}

// ship fails twice and succeeds on the third attempt.
func ship(_ context.Context, m *consumer.Message[order]) error {
	if m.Body.Amount < 0 {
		return consumer.Permanent(errors.New("the amount is negative"))
	}
	if m.Attempt() < 3 {
		return errors.New("no stock")
	}
	return nil
}

// Handle shows how a consumer settles a message.
func ExampleHandle() {
	action := consumertest.Handle(context.Background(), ship, consumertest.Message(contract.Default("orders"), order{Amount: -1}))
	fmt.Println(action.Verb, action.Kind, action.Route.Exchange)
	// Output: publish permanent orders.dlx
}

// A batch has a result for each message.
func ExampleHandleBatch() {
	refuse := func(_ context.Context, b *consumer.Batch[order]) error {
		for _, m := range b.Messages {
			if m.Body.Amount < 0 {
				b.SetResult(m, consumer.Permanent(errors.New("the amount is negative")))
			}
		}
		return nil
	}
	current := contract.Default("orders")
	for _, action := range consumertest.HandleBatch(context.Background(), refuse,
		consumertest.Message(current, order{Amount: 7}), consumertest.Message(current, order{Amount: -1})) {
		fmt.Println(action.Verb, action.GivenUp)
	}
	// Output:
	// ack false
	// publish true
}

// The consumer calls the handler when a batch is full, or one second after its first message has arrived.
func ExampleNewBatch() {
	insert := func(context.Context, *consumer.Batch[order]) error { return nil }
	test := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := consumertest.NewBatch(t, contract.Default("orders"), 100, time.Second, insert)
			b.Publish(consumer.Publishing{Body: []byte(`{"amount": 7}`)})
			b.Wait(time.Second)
			if dead := b.DeadLetters(); len(dead) > 0 {
				t.Errorf("%d dead letters", len(dead))
			}
		})
	}
	_ = test
}

// The handler publishes an event to two queues. Because one of them is full, the order is handled again after 30 s.
func ExampleNew() {
	test := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var conn *consumer.Conn
			b := consumertest.New(t, contract.Default("orders"), func(ctx context.Context, m *consumer.Message[order]) error {
				return conn.Publish(ctx, "shop", "order.shipped", consumer.Publishing{Body: m.Raw.Body})
			})
			conn = b.Conn()
			b.Bind("shop", "order.shipped", "mails")
			b.Bind("shop", "order.#", "audit")
			b.Refuse("mails", true)
			b.Publish(consumer.Publishing{Body: []byte(`{"amount": 7}`)})
			b.Wait(time.Second)
			b.Refuse("mails", false)
			b.Wait(time.Minute)
			if published := b.Published(); len(published) != 1 || published[0].RoutingKey != "order.shipped" {
				t.Errorf("published: %v", published)
			}
		})
	}
	_ = test
}

func TestShip(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body string
		dead int
		took time.Duration
	}{
		"an order is shipped on the third attempt": {body: `{"amount": 7}`, took: 5*time.Minute + 30*time.Second},
		"a negative amount is dead-lettered":       {body: `{"amount": -1}`, dead: 1},
		"an undecodable body is dead-lettered":     {body: `{`, dead: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, ended := time.Now(), time.Time{}
				b := consumertest.New(t, contract.Default("orders"), ship, consumer.WithObserver(consumer.Observer{
					Settled: func(consumer.Settlement) { ended = time.Now() },
				}))
				b.Publish(consumer.Publishing{Body: []byte(test.body)})
				b.Wait(time.Hour)
				if dead := b.DeadLetters(); len(dead) != test.dead {
					t.Errorf("%d dead letters, not %d", len(dead), test.dead)
				}
				if took := ended.Sub(began).Truncate(time.Second); took != test.took {
					t.Errorf("it took %s, not %s", took, test.took)
				}
				if err := b.Stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
