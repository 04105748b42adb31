package consumertest

import (
	"context"
	"encoding/json"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/hooks"
)

// MessageOption changes the delivery of Message.
type MessageOption func(raw *amqp.Delivery, c contract.Contract)

// Attempt makes it the nth attempt, by the headers that the strategy of the contract counts.
func Attempt(n int) MessageOption {
	return func(raw *amqp.Delivery, c contract.Contract) {
		switch c.Strategy {
		case contract.StrategyRequeue:
			raw.Headers["x-delivery-count"], raw.Redelivered = int64(n-1), n > 1
		case contract.StrategyReject:
			raw.Headers["x-death"] = []any{amqp.Table{
				"queue": c.Queue, "reason": "rejected", "count": int64(n - 1),
				"exchange": raw.Exchange, "routing-keys": []any{raw.RoutingKey},
			}}
		case contract.StrategyPublish, contract.StrategyNone:
			raw.Headers[contract.HeaderRetryCount] = int64(n - 1)
		}
	}
}

// ModifyDelivery changes properties and headers of the delivery.
func ModifyDelivery(change func(raw *amqp.Delivery)) MessageOption {
	return func(raw *amqp.Delivery, _ contract.Contract) { change(raw) }
}

// Message is a message for a handler. Its raw body is the body as JSON, unless that is a string or bytes.
func Message[T any](c contract.Contract, body T, options ...MessageOption) *consumer.Message[T] {
	raw := amqp.Delivery{Headers: amqp.Table{}, RoutingKey: c.Queue, DeliveryTag: 1, Body: encode(body)}
	for _, option := range options {
		option(&raw, c)
	}
	return &consumer.Message[T]{Delivery: NewDelivery(raw, c), Body: body}
}

func encode(body any) []byte {
	switch body := body.(type) {
	case []byte:
		return body
	case string:
		return []byte(body)
	}
	encoded, _ := json.Marshal(body) // nil for what is no JSON; the handler gets the body itself
	return encoded
}

// NewDelivery is a delivery for middleware, as the consumers of a contract get it.
func NewDelivery(raw amqp.Delivery, c contract.Contract) *consumer.Delivery {
	d, _ := hooks.NewDelivery(raw, c).(*consumer.Delivery)
	return d
}

// Handle calls a handler and returns what a consumer would do with the message then: ack, publish a copy to a tier, give up. The end of ctx
// counts as for a consumer: by consumer.ErrTimeout as its cause, for example.
func Handle[T any](ctx context.Context, handle consumer.Handler[T], m *consumer.Message[T]) contract.Action {
	return hooks.Decide(m.Delivery, call(ctx, handle, m))
}

func call[T any](ctx context.Context, handle consumer.Handler[T], m *consumer.Message[T]) (o contract.Outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			o = contract.Outcome{Result: contract.ResultPanicked, Text: fmt.Sprintf("the handler panicked: %v", cause)}
		}
	}()
	return hooks.Outcome(ctx, handle(ctx, m))
}
