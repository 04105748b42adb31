package recreate_test

import (
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
)

// A message that Warren cannot move back stays in the hold. The queue gets its bindings and all other messages back.
func TestRecreationBindsTheQueueAlthoughAMessageCannotBeMoved(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		boundQueue(vh, nil)
		before := vh.Definitions()
		run := recreation(t, vh, nil)
		if err := run.next(); err != nil {
			t.Fatal(err)
		}
		vh.Send("direct", "orders", amqp.Publishing{DeliveryMode: amqp.Persistent, Type: "amqp-1.0"})
		ids, messages := numbered(30)
		vh.Send("direct", "orders", messages...)
		run.record.phase = givingBack
		if err := run.next(); recreate.ReasonOf(err) != recreate.AMQP10Message {
			t.Error(err)
		}
		run.mustBeBound()
		rabbittest.Holds(t, vh, run.record.Hold(), 1)
		vh.Purge(run.record.Hold())
		run.run()
		run.mustBeAsBefore(before, false)
		if got := mustHold(t, vh, "orders", ids); !slices.Equal(got, ids) {
			t.Errorf("the order of the messages changed: %q", got)
		}
	})
}

// A header of a publisher has the name of the one in which Warren keeps an expiration, and RabbitMQ refuses its value as an expiration.
func TestRecreationGivesBackAMessageWithTheHeaderOfWarren(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	boundQueue(vh, nil)
	before := vh.Definitions()
	strange := func(id string) amqp.Publishing {
		return amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id, Headers: amqp.Table{"warren-expiration": "x"}}
	}
	vh.Send("direct", "orders", strange("in the backlog"))
	run := recreation(t, vh, nil)
	if err := run.next(); err != nil {
		t.Fatal(err)
	}
	vh.Send("direct", "orders", strange("in the hold"))
	run.run()
	if run.backedOut != "" {
		t.Errorf("it went back: %s", run.backedOut)
	}
	run.mustBeAsBefore(before, true)
	mustHold(t, vh, "orders", []string{"in the backlog", "in the hold"})
}

// mustBeBound fails unless the exchanges lead to the queue, and none leads to the hold.
func (r *recreating) mustBeBound() {
	r.t.Helper()
	sources := map[string][]string{}
	for _, binding := range r.vh.Definitions().Bindings {
		if binding.Source != r.record.BackExchange() {
			sources[binding.Destination] = append(sources[binding.Destination], binding.Source)
		}
	}
	slices.Sort(sources["orders"])
	if !slices.Equal(sources["orders"], []string{"direct", "topic"}) || len(sources[r.record.Hold()]) > 0 {
		r.t.Errorf("the bindings are %q", sources)
	}
}
