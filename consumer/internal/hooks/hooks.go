// Package hooks gives consumertest access to unexported functions of package consumer, which sets the variables.
package hooks

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/transport"
)

var (
	// WithTransport returns a consumer.ConnOption that replaces the connection to the broker.
	WithTransport func(transport.Transport) any
	// NewDelivery returns a *consumer.Delivery.
	NewDelivery func(amqp.Delivery, contract.Contract) any
	// Decide returns the action for a *consumer.Delivery with an outcome.
	Decide func(delivery any, o contract.Outcome) contract.Action
	// BatchResult returns the result of a *consumer.Delivery in a *consumer.Batch whose handler has returned an error or nil.
	BatchResult func(batch, delivery any, returned error) error
	// Outcome returns the outcome for the error of a handler.
	Outcome func(ctx context.Context, failure error) contract.Outcome
)
