package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

// worker handles the messages of a session one after the other. It holds a slot of the consumer, so that handlers of a lost
// session and those of the current session together never exceed the concurrency.
type worker struct {
	session   *session
	goroutine string // as runtime.Stack names it
	current   atomic.Pointer[handlerContext]

	ctx   context.Context // parent of the handler contexts, so that they do not contend for the lock of the session's context
	timer *time.Timer     // ends the current context at its deadline
}

// handlerContext is the context of a handler for one message. One timer per worker and three allocations per message cost less
// than context.WithDeadlineCause.
type handlerContext struct {
	context.Context

	cancel   context.CancelCauseFunc
	deadline time.Time
	delivery *Delivery
	stuck    atomic.Bool // set when it was reported
}

// Deadline returns when the handler times out.
func (h *handlerContext) Deadline() (time.Time, bool) { return h.deadline, true }

// Err returns context.DeadlineExceeded after the deadline, as context.WithDeadline does.
func (h *handlerContext) Err() error {
	err := h.Context.Err()
	if err != nil && errors.Is(context.Cause(h.Context), ErrTimeout) {
		return context.DeadlineExceeded
	}
	return err
}

// start creates the context for a message.
func (w *worker) start(d *Delivery) *handlerContext {
	timeout := w.session.settings.timeout
	h := &handlerContext{delivery: d, deadline: time.Now().Add(timeout)}
	h.Context, h.cancel = context.WithCancelCause(w.ctx)
	w.current.Store(h)
	w.timer.Reset(timeout)
	return h
}

// expire cancels the current context if its deadline has passed. The timer may fire late, when the next message is already being
// handled.
func (w *worker) expire() {
	if h := w.current.Load(); h != nil && !time.Now().Before(h.deadline) {
		h.cancel(ErrTimeout)
	}
}

// run handles deliveries until the session stops. If a handler ends the goroutine, as testing.T.FailNow does, another worker
// replaces this one.
func (w *worker) run() {
	s := w.session
	select {
	case s.slots <- struct{}{}:
	case <-s.stopped:
		return
	}
	over := false
	ctx, cancel := context.WithCancel(s.ctx)
	w.ctx, w.goroutine = ctx, goroutineName()
	w.timer = time.AfterFunc(s.settings.timeout, w.expire)
	w.timer.Stop()
	s.consumer.workers.add(w)
	defer func() {
		s.consumer.workers.remove(w)
		cancel()
		<-s.slots
		if !over {
			go (&worker{session: s}).run()
		}
	}()
	for !over {
		select {
		case <-s.stopped:
			over = true
		case next := <-s.inbox:
			w.process(next)
		}
	}
}

// limiterPause is the delay after an error of the limiter.
const limiterPause = time.Second

var errLimiterPanicked = errors.New("the limiter panicked")

// acquire calls the limiter until it grants permission, the session stops, or ctx ends.
func (s *session) acquire(ctx context.Context) (release func(), err error) {
	s.consumer.status.limited.Add(1)
	defer s.consumer.status.limited.Add(-1)
	for {
		release, err = nil, errLimiterPanicked
		s.consumer.guard("Limiter.Acquire", func() { release, err = s.settings.limiter.Acquire(ctx) })
		switch {
		case err == nil && s.isStopped():
			release()
			return nil, context.Canceled
		case err == nil:
			return release, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		s.waitUnlessStopped(limiterPause)
	}
}

func (w *worker) process(next arrival) {
	s := w.session
	s.active.Add(1) // before isStopped, because a drain waits for active deliveries
	if s.isStopped() {
		s.settleAfterCancel(next.DeliveryTag, contract.VerbReturn)
		s.deliveryDone()
		return
	}
	began := time.Now()
	d := newDelivery(next.Delivery, s.consumer.contract.Load())
	d.arrived = next.at
	switch {
	case s.window() == 0:
		s.returnUnhandled(d, errNotConsuming, began)
		return
	case d.progress.Crashes >= s.settings.maxCrashes:
		failure := fmt.Errorf("delivered %d times without a success or a failure", d.progress.Crashes)
		s.settle(d, s.settings.newOutcome(contract.ResultCrashed, 0, failure), failure, began)
		return
	case began.After(s.settings.latestStart(d)): // the broker redelivers it immediately, with a new consumer timeout
		s.settle(d, contract.Outcome{Result: contract.ResultReturned}, errTooLate, began)
		return
	case s.settings.limiter == nil:
		w.handle(d, began)
		return
	}
	ctx, cancel := context.WithDeadlineCause(stopContext{s.ctx, s.stopped}, s.settings.latestStart(d), errTooLate)
	release, err := s.acquire(ctx)
	cancel()
	switch {
	case errors.Is(err, errTooLate):
		s.pauseForLimiter(d, began)
	case err != nil:
		s.settle(d, contract.Outcome{Result: contract.ResultReturned}, err, began)
	default:
		defer s.consumer.guard("the limiter's release", release)
		w.handle(d, began)
	}
}

// handle calls the handler and settles the delivery, even if the handler panics or ends its goroutine.
func (w *worker) handle(d *Delivery, began time.Time) {
	s := w.session
	h := w.start(d)
	var failure error
	returned := false
	defer func() {
		w.timer.Stop()
		w.current.Store(nil)
		defer h.cancel(nil) // after outcomeOf, which reads the cause
		if returned {
			s.conclude(began, ending{d, s.settings.outcomeOf(h, failure), failure})
			return
		}
		failure = errors.New("the handler ended its goroutine")
		if cause := recover(); cause != nil {
			failure = fmt.Errorf("the handler panicked: %v", cause)
		}
		s.consumer.logPanic(d, failure, debug.Stack())
		s.conclude(began, ending{d, s.settings.newOutcome(contract.ResultPanicked, 0, failure), failure})
	}()
	failure = s.settings.handle(h, d)
	returned = true
}

// outcomeOf returns the outcome for the error of a handler. It calls functions of the application, which may panic.
func (s *settings) outcomeOf(ctx context.Context, failure error) (o contract.Outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			text := fmt.Sprintf("WithFailureText panicked: %v", cause)
			o = contract.Outcome{Result: contract.ResultPanicked, Text: text, Time: time.Now()}
		}
	}()
	if failure == nil {
		return contract.Outcome{Result: contract.ResultSucceeded}
	}
	cause := context.Cause(ctx)
	verdict := new(Verdict)
	switch {
	case errors.Is(cause, ErrDraining) || errors.Is(cause, ErrDeliveryLost):
		return contract.Outcome{Result: contract.ResultReturned}
	case errors.As(failure, &verdict):
		return s.newOutcome(verdict.Result, verdict.Delay, failure)
	case errors.As(failure, new(undecodable)):
		return s.newOutcome(contract.ResultUndecodable, 0, failure)
	case errors.Is(cause, ErrTimeout):
		return s.newOutcome(contract.ResultTimedOut, 0, fmt.Errorf("%w, %s: %w", ErrTimeout, s.timeout, failure))
	}
	return s.newOutcome(contract.ResultFailed, 0, failure)
}

func (s *settings) newOutcome(result contract.Result, delay time.Duration, failure error) contract.Outcome {
	return contract.Outcome{Result: result, Delay: contract.Duration(delay), Text: s.failureText(failure), Time: time.Now()}
}

// stopContext ends when its session stops.
type stopContext struct {
	context.Context

	stopped <-chan struct{}
}

func (c stopContext) Done() <-chan struct{} { return c.stopped }

func (c stopContext) Err() error {
	select {
	case <-c.stopped:
		return context.Canceled
	default:
		return nil
	}
}

// pendingSettlement is a delivery to be settled after basic.cancel. If it were settled before, the broker would deliver the
// message to this consumer again.
type pendingSettlement struct {
	tag  uint64
	verb contract.Verb
}

// settleAfterCancel records a delivery to be settled after basic.cancel.
func (s *session) settleAfterCancel(tag uint64, verb contract.Verb) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, pendingSettlement{tag, verb})
}

// takePending returns the pending settlements and clears them.
func (s *session) takePending() []pendingSettlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.pending
	s.pending = nil
	return taken
}
