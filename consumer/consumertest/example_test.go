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
