package deadletter

import (
	"maps"
	"math"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

var (
	redriveHeaders = RedriveHeaders{
		ID: "0d7f", Name: "shop/orders-x7k2p", By: "alice@example.com", Reason: "payment API is back", From: "orders.dlq",
		Remove: []string{"x-attempts"},
	}
	at = time.Date(2026, 11, 2, 8, 30, 0, 0, time.UTC)
)

// stamped are the headers that each copy has.
func stamped(others amqp.Table) amqp.Table {
	headers := amqp.Table{
		"x-warren-redrive-id": "0d7f", "x-warren-redrive-name": "shop/orders-x7k2p", "x-warren-redrive-by": "alice@example.com",
		"x-warren-redrive-reason": "payment API is back", "x-warren-redrive-from": "orders.dlq",
		"x-warren-redrive-at": "2026-11-02T08:30:00Z", "x-warren-redrive-seq": int64(7), "x-warren-redrive-count": int64(1),
	}
	maps.Copy(headers, others)
	return headers
}

func TestCopyHeaders(t *testing.T) {
	t.Parallel()
	rejected := []any{deathIn("orders", "rejected", "shop", "order.placed")}
	for name, test := range map[string]struct {
		message amqp.Delivery
		want    amqp.Table
	}{
		"what the broker wrote goes, where the message came from stays": {
			message: amqp.Delivery{
				UserId: "producer",
				Headers: amqp.Table{
					"x-death": rejected, "x-first-death-queue": "orders", "x-first-death-reason": "rejected", "x-first-death-exchange": "shop",
					"x-last-death-queue": "orders", "x-last-death-reason": "rejected", "x-last-death-exchange": "shop",
					"x-delivery-count": int64(3), "x-acquired-count": int64(4), "CC": []any{"a", "b"}, "BCC": []any{"c"}, "tenant": "acme",
				},
			},
			want: stamped(amqp.Table{
				"tenant": "acme", "x-original-exchange": "shop", "x-original-routing-key": "order.placed",
				"x-warren-origin-queue": "orders", "x-warren-origin-exchange": "shop", "x-warren-origin-routing-key": "order.placed", "x-warren-origin-reason": "Rejected",
				"x-warren-origin-time": "2026-11-01T10:00:00Z", "x-warren-origin-cc": "a,b", "x-warren-origin-user-id": "producer",
			}),
		},
		"what Warren's library wrote of attempts goes": {
			message: amqp.Delivery{Headers: amqp.Table{
				"x-retry-count": int64(4), "x-defer-count": int64(1), "x-copy-id": "c1", "x-failure-kind": "exhausted",
				"x-failure-message": "no route to host", "x-failure-queue": "orders", "x-failure-time": "…", "x-failure-client": "…",
				"x-original-exchange": "shop", "x-original-routing-key": "order.placed",
			}},
			want: stamped(amqp.Table{
				"x-original-exchange": "shop", "x-original-routing-key": "order.placed", "x-warren-origin-queue": "orders",
				"x-warren-origin-exchange": "shop", "x-warren-origin-routing-key": "order.placed", "x-warren-origin-reason": "Parked",
			}),
		},
		"what the Redrive names goes, too": {
			message: amqp.Delivery{Headers: amqp.Table{"x-attempts": int64(4), "x-retry-count": int64(4), "tenant": "acme"}},
			want:    stamped(amqp.Table{"tenant": "acme", "x-warren-origin-reason": "Parked"}),
		},
		"what delays a message goes": {
			message: amqp.Delivery{Headers: amqp.Table{"x-opt-delivery-time": at.Add(time.Hour).UnixMilli(), "x-opt-deferral-token": "t1"}},
			want:    stamped(amqp.Table{"x-warren-origin-reason": "Parked"}),
		},
		"a second Redrive counts, and keeps what the first one found": {
			message: amqp.Delivery{Headers: amqp.Table{
				"x-death": []any{deathIn("orders", "rejected", "", "orders")}, "x-warren-redrive-count": int64(1),
				"x-warren-redrive-id": "other", "x-warren-origin-reason": "Expired", "x-warren-origin-exchange": "shop",
				"x-warren-origin-routing-key": "order.placed", "x-warren-origin-queue": "orders",
			}},
			want: stamped(amqp.Table{
				"x-original-exchange": "shop", "x-original-routing-key": "order.placed", "x-warren-redrive-count": int64(2),
				"x-warren-origin-reason": "Expired", "x-warren-origin-exchange": "shop",
				"x-warren-origin-routing-key": "order.placed", "x-warren-origin-queue": "orders",
			}),
		},
		"no headers": {want: stamped(amqp.Table{"x-warren-origin-reason": "Parked"})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			copied := redriveHeaders.Copy(orders.Read(&test.message), at, 7)
			topologytest.Equal(t, "headers", test.want, copied.Headers)
		})
	}
}

// A message may come with the largest count, which a Redrive keeps: a larger number would be read as 0.
func TestCopyOfTheLargestCount(t *testing.T) {
	t.Parallel()
	forged := amqp.Delivery{Headers: amqp.Table{"x-warren-redrive-count": int64(math.MaxInt32)}}
	copied := redriveHeaders.Copy(Source{}.Read(&forged), at, 7)
	if got := (Source{}).Read(&amqp.Delivery{Headers: copied.Headers}).Redrives; got != math.MaxInt32 {
		t.Errorf("%d redrives of the copy", got)
	}
}

// A Redrive without requester does not keep the requester of an earlier one.
func TestCopyWithoutRequester(t *testing.T) {
	t.Parallel()
	message := amqp.Delivery{Headers: amqp.Table{"x-warren-redrive-by": "mallory", "x-warren-redrive-reason": "before"}}
	copied := RedriveHeaders{ID: "0d7f"}.Copy(orders.Read(&message), at, 1)
	for _, name := range []string{"x-warren-redrive-by", "x-warren-redrive-reason"} {
		if value, found := copied.Headers[name]; found {
			t.Errorf("%s is %q and must not be there", name, value)
		}
	}
}

func TestCopyProperties(t *testing.T) {
	t.Parallel()
	message := amqp.Delivery{
		ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: amqp.Transient, Priority: 5, CorrelationId: "c",
		ReplyTo: "replies", Expiration: "60000", MessageId: "m1", Timestamp: died, Type: "order", UserId: "producer", AppId: "shop",
		Body: []byte("{}"),
	}
	got := redriveHeaders.Copy(orders.Read(&message), at, 1)
	got.Headers = nil
	topologytest.Equal(t, "properties", amqp.Publishing{
		ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: amqp.Persistent, Priority: 5, CorrelationId: "c",
		ReplyTo: "replies", MessageId: "m1", Timestamp: died, Type: "order", AppId: "shop", Body: []byte("{}"),
	}, got)
}
