package consumer

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/hooks"
	"github.com/warren-mq/warren/consumer/internal/transport"
)

func init() {
	hooks.WithTransport = func(t transport.Transport) any {
		return ConnOption(func(s *connSettings) { s.transport = t })
	}
	hooks.NewDelivery = func(raw amqp.Delivery, c contract.Contract) any { return newDelivery(raw, &c) }
	hooks.Decide = func(delivery any, o contract.Outcome) contract.Action {
		d, _ := delivery.(*Delivery)
		d.readHeaders()
		return d.contract.Decide(d.facts, o)
	}
	hooks.BatchResult = func(batch, delivery any, returned error) error {
		b, _ := batch.(interface {
			resultOf(d *Delivery, returned error) error
		})
		d, _ := delivery.(*Delivery)
		return b.resultOf(d, returned)
	}
	hooks.Outcome = func(ctx context.Context, failure error) contract.Outcome {
		return (&settings{failureText: error.Error}).outcomeOf(ctx, failure)
	}
}
