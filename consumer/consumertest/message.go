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

// MessageOption changes the delivery that Message creates.
type MessageOption func(*message)

type message struct {
	raw     amqp.Delivery
	attempt int // zero if no option sets it
}

// Attempt makes the message its nth attempt, in the headers that the strategy of the contract counts. n begins with 1. Message sets these
// headers after all other options.
func Attempt(n int) MessageOption { return func(m *message) { m.attempt = n } }

// ModifyDelivery changes properties and headers of the delivery. raw.Headers is not nil.
func ModifyDelivery(change func(raw *amqp.Delivery)) MessageOption {
	return func(m *message) { change(&m.raw) }
}

// countAttempts makes a delivery the nth attempt. Under Reject the header also names the exchange and the routing key of the producer.
func countAttempts(raw *amqp.Delivery, c contract.Contract, n int) {
	if raw.Headers == nil {
		raw.Headers = amqp.Table{}
	}
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

// Message returns a message for a handler. Its raw body is body as JSON, or body itself if that is a string or a []byte.
func Message[T any](c contract.Contract, body T, options ...MessageOption) *consumer.Message[T] {
	m := message{raw: amqp.Delivery{Headers: amqp.Table{}, RoutingKey: c.Queue, DeliveryTag: 1, Body: encode(body)}}
	for _, option := range options {
		option(&m)
	}
	if m.attempt > 0 {
		countAttempts(&m.raw, c, m.attempt)
	}
	return &consumer.Message[T]{Delivery: NewDelivery(m.raw, c), Body: body}
}

func encode(body any) []byte {
	switch body := body.(type) {
	case []byte:
		return body
	case string:
		return []byte(body)
	}
	encoded, _ := json.Marshal(body) // nil if body cannot be encoded; the handler gets body itself
	return encoded
}

// NewDelivery returns a delivery for tests of middleware, as a consumer with this contract receives it.
func NewDelivery(raw amqp.Delivery, c contract.Contract) *consumer.Delivery {
	d, _ := hooks.NewDelivery(raw, c).(*consumer.Delivery)
	return d
}

// Handle calls a handler and returns how a consumer would settle the message: for example ack, or publish a copy to a tier. If
// ctx has ended, its cause counts as for a consumer, for example consumer.ErrTimeout.
func Handle[T any](ctx context.Context, handle consumer.Handler[T], m *consumer.Message[T]) contract.Action {
	return hooks.Decide(m.Delivery, outcomeOf(func() contract.Outcome { return hooks.Outcome(ctx, handle(ctx, m)) }))
}

// HandleBatch calls a handler with a batch and returns how a consumer would settle each of its messages; see Handle.
func HandleBatch[T any](ctx context.Context, handle consumer.BatchHandler[T], messages ...*consumer.Message[T]) []contract.Action {
	b := &consumer.Batch[T]{Messages: messages}
	var returned error
	all := outcomeOf(func() contract.Outcome {
		returned = handle(ctx, b)
		return contract.Outcome{}
	})
	actions := make([]contract.Action, len(messages))
	for i, m := range messages {
		one := all
		if one.Result == "" {
			one = hooks.Outcome(ctx, hooks.BatchResult(b, m.Delivery, returned))
		}
		actions[i] = hooks.Decide(m.Delivery, one)
	}
	return actions
}

// outcomeOf calls a handler, which may panic.
func outcomeOf(handle func() contract.Outcome) (o contract.Outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			o = contract.Outcome{Result: contract.ResultPanicked, Text: fmt.Sprintf("the handler panicked: %v", cause)}
		}
	}()
	return handle()
}
