package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
)

// worker handles one message of a session after the other. It holds a slot of the consumer, so that handlers of a lost session that
// linger and those of the next are never more than the concurrency together.
type worker struct {
	session *session
	current atomic.Pointer[Delivery] // whose handler runs

	// ctx is that of the handler, and lasts for many messages: to make one for each would cost more than all else here.
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // ends ctx
}

// renew makes another context. That of before has ended, or will.
func (w *worker) renew() {
	ctx, cancel := context.WithCancelCause(w.session.ctx)
	w.ctx, w.cancel = ctx, cancel
	w.timer = time.AfterFunc(w.session.settings.timeout, func() { cancel(ErrTimeout) })
	w.timer.Stop()
}

// run handles deliveries until the session stops. A handler may end the goroutine, as testing.T.FailNow does: then another goes on.
func (w *worker) run() {
	s := w.session
	select {
	case s.slots <- struct{}{}:
	case <-s.stopped:
		return
	}
	over := false
	defer func() {
		<-s.slots
		if !over {
			s.workers.Go(w.run)
		}
	}()
	w.renew()
	for !over {
		select {
		case <-s.stopped:
			over = true
		case raw, open := <-s.deliveries:
			if open {
				w.process(raw)
			} else {
				over = true
			}
		}
	}
}

// limiterPause is how long a limiter has peace that returned an error.
const limiterPause = time.Second

// acquire asks the limiter until it grants, or nothing is started any more: a message that is returned would come back at once, and
// RabbitMQ before 4.3 would count that.
func (s *session) acquire() (release func(), err error) {
	s.consumer.status.limited.Add(1)
	defer s.consumer.status.limited.Add(-1)
	for {
		release, err = s.settings.limiter.Acquire(stopContext{s.ctx, s.stopped})
		switch {
		case err == nil && s.isStopped():
			release()
			return nil, context.Canceled
		case err == nil:
			return release, nil
		case s.isStopped():
			return nil, err
		}
		s.hold(limiterPause)
	}
}

// process handles a delivery.
func (w *worker) process(raw amqp.Delivery) {
	s := w.session
	s.active.Add(1) // before the look: a drain waits for what is active
	if s.isStopped() {
		s.leave(raw.DeliveryTag, contract.ReturnMessage)
		s.endOne()
		return
	}
	began := time.Now()
	d := newDelivery(raw, s.consumer.contract.Load())
	if d.progress.Crashes >= s.settings.crashLimit {
		failure := fmt.Errorf("delivered %d times without a success or a failure", d.progress.Crashes)
		s.settle(d, s.outcomeOf(contract.Crashed, 0, failure), failure, began)
		return
	}
	if s.settings.limiter != nil {
		release, err := s.acquire()
		if err != nil {
			s.settle(d, contract.Outcome{Result: contract.Returned}, err, began)
			return
		}
		defer release()
	}
	w.handle(d, began)
}

// handle calls the handler, and settles the delivery, even if the handler panics or ends its goroutine.
func (w *worker) handle(d *Delivery, began time.Time) {
	s := w.session
	w.current.Store(d)
	w.timer.Reset(s.settings.timeout)
	var failure error
	returned := false
	defer func() {
		w.current.Store(nil)
		ctx := w.ctx
		if !w.timer.Stop() || ctx.Err() != nil { // the context has ended, or is about to
			w.renew()
		}
		if returned {
			s.settle(d, s.judge(ctx, failure), failure, began)
			return
		}
		failure = errors.New("the handler ended its goroutine")
		if cause := recover(); cause != nil {
			failure = fmt.Errorf("the handler panicked: %v", cause)
		}
		s.consumer.panicked(d, failure, debug.Stack())
		s.settle(d, s.outcomeOf(contract.Panicked, 0, failure), failure, began)
	}()
	failure = s.settings.handle(w.ctx, d)
	returned = true
}

// judge is the outcome of what a handler returned. It calls functions of the application, which may panic.
func (s *session) judge(ctx context.Context, failure error) (o contract.Outcome) {
	defer func() {
		if cause := recover(); cause != nil {
			text := fmt.Sprintf("classifying the error panicked: %v", cause)
			o = contract.Outcome{Result: contract.Panicked, Text: text, Time: time.Now()}
		}
	}()
	if failure == nil {
		return contract.Outcome{Result: contract.Succeeded}
	}
	failure = s.settings.classify(failure)
	if failure == nil {
		return contract.Outcome{Result: contract.Succeeded}
	}
	if cause := context.Cause(ctx); errors.Is(cause, ErrDraining) || errors.Is(cause, ErrDeliveryLost) {
		return contract.Outcome{Result: contract.Returned}
	}
	if said := new(verdict); errors.As(failure, &said) {
		return s.outcomeOf(said.result, said.delay, failure)
	}
	if errors.As(failure, new(undecodable)) {
		return s.outcomeOf(contract.Undecodable, 0, failure)
	}
	if errors.Is(context.Cause(ctx), ErrTimeout) {
		return s.outcomeOf(contract.TimedOut, 0, fmt.Errorf("%w, %s: %w", ErrTimeout, s.settings.timeout, failure))
	}
	return s.outcomeOf(contract.Failed, 0, failure)
}

func (s *session) outcomeOf(result contract.Result, delay time.Duration, failure error) contract.Outcome {
	return contract.Outcome{
		Result: result, Delay: contract.Duration(delay), Text: s.settings.failureText(failure), Time: time.Now(),
	}
}

// stopContext ends when its session starts nothing more.
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

// leftOver is a delivery that is settled once the consumer is cancelled: before, the broker would send the message here again.
type leftOver struct {
	tag  uint64
	verb contract.Verb
}

// leave notes a delivery that is settled later.
func (s *session) leave(tag uint64, verb contract.Verb) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leftOver = append(s.leftOver, leftOver{tag, verb})
}

// takeLeftOver returns what was left, and forgets it.
func (s *session) takeLeftOver() []leftOver {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.leftOver
	s.leftOver = nil
	return taken
}
