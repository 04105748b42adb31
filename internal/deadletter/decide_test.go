package deadletter

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestSkips(t *testing.T) {
	t.Parallel()
	diedIn := func(queue string) amqp.Table {
		return amqp.Table{"x-death": []any{deathIn(queue, "rejected", "", queue)}}
	}
	redriven := func(id string, times int) amqp.Table {
		return amqp.Table{"x-warren-redrive-id": id, "x-warren-redrive-count": int64(times)}
	}
	for name, test := range map[string]struct {
		shared    bool
		selection selection
		headers   amqp.Table
		want      SkipReason
	}{
		"a message of this ConsumerQueue":             {headers: diedIn("orders")},
		"a message of a tier":                         {shared: true, headers: diedIn("orders.retry.5m")},
		"a message of another, in a queue of its own": {headers: diedIn("bills")},
		"a message of another, in a shared queue":     {shared: true, headers: diedIn("bills"), want: OtherOrigin},
		"a parked message":                            {},
		"a parked message in a shared queue":          {shared: true, want: NoOrigin},
		"a parked message in a shared queue, selected by its reason": {
			shared: true, selection: selection{Reasons: []v1alpha1.DeadLetterReason{Parked}}, want: NoOrigin,
		},
		"a parked message in a shared queue, selected by its unknown origin": {shared: true, selection: selection{UnknownOrigin: true}},
		"a message of another in a shared queue, with those of unknown origin": {
			shared: true, selection: selection{UnknownOrigin: true}, headers: diedIn("bills"), want: OtherOrigin,
		},
		"parked by this one's consumer":   {shared: true, headers: amqp.Table{"x-failure-queue": "orders"}},
		"parked by another's consumer":    {shared: true, headers: amqp.Table{"x-failure-queue": "bills"}, want: OtherOrigin},
		"moved by this Redrive before":    {headers: redriven("0d7f", 1), want: CameBack},
		"moved by another Redrive before": {headers: redriven("other", 2)},
		"moved too often":                 {headers: redriven("other", 3), want: MaxRedrives},
		"not selected":                    {selection: selection{Expression: "false"}, headers: redriven("other", 3), want: NotSelected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			selector, err := Compile(test.selection)
			if err != nil {
				t.Fatal(err)
			}
			source := orders
			source.Shared = test.shared
			rules := Rules{Source: source, Selector: selector, RedriveID: "0d7f", MaxRedrives: 3}
			got := rules.Skips(source.Read(&amqp.Delivery{Headers: test.headers}), at)
			topologytest.Equal(t, "skipped", test.want, got)
		})
	}
}

func TestSkipsWithoutALimit(t *testing.T) {
	t.Parallel()
	selector, err := Compile(selection{})
	if err != nil {
		t.Fatal(err)
	}
	rules := Rules{Source: orders, Selector: selector, RedriveID: "0d7f", MaxRedrives: -1}
	message := amqp.Delivery{Headers: amqp.Table{"x-warren-redrive-count": int64(1000)}}
	topologytest.Equal(t, "skipped", SkipReason(""), rules.Skips(orders.Read(&message), at))
}

// A body that is too large to read is missing. The other fields of the message decide, and an expression on the body fails.
func TestSkipsWithoutTheBody(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]SkipReason{
		`size > 16777216`: "", `size <= 16777216`: NotSelected, `body.n == 1`: NotEvaluated, `reason == "Parked"`: "",
	} {
		selector, err := Compile(selection{Expression: expression})
		if err != nil {
			t.Fatal(err)
		}
		rules := Rules{Source: orders, Selector: selector, MaxRedrives: -1}
		topologytest.Equal(t, expression, want, rules.Skips(orders.ReadWithSize(&amqp.Delivery{}, 17<<20), at))
		failure := map[SkipReason]string{NotEvaluated: "the body has 17825792 bytes, which are too many to read"}[want]
		topologytest.Equal(t, "error of "+expression, failure, selector.EvaluationError())
	}
}

// Messages of unknown origin are counted separately in a shared queue.
func TestMayBeOfOthers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		shared  bool
		headers amqp.Table
		want    bool
	}{
		"unknown origin, in a shared queue": {shared: true, want: true},
		"unknown origin, in its own queue":  {},
		"parked by this one's consumer":     {shared: true, headers: amqp.Table{"x-failure-queue": "orders"}},
		"died in this one's main queue":     {shared: true, headers: amqp.Table{"x-death": []any{deathIn("orders", "rejected", "", "orders")}}},
		"died in a foreign queue":           {shared: true, headers: amqp.Table{"x-death": []any{deathIn("bills", "rejected", "", "bills")}}},
	} {
		source := orders
		source.Shared = test.shared
		topologytest.Equal(t, name, test.want, source.MayBeOfOthers(source.Read(&amqp.Delivery{Headers: test.headers})))
	}
}
