package recreate

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/rabbit/mover"
)

func TestCopyOfAMessage(t *testing.T) {
	sent := time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)
	full := func(change func(*amqp.Delivery)) amqp.Delivery {
		message := amqp.Delivery{
			Headers: amqp.Table{"tenant": "a"}, ContentType: "text/plain", ContentEncoding: "gzip", DeliveryMode: 2, Priority: 4,
			CorrelationId: "c", ReplyTo: "r", MessageId: "m", Timestamp: sent, Type: "order", AppId: "shop",
			Exchange: "orders", RoutingKey: "eu.created", Body: []byte("body"),
		}
		if change != nil {
			change(&message)
		}
		return message
	}
	same := func(headers amqp.Table, change func(*amqp.Publishing)) amqp.Publishing {
		headers[mover.SeqHeader] = int64(7)
		copied := amqp.Publishing{
			Headers: headers, ContentType: "text/plain", ContentEncoding: "gzip", DeliveryMode: 2, Priority: 4,
			CorrelationId: "c", ReplyTo: "r", MessageId: "m", Timestamp: sent, Type: "order", AppId: "shop", Body: []byte("body"),
		}
		if change != nil {
			change(&copied)
		}
		return copied
	}
	cases := map[string]struct {
		movesBack, restores bool

		message amqp.Delivery
		copied  amqp.Publishing
	}{
		"keeps everything and records the exchange": {
			message: full(nil),
			copied:  same(amqp.Table{"tenant": "a", headerExchange: "orders"}, nil),
		},
		"keeps the exchange that an earlier move recorded": {
			movesBack: true, restores: true,
			message: full(func(m *amqp.Delivery) { m.Headers[headerExchange], m.Exchange = "orders", "warren-backlog-k3v9q2m7xa" }),
			copied:  same(amqp.Table{"tenant": "a", headerExchange: "orders"}, nil),
		},
		"drops the counts of RabbitMQ": {
			message: full(func(m *amqp.Delivery) {
				m.Headers["x-delivery-count"], m.Headers["x-acquired-count"] = int64(2), int64(3)
			}),
			copied: same(amqp.Table{"tenant": "a", headerExchange: "orders"}, nil),
		},
		"keeps its own user-id": {
			message: full(func(m *amqp.Delivery) { m.UserId = "warren" }),
			copied:  same(amqp.Table{"tenant": "a", headerExchange: "orders"}, func(p *amqp.Publishing) { p.UserId = "warren" }),
		},
		"records the user-id of others": {
			message: full(func(m *amqp.Delivery) { m.UserId = "shop" }),
			copied:  same(amqp.Table{"tenant": "a", headerExchange: "orders", headerUserID: "shop"}, nil),
		},
		"keeps the message from expiring in the hold": {
			message: full(func(m *amqp.Delivery) { m.Expiration = "60000" }),
			copied:  same(amqp.Table{"tenant": "a", headerExchange: "orders", headerExpiration: "60000"}, nil),
		},
		"restores the expiration": {
			movesBack: true, restores: true,
			message: full(func(m *amqp.Delivery) { m.Headers[headerExchange], m.Headers[headerExpiration] = "orders", "60000" }),
			copied:  same(amqp.Table{"tenant": "a", headerExchange: "orders"}, func(p *amqp.Publishing) { p.Expiration = "60000" }),
		},
		"drops the header that a publisher has set, on the way to the backlog": {
			message: full(func(m *amqp.Delivery) { m.Headers[headerExpiration] = "x" }),
			copied:  same(amqp.Table{"tenant": "a", headerExchange: "orders"}, nil),
		},
		"keeps the header and the expiration that a publisher has set, on the way from the hold": {
			movesBack: true,
			message:   full(func(m *amqp.Delivery) { m.Expiration, m.Headers[headerExpiration] = "60000", "x" }),
			copied: same(amqp.Table{"tenant": "a", headerExchange: "orders", headerExpiration: "x"},
				func(p *amqp.Publishing) { p.Expiration = "60000" }),
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			route, copied, err := copier{"there", "warren", test.movesBack, test.restores}.Copy(&test.message, 7)
			if difference := cmp.Diff(contract.Route{Exchange: "there", RoutingKey: "eu.created"}, route); err != nil || difference != "" {
				t.Errorf("%v\n%s", err, difference)
			}
			if difference := cmp.Diff(test.copied, copied); difference != "" {
				t.Error(difference)
			}
		})
	}

	t.Run("refuses a message of AMQP 1.0", func(t *testing.T) {
		_, _, err := copier{}.Copy(&amqp.Delivery{Type: deadletter.TypeAMQP10}, 1)
		if !errors.Is(err, errAMQP10) {
			t.Error(err)
		}
	})
}

// movingChanger records the last move.
type movingChanger struct {
	Changer

	config mover.Config
}

func (c *movingChanger) Move(_ context.Context, _ string, config mover.Config) (mover.Progress, error) {
	c.config = config
	return mover.Progress{}, nil
}

// Publishers may fill a queue or the hold faster than Warren moves messages. Then the recreation must go on even so.
func TestAMoveOutOfAQueueThatFillsUpEnds(t *testing.T) {
	for name, test := range map[string]struct {
		move move
		want int
	}{
		"until the hold is nearly empty": {move{ready: 100, endBelow: nearlyEmpty, movesBack: true}, 5200},
		"until the backlog is empty":     {move{ready: 100, movesBack: true, restores: true}, math.MaxInt},
		"until the main queue is empty":  {move{ready: 100, endBelow: 1}, 5200},
	} {
		t.Run(name, func(t *testing.T) {
			changer := &movingChanger{}
			recreator := New(Settings{}, nil, changer, nil, nil)
			if _, err := recreator.move(t.Context(), test.move, nil); err != nil {
				t.Fatal(err)
			}
			if changer.config.Total != test.want {
				t.Errorf("moves at most %d messages, want %d", changer.config.Total, test.want)
			}
		})
	}
}

// fillingChanger is a broker whose queue gets three messages by name for each message that is moved.
type fillingChanger struct {
	Changer

	ready, moves int
}

func (c *fillingChanger) DeclaredQueue(context.Context, string, string) (amqp.Queue, bool, error) {
	return amqp.Queue{Messages: c.ready}, true, nil
}

func (c *fillingChanger) Move(_ context.Context, _ string, config mover.Config) (mover.Progress, error) {
	c.moves++
	moved := min(config.Total, 1_000_000)
	c.ready += 2 * moved
	return mover.Progress{Moved: moved}, nil
}

// Swap counts the messages that Empty leaves, because they came past the bindings.
func TestEmptyEndsAlthoughMessagesComeByName(t *testing.T) {
	changer := &fillingChanger{ready: 100}
	progress, err := New(Settings{}, nil, changer, nil, busyAPI{}).Empty(t.Context(), of("orders"), nil)
	if err != nil || progress.Moved != 5200 || changer.moves != 1 {
		t.Errorf("moved %d messages in %d moves: %v", progress.Moved, changer.moves, err)
	}
}

func TestMessagesThatCameByTheNameOfTheQueue(t *testing.T) {
	emptied := of("orders")
	emptied.Emptied, emptied.Tiers = true, []string{"orders.retry.10s"}
	death := func(queue string) amqp.Table {
		return amqp.Table{"x-death": []any{amqp.Table{"queue": queue, "reason": "expired", "count": int64(1)}}}
	}
	cases := map[string]struct {
		rec     Recreation
		message amqp.Delivery
		want    bool
	}{
		"before the queue was emptied":       {rec: of("orders")},
		"after the queue was emptied":        {rec: emptied, want: true},
		"from a delay tier":                  {rec: emptied, message: amqp.Delivery{Headers: death("orders.retry.10s")}},
		"from another queue":                 {rec: emptied, message: amqp.Delivery{Headers: death("bills")}, want: true},
		"delivered before, and then delayed": {rec: emptied, message: amqp.Delivery{Redelivered: true}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if got := test.rec.isPast(&test.message); got != test.want {
				t.Error(got)
			}
		})
	}
}
