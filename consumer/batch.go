package consumer

import (
	"cmp"
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

// Batch has the messages that a BatchHandler handles together.
type Batch[T any] struct {
	// Messages has at least one message, in the order of their delivery.
	Messages []*Message[T]

	results map[*Delivery]error
}

// SetResult sets the result of one message, as if the handler of New had returned err for it: nil acks the message, and an error
// fails it. It must not be called at the same time from several goroutines.
func (b *Batch[T]) SetResult(m *Message[T], err error) {
	if b.results == nil {
		b.results = map[*Delivery]error{}
	}
	b.results[m.Delivery] = err
}

// resultOf returns the result of one message. returned is the result of the handler for the whole batch.
func (b *Batch[T]) resultOf(d *Delivery, returned error) error {
	if result, set := b.results[d]; set {
		return result
	}
	return returned
}

// BatchHandler handles several messages together, for example with one INSERT. Its return value is the result of each message for
// which SetResult was not called. ctx is as for a Handler.
type BatchHandler[T any] func(ctx context.Context, b *Batch[T]) error

// NewBatch is New for a handler of batches. The consumer calls the handler with up to size messages: when it has received size
// messages, or when the first of them has waited for wait since its arrival. The default concurrency is 1 batch, and the default
// prefetch is 2 batches.
//
// Bodies are decoded as JSON. A body that cannot be decoded is not in the batch. Middleware is called for each message of a batch at
// the same time, and next returns after the whole batch was handled, so middleware must hold no lock while it calls next.
// WithLimiter, WithBreaker and WithTimeout apply to each call of the handler.
func NewBatch[T any](
	conn *Conn, source contract.Source, size int, wait time.Duration, handle BatchHandler[T], options ...Option,
) (*Consumer, error) {
	if handle == nil {
		return nil, errIncomplete
	}
	call := func(ctx context.Context, members []*member) {
		b := &Batch[T]{}
		for _, m := range members {
			message, _ := m.message.(*Message[T])
			b.Messages = append(b.Messages, message)
		}
		returned := handle(ctx, b)
		for _, m := range members {
			m.result = b.resultOf(m.delivery, returned)
		}
	}
	batched := Option(func(s *settings) { s.batch = &batching{size, wait, call} })
	join := func(ctx context.Context, m *Message[T]) error {
		return joinBatch(ctx, call, &member{delivery: m.Delivery, message: m})
	}
	return newConsumer(conn, source, newHandleFunc(decodeJSON[T], join), append(slices.Clone(options), batched))
}

// batching holds the arguments of NewBatch.
type batching struct {
	size int
	wait time.Duration
	call func(context.Context, []*member) // calls the handler and sets the result of each member
}

// member is a message of a batch.
type member struct {
	delivery *Delivery
	message  any // *Message[T]
	result   error
}

// batchRun is one batch. A goroutine for each message runs the middleware and joins the batch. When all have joined or returned,
// the worker calls the handler.
type batchRun struct {
	full chan struct{} // closed when all have joined or returned
	done chan struct{} // closed when the results are set
	// again is held while the handler is called for one message again. A channel, because a mutex would stop the clock of synctest.
	again chan struct{}

	mu      sync.Mutex
	missing int // how many have neither joined nor returned
	members []*member
	called  bool
	failure *batchPanic // how the handler ended, if it did not return
}

// batchPanic is the panic of each member if the handler of the batch does not return.
type batchPanic struct{ error }

type batchKey struct{}

// batchSeat is the place of one message in a batch.
type batchSeat struct {
	run   *batchRun
	taken atomic.Bool
}

// joinBatch waits until the handler was called for the batch of ctx, and returns the result of the member. If the batch was handled
// before, because middleware calls its handler again, it calls the handler for this member alone.
func joinBatch(ctx context.Context, call func(context.Context, []*member), m *member) error {
	seat, inBatch := ctx.Value(batchKey{}).(*batchSeat)
	if !inBatch || !seat.run.join(seat, m) {
		if inBatch {
			seat.run.again <- struct{}{}
			defer func() { <-seat.run.again }()
		}
		call(ctx, []*member{m})
		return m.result
	}
	<-seat.run.done
	if seat.run.failure != nil {
		panic(seat.run.failure)
	}
	return m.result
}

func (r *batchRun) join(seat *batchSeat, m *member) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.called || seat.taken.Load() {
		return false
	}
	r.members = append(r.members, m)
	r.take(seat)
	return true
}

func (r *batchRun) leave(seat *batchSeat) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(seat)
}

// take marks a seat as taken. The caller holds mu.
func (r *batchRun) take(seat *batchSeat) {
	if !seat.taken.CompareAndSwap(false, true) {
		return
	}
	if r.missing--; r.missing == 0 {
		close(r.full)
	}
}

// close closes the batch to further messages, and returns the members in the order of their delivery.
func (r *batchRun) close() []*member {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.called = true
	slices.SortFunc(r.members, func(a, b *member) int { return cmp.Compare(a.delivery.Raw.DeliveryTag, b.delivery.Raw.DeliveryTag) })
	return r.members
}

// receiveBatch waits for the messages of a batch. It returns false when the session stops.
func (w *worker) receiveBatch() bool {
	s := w.session
	select {
	case <-s.stopped:
		return false
	case s.gathering <- struct{}{}: // so that two workers do not share the messages of one batch
		defer func() { <-s.gathering }()
	}
	select {
	case <-s.stopped:
		return false
	case next := <-s.inbox:
		w.keep(next)
	}
	timer := time.NewTimer(s.settings.batch.wait - time.Since(w.arrived[0].at))
	defer timer.Stop()
	for size := min(s.settings.batch.size, s.window()); len(w.arrived) < size; {
		select {
		case next := <-s.inbox: // before the timer, which may have fired
			w.keep(next)
			continue
		default:
		}
		select {
		case <-s.stopped:
			return true // process returns the messages
		case <-timer.C:
			return true
		case next := <-s.inbox:
			w.keep(next)
		}
	}
	return true
}

// handleBatch calls the handler for the ready messages and settles each of them.
func (w *worker) handleBatch(began time.Time) {
	s, deliveries := w.session, slices.Clone(w.ready)
	h := w.start(began, deliveries[0], deliveries[1:]...)
	run := &batchRun{full: make(chan struct{}), done: make(chan struct{}), again: make(chan struct{}, 1), missing: len(deliveries)}
	ends := make([]ending, len(deliveries))
	var running sync.WaitGroup
	for i, d := range deliveries {
		running.Go(func() { s.handleMember(h, run, d, &ends[i]) })
	}
	returned := false
	defer func() {
		if !returned {
			run.failure = &batchPanic{unreturned(recover())}
			s.consumer.logPanic(deliveries[0], run.failure, debug.Stack())
		}
		close(run.done)
		running.Wait()
		w.timer.Stop()
		w.current.Store(nil)
		h.cancel(nil)
		s.conclude(h, ends...)
	}()
	select {
	case <-run.full:
	case <-h.Done():
	}
	members := run.close()
	switch {
	case h.Err() != nil:
		for _, m := range members {
			m.result = context.Cause(h)
		}
	case len(members) > 0:
		s.settings.batch.call(h, members)
	}
	returned = true
}

// handleMember runs the middleware for a message of a batch and sets how it ended, even if the middleware ends the goroutine.
func (s *session) handleMember(h *handlerContext, run *batchRun, d *Delivery, end *ending) {
	seat := &batchSeat{run: run}
	returned := false
	defer func() {
		run.leave(seat)
		if returned {
			return
		}
		cause := recover()
		failure := unreturned(cause)
		if ofBatch, is := cause.(*batchPanic); is { // was logged
			failure = ofBatch.error
		} else {
			s.consumer.logPanic(d, failure, debug.Stack())
		}
		*end = ending{d, s.settings.newOutcome(contract.ResultPanicked, 0, failure), failure}
	}()
	failure := s.settings.handle(context.WithValue(h, batchKey{}, seat), d)
	*end = ending{d, s.settings.outcomeOf(h, failure), failure}
	returned = true
}
