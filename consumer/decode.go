package consumer

import (
	"context"
	"fmt"
	"slices"

	"github.com/warren-mq/warren/consumer/contract"
)

// undecodable marks the error of a decoder.
type undecodable struct{ error }

func (u undecodable) Unwrap() error { return u.error }

// ErrorType returns the result as text, as Verdict.ErrorType does.
func (u undecodable) ErrorType() string { return string(contract.ResultUndecodable) }

// Decode returns a handler for messages that are not JSON, for New and AddHandler. A message for which decode returns an error or
// panics goes to the dead-letter queue without another attempt. If an argument is nil, Decode returns nil, which New and AddHandler refuse.
func Decode[T any](decode func(*Delivery) (T, error), handle Handler[T]) Handler[[]byte] {
	if decode == nil || handle == nil {
		return nil
	}
	decodeInto := func(d *Delivery, body *T) (err error) {
		*body, err = decode(d)
		return err
	}
	decodeAndHandle := newHandleFunc(decodeInto, handle)
	return func(ctx context.Context, m *Message[[]byte]) error { return decodeAndHandle(ctx, m.Delivery) }
}

func newHandleFunc[T any](decode func(d *Delivery, body *T) error, handle Handler[T]) HandleFunc {
	return func(ctx context.Context, d *Delivery) error {
		d.recordContext(ctx)
		m := &Message[T]{Delivery: d}
		if err := decodeSafely(decode, m); err != nil {
			return undecodable{err}
		}
		return handle(ctx, m)
	}
}

// decodeSafely turns a panic of the decoder into an error, because the same body would make it panic again.
func decodeSafely[T any](decode func(d *Delivery, body *T) error, m *Message[T]) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the decoder panicked: %v", cause)
		}
	}()
	return decode(m.Delivery, &m.Body)
}

func chain(middleware []Middleware, handle HandleFunc) HandleFunc {
	for _, wrap := range slices.Backward(middleware) {
		handle = wrap(handle)
	}
	return handle
}
