// Package hooks gives consumertest what package consumer does not export. Package consumer sets the functions.
package hooks

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/transport"
)

var (
	// WithTransport returns a consumer.ConnOption that replaces the broker.
	WithTransport func(transport.Transport) any
	// NewDelivery returns a *consumer.Delivery.
	NewDelivery func(amqp.Delivery, contract.Contract) any
	// Decide returns what a consumer does with a *consumer.Delivery that ended.
	Decide func(delivery any, o contract.Outcome) contract.Action
	// Outcome is the outcome of what a handler returned.
	Outcome func(ctx context.Context, failure error) contract.Outcome
)
