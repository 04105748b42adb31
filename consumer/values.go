package consumer

import (
	"context"
	"time"
)

// States of Delivery.ctx. An atomic state costs no allocation. A settlement can read it while a handler that ignores its timeout still
// runs.
const (
	ctxRecording int32 = iota + 1
	ctxRecorded
)

// recordContext records the context of the first call of the handler. Middleware may call the handler again, also in another goroutine.
func (d *Delivery) recordContext(ctx context.Context) {
	if d.ctxState.CompareAndSwap(0, ctxRecording) {
		d.ctx = ctx
		d.ctxState.Store(ctxRecorded)
	}
}

// handlerValues returns a context that never ends, with the values of the handler's context. If the handler was not called, it returns
// fallback.
func (d *Delivery) handlerValues(fallback context.Context) context.Context {
	if d.ctxState.Load() != ctxRecorded {
		return fallback
	}
	return (*valuesContext)(d)
}

// valuesContext is a context without an end, like that of context.WithoutCancel, but without an allocation for each message.
type valuesContext Delivery

// Deadline returns no deadline.
func (*valuesContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done returns nil, because the context never ends.
func (*valuesContext) Done() <-chan struct{} { return nil }

// Err returns nil, because the context never ends.
func (*valuesContext) Err() error { return nil }

// Value returns the value of the handler's context.
func (v *valuesContext) Value(key any) any { return v.ctx.Value(key) }
