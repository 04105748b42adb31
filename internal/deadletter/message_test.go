package deadletter

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

var (
	orders = Source{Main: "orders", Tiers: []string{"orders.retry.30s", "orders.retry.5m"}}
	died   = time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)
)

// deathIn is an entry of x-death as RabbitMQ writes it.
func deathIn(queue, reason, exchange, key string) amqp.Table {
	return amqp.Table{
		"queue": queue, "reason": reason, "count": int64(1), "time": died, "exchange": exchange, "routing-keys": []any{key},
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		headers  amqp.Table
		reason   v1alpha1.DeadLetterReason
		origin   Origin
		redrives int
	}{
		"rejected": {
			headers: amqp.Table{"x-death": []any{deathIn("orders", "rejected", "shop", "order.placed")}},
			reason:  Rejected,
			origin:  Origin{Queue: "orders", Exchange: "shop", RoutingKey: "order.placed", Routed: true, DiedAt: died},
		},
		"expired": {
			headers: amqp.Table{"x-death": []any{deathIn("orders", "expired", "", "orders")}},
			reason:  Expired,
			origin:  Origin{Queue: "orders", RoutingKey: "orders", Routed: true, DiedAt: died},
		},
		"the queue was full": {
			headers: amqp.Table{"x-death": []any{deathIn("orders", "maxlen", "", "orders")}},
			reason:  MaxLength,
			origin:  Origin{Queue: "orders", RoutingKey: "orders", Routed: true, DiedAt: died},
		},
		"delivered too often": {
			headers: amqp.Table{"x-death": []any{deathIn("orders", "delivery_limit", "", "orders")}},
			reason:  DeliveryLimit,
			origin:  Origin{Queue: "orders", RoutingKey: "orders", Routed: true, DiedAt: died},
		},
		"rejected after a tier: the last death is first in the list": {
			headers: amqp.Table{"x-death": []any{
				deathIn("orders", "rejected", "shop", "order.placed"), deathIn("orders.retry.30s", "expired", "", "orders.retry.30s"),
			}},
			reason: Rejected,
			origin: Origin{Queue: "orders", Exchange: "shop", RoutingKey: "order.placed", Routed: true, DiedAt: died},
		},
		"parked by a consumer that keeps x-death": {
			headers: amqp.Table{"x-death": []any{deathIn("orders.retry.5m", "expired", "", "orders.retry.5m")}},
			reason:  Parked,
			origin:  Origin{Queue: "orders.retry.5m", DiedAt: died},
		},
		"parked by Warren's library": {
			headers: amqp.Table{
				"x-failure-queue": "orders", "x-original-exchange": "shop", "x-original-routing-key": "order.placed",
				"x-failure-time": died.Format(time.RFC3339),
			},
			reason: Parked,
			origin: Origin{Queue: "orders", Exchange: "shop", RoutingKey: "order.placed", Routed: true, DiedAt: died},
		},
		"parked long after a tier: the time of the failure counts": {
			headers: amqp.Table{
				"x-death":        []any{deathIn("orders.retry.5m", "expired", "", "orders.retry.5m")},
				"x-failure-time": died.Add(time.Hour).Format(time.RFC3339),
			},
			reason: Parked,
			origin: Origin{Queue: "orders.retry.5m", DiedAt: died.Add(time.Hour)},
		},
		"rejected after a failure: the broker's time counts": {
			headers: amqp.Table{
				"x-death":        []any{deathIn("orders", "rejected", "", "orders")},
				"x-failure-time": died.Add(-time.Hour).Format(time.RFC3339),
			},
			reason: Rejected,
			origin: Origin{Queue: "orders", RoutingKey: "orders", Routed: true, DiedAt: died},
		},
		"a time of failure that is no time": {headers: amqp.Table{"x-failure-time": "yesterday"}, reason: Parked},
		"parked, and nothing is known":      {reason: Parked},
		"parked after a Redrive": {
			headers: amqp.Table{
				"x-warren-redrive-count": int64(2), "x-warren-origin-queue": "orders",
				"x-warren-origin-exchange": "shop", "x-warren-origin-routing-key": "order.placed",
			},
			reason:   Parked,
			origin:   Origin{Queue: "orders", Exchange: "shop", RoutingKey: "order.placed", Routed: true},
			redrives: 2,
		},
		"rejected after a Redrive: where the message was published first stays known": {
			headers: amqp.Table{
				"x-death":                  []any{deathIn("orders", "rejected", "", "orders")},
				"x-warren-origin-exchange": "shop", "x-warren-origin-routing-key": "order.placed",
			},
			reason: Rejected,
			origin: Origin{Queue: "orders", Exchange: "shop", RoutingKey: "order.placed", Routed: true, DiedAt: died},
		},
		"published to the default exchange by a headerless client": {
			headers: amqp.Table{"x-death": []any{amqp.Table{"queue": "orders", "reason": "rejected"}}},
			reason:  Rejected,
			origin:  Origin{Queue: "orders"},
		},
		"an x-death that no broker writes": {
			headers: amqp.Table{"x-death": []any{"text", amqp.Table{"queue": 7}, amqp.Table{"queue": "q", "reason": "bored"}}},
			reason:  Parked,
		},
		"an x-death that is no list": {headers: amqp.Table{"x-death": "text"}, reason: Parked},
		"a name as long as that of a queue can be": {
			headers: amqp.Table{"x-failure-queue": strings.Repeat("q", 255)},
			reason:  Parked,
			origin:  Origin{Queue: strings.Repeat("q", 255)},
		},
		"a name that is too long for a queue": {headers: amqp.Table{"x-failure-queue": strings.Repeat("q", 256)}, reason: Parked},
		"a name that is too long for a queue, after a Redrive": {
			headers: amqp.Table{"x-failure-queue": strings.Repeat("q", 256), "x-warren-origin-queue": "orders"},
			reason:  Parked,
			origin:  Origin{Queue: "orders"},
		},
		"an x-death with a time that no API can show": {
			headers: amqp.Table{"x-death": []any{
				amqp.Table{"queue": "orders", "reason": "rejected", "time": time.Unix(1<<40, 0)},
			}},
			reason: Rejected,
			origin: Origin{Queue: "orders"},
		},
		"an x-death with a name that is too long for a queue": {
			headers: amqp.Table{"x-death": []any{deathIn(strings.Repeat("q", 256), "rejected", "", "orders")}},
			reason:  Parked,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := orders.Read(&amqp.Delivery{Headers: test.headers})
			topologytest.Equal(t, "reason", test.reason, got.Reason)
			topologytest.Equal(t, "origin", test.origin, got.Origin)
			topologytest.Equal(t, "redrives", test.redrives, got.Redrives)
		})
	}
}

// equal reports a difference. It is here so that the tests of this package need as few others as the package does: fuzzing compiles all
// of them anew.

func TestDiedIn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		deaths any
		want   bool
	}{
		"no deaths":                    {nil, false},
		"expired in a tier":            {[]any{deathIn("orders.retry.30s", "expired", "", "")}, true},
		"expired in a tier before":     {[]any{deathIn("orders", "rejected", "", ""), deathIn("orders.retry.5m", "expired", "", "")}, true},
		"expired in a tier of another": {[]any{deathIn("orders.retry.1h", "expired", "", "")}, false},
		"died in another queue":        {[]any{deathIn("orders.dlq", "rejected", "", "")}, false},
		"a reason that RabbitMQ lacks": {[]any{deathIn("orders.retry.30s", "forged", "", "")}, false},
		"deaths that are no list":      {"orders.retry.30s", false},
		"deaths that are no tables":    {[]any{"orders.retry.30s"}, false},
		"a queue name of another type": {[]any{amqp.Table{"queue": int64(1), "reason": "expired"}}, false},
		"a death that names no queue":  {[]any{amqp.Table{"reason": "expired"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			topologytest.Equal(t, "died in a tier", test.want, DiedIn(amqp.Table{"x-death": test.deaths}, orders.Tiers))
		})
	}
}
