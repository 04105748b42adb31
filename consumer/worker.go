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

	arrived []arrival    // for the next call of the handler
	ready   []*Delivery  // those of arrived that the handler gets
	waiting atomic.Int64 // how many of them wait for that call
}

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
		if over = !w.receive(); !over {
			w.process()
		}
	}
}

// receive waits for the messages of the next call of the handler. It returns false when the session stops.
func (w *worker) receive() bool {
	s := w.session
	w.arrived = w.arrived[:0]
	w.waiting.Store(0)
	if s.settings.batch != nil {
		return w.receiveBatch()
	}
	select {
	case <-s.stopped:
		return false
	case next := <-s.inbox:
		w.keep(next)
		return true
	}
}

// keep adds a delivery to the next call of the handler. It is active from now on, because its settlement may follow a basic.cancel.
func (w *worker) keep(next arrival) {
	w.session.active.Add(1)
	w.arrived = append(w.arrived, next)
	w.waiting.Store(int64(len(w.arrived)))
}

// limiterPause is the delay after an error of the limiter.
const limiterPause = time.Second

var errLimiterEnded = errors.New("the limiter did not return")

// acquire calls the limiter until it grants permission, the session stops, or ctx ends.
func (s *session) acquire(ctx context.Context) (release func(), err error) {
	s.consumer.status.limited.Add(1)
	defer s.consumer.status.limited.Add(-1)
	for {
		release, err = nil, errLimiterEnded
		s.consumer.guard("Limiter.Acquire", func() { release, err = s.settings.limiter.Acquire(ctx) })
		if release == nil {
			release = func() {}
		}
		switch {
		case err == nil && s.isStopped():
			s.consumer.guard(releaseName, release)
			return nil, context.Canceled
		case err == nil:
			return release, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		s.waitUnlessStopped(limiterPause)
	}
}

// process calls the handler for the messages that have arrived, or returns them.
func (w *worker) process() {
	s := w.session
	if s.isStopped() { // after keep, because a drain waits for active deliveries
		for _, next := range w.arrived {
			s.settleAfterCancel(next.DeliveryTag, contract.VerbReturn)
			s.deliveryDone()
		}
		return
	}
	began := time.Now()
	w.ready = w.ready[:0]
	for _, next := range w.arrived {
		if d := w.admit(next, began); d != nil {
			w.ready = append(w.ready, d)
		}
	}
	w.waiting.Store(int64(len(w.ready)))
	if len(w.ready) == 0 || s.settings.limiter != nil && !w.limit(began) {
		return
	}
	probe := !s.consumer.breaker.is(breakerClosed) // the breaker may have opened while the messages waited for the limiter
	for _, d := range w.ready {
		d.probe = probe
	}
	if s.settings.batch != nil {
		w.handleBatch(began)
	} else {
		w.handle(w.ready[0], began)
	}
}

// admit returns the delivery if the handler may be called for it now. Otherwise it settles the delivery and returns nil.
func (w *worker) admit(next arrival, began time.Time) *Delivery {
	s := w.session
	d := newDelivery(next.Delivery, s.consumer.contract.Load())
	d.arrived = next.at
	switch {
	case s.window() == 0:
		s.returnUnhandled(errNotConsuming, began, d)
	case d.progress.Crashes >= s.settings.maxCrashes:
		failure := fmt.Errorf("delivered %d times without a success or a failure", d.progress.Crashes)
		apart(func() { s.settle(d, s.settings.newOutcome(contract.ResultCrashed, 0, failure), failure, began) })
	case began.After(s.settings.latestStart(d)): // the broker redelivers it immediately, with a new consumer timeout
		apart(func() { s.settle(d, contract.Outcome{Result: contract.ResultReturned}, errTooLate, began) })
	default:
		return d
	}
	return nil
}

// limit waits until the limiter grants permission for the ready messages. If it returns false, it has returned them to the queue.
func (w *worker) limit(began time.Time) bool {
	s := w.session
	ctx, cancel := context.WithDeadlineCause(s.starting, s.settings.latestStart(w.ready[0]), errTooLate)
	release, err := s.acquire(ctx)
	cancel()
	w.waiting.Store(0)
	switch {
	case errors.Is(err, errTooLate):
		s.pauseForLimiter(w.ready, began)
		return false
	case err == nil && s.window() == 0:
		s.consumer.guard(releaseName, release)
		err = errNotConsuming
	}
	if err != nil {
		s.returnUnhandled(err, began, w.ready...)
		return false
	}
	release = afterCalls(len(w.ready), release)
	for _, d := range w.ready {
		d.release = release
	}
	return true
}

const releaseName = "the limiter's release"

// afterCalls returns a function that calls f when it is called for the nth time.
func afterCalls(n int, f func()) func() {
	if n == 1 {
		return f
	}
	left := atomic.Int64{}
	left.Store(int64(n))
	return func() {
		if left.Add(-1) == 0 {
			f()
		}
	}
}

// handle calls the handler and settles the delivery, even if the handler panics or ends its goroutine.
func (w *worker) handle(d *Delivery, began time.Time) {
	s := w.session
	h := w.start(began, d)
	var failure error
	returned := false
	defer func() {
		w.timer.Stop()
		w.current.Store(nil)
		defer h.cancel(nil) // after outcomeOf, which reads the cause
		if returned {
			s.conclude(h, ending{d, s.settings.outcomeOf(h, failure), failure})
			return
		}
		failure = unreturned(recover())
		s.consumer.logPanic(d, failure, debug.Stack())
		s.conclude(h, ending{d, s.settings.newOutcome(contract.ResultPanicked, 0, failure), failure})
	}()
	failure = s.settings.handle(h, d)
	returned = true
}

// unreturned returns the failure of a handler that did not return. cause is nil if it ended its goroutine instead of panicking.
func unreturned(cause any) error {
	if cause == nil {
		return errors.New("the handler ended its goroutine")
	}
	return fmt.Errorf("the handler panicked: %v", cause)
}

// outcomeOf returns the outcome for the error of a handler. It calls methods of the error, which may panic.
func (s *settings) outcomeOf(ctx context.Context, failure error) (o contract.Outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			text := fmt.Sprintf("the error of the handler panicked: %v", cause)
			o = contract.Outcome{Result: contract.ResultPanicked, Text: text, Time: time.Now()}
		}
	}()
	result, delay := resultOfHandler(ctx, failure)
	switch result {
	case contract.ResultSucceeded, contract.ResultReturned:
		return contract.Outcome{Result: result}
	case contract.ResultTimedOut:
		failure = fmt.Errorf("%w, %s: %w", ErrTimeout, s.timeout, failure)
	}
	return s.newOutcome(result, delay, failure)
}

// resultOfHandler returns the result, and the delay of a Verdict, for what a handler or its middleware returned.
func resultOfHandler(ctx context.Context, returned error) (contract.Result, time.Duration) {
	if returned == nil {
		return contract.ResultSucceeded, 0
	}
	cause := context.Cause(ctx)
	verdict := new(Verdict)
	switch {
	case errors.Is(cause, ErrDraining) || errors.Is(cause, ErrDeliveryLost):
		return contract.ResultReturned, 0
	case errors.As(returned, &verdict):
		return verdict.Result, verdict.Delay
	case errors.As(returned, new(undecodable)):
		return contract.ResultUndecodable, 0
	case errors.Is(cause, ErrTimeout):
		return contract.ResultTimedOut, 0
	}
	return contract.ResultFailed, 0
}

func (s *settings) newOutcome(result contract.Result, delay time.Duration, failure error) contract.Outcome {
	return contract.Outcome{Result: result, Delay: contract.Duration(delay), Text: s.textOf(failure), Time: time.Now()}
}

// textOf returns the text of a failure, or why there is none. The function of WithFailureText and the error may panic.
func (s *settings) textOf(failure error) (text string) {
	defer func() {
		if cause := recover(); cause != nil {
			text = fmt.Sprintf("WithFailureText panicked: %v", cause)
		}
	}()
	return s.failureText(failure)
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
