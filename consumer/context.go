package consumer

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// handlerContext is the context of a handler for one message or one batch. One timer per worker and three allocations per call cost
// less than context.WithDeadlineCause.
type handlerContext struct {
	context.Context

	cancel   context.CancelCauseFunc
	began    time.Time // when the worker received the messages
	deadline time.Time
	delivery *Delivery
	others   []*Delivery // further messages of a batch
	stopped  <-chan struct{}
	ended    time.Time   // when reportStuck first saw the ended context; never after the deadline
	stuck    atomic.Bool // set when it was reported
	settled  atomic.Bool // set by the goroutine that settles the messages, see claim
}

// claim reports whether the caller must settle the messages of the handler. It returns true only once: a handler may return at the moment
// at which settleStuck gives it up.
func (h *handlerContext) claim() bool { return h.settled.CompareAndSwap(false, true) }

// deliveries returns all deliveries that the handler was called with.
func (h *handlerContext) deliveries() []*Delivery {
	return append([]*Delivery{h.delivery}, h.others...)
}

// Deadline returns when the handler times out.
func (h *handlerContext) Deadline() (time.Time, bool) { return h.deadline, true }

// Err returns context.DeadlineExceeded after the deadline, as context.WithDeadline does. A context that is derived from this one returns
// context.Canceled, because it copies the error of the context inside. Its cause is ErrTimeout, too.
func (h *handlerContext) Err() error {
	err := h.Context.Err()
	if err != nil && errors.Is(context.Cause(h.Context), ErrTimeout) {
		return context.DeadlineExceeded
	}
	return err
}

type drainingKey struct{}

// Value returns the channel of Draining, or the value of the parent.
func (h *handlerContext) Value(key any) any {
	if key == (drainingKey{}) {
		return h.stopped
	}
	return h.Context.Value(key)
}

// Draining returns a channel that is closed when the consumer starts no further message: it drains, or has lost its connection. ctx is the
// context of a handler. A long handler can then save its progress and return before the drain timeout. For any other context the channel is
// nil, and is never closed.
func Draining(ctx context.Context) <-chan struct{} {
	stopped, _ := ctx.Value(drainingKey{}).(<-chan struct{})
	return stopped
}

// start creates the context for a message, or for several messages of a batch.
func (w *worker) start(began time.Time, d *Delivery, others ...*Delivery) *handlerContext {
	timeout := w.session.settings.timeout
	h := &handlerContext{began: began, delivery: d, others: others, deadline: time.Now().Add(timeout), stopped: w.session.stopped}
	h.Context, h.cancel = context.WithCancelCause(w.ctx)
	w.current.Store(h)
	w.waiting.Store(0)
	w.arm(timeout)
	return h
}

// arm starts the timer unless it already runs, for an earlier message. Starting and stopping it for each message would cost more.
func (w *worker) arm(timeout time.Duration) {
	if !w.armed.Swap(true) {
		w.timer.Reset(timeout)
	}
}

// expire cancels the current context if its deadline has passed. Otherwise it starts the timer again.
func (w *worker) expire() {
	w.armed.Store(false) // before it loads current, because start stores current before it calls arm
	h := w.current.Load()
	if h == nil {
		return
	}
	if left := time.Until(h.deadline); left > 0 {
		w.arm(left)
		return
	}
	h.cancel(ErrTimeout)
}
