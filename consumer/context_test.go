package consumer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

func workerForTest(tb testing.TB) *worker {
	tb.Helper()
	given, err := settingsOf(nil, contract.Default("orders"))
	if err != nil {
		tb.Fatal(err)
	}
	w := &worker{session: &session{settings: given}, ctx: tb.Context()}
	w.timer = time.AfterFunc(given.timeout, w.expire)
	tb.Cleanup(func() { w.timer.Stop() })
	return w
}

// handleWithContext creates and ends the context of a message, as a worker does.
func (w *worker) handleWithContext(d *Delivery) {
	h := w.start(time.Time{}, d)
	w.timer.Stop()
	w.current.Store(nil)
	h.cancel(nil)
}

// The timer of a message may fire when the worker already handles the next one.
func TestALateTimerDoesNotEndTheNextMessage(t *testing.T) {
	t.Parallel()
	w := workerForTest(t)
	h := w.start(time.Time{}, &Delivery{})
	w.expire()
	if err := h.Err(); err != nil {
		t.Error(err)
	}
}

// The standard library knows no timeout that ends the context of another package, see context.Cause.
func TestTheCauseOfATimeoutReachesDerivedContexts(t *testing.T) {
	t.Parallel()
	w := workerForTest(t)
	h := w.start(time.Time{}, &Delivery{})
	derived, cancel := context.WithCancel(h)
	defer cancel()
	h.cancel(ErrTimeout)
	for name, got := range map[string][2]error{
		"the handler's context": {h.Err(), context.DeadlineExceeded}, "its cause": {context.Cause(h), ErrTimeout},
		"a derived context": {derived.Err(), context.Canceled}, "the cause of that": {context.Cause(derived), ErrTimeout},
	} {
		if !errors.Is(got[0], got[1]) {
			t.Errorf("%s: %v instead of %v", name, got[0], got[1])
		}
	}
}

// Not parallel: other tests allocate, too.
func TestAContextCostsThreeAllocations(t *testing.T) { //nolint:paralleltest // see above
	w, d := workerForTest(t), &Delivery{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.ctx = ctx
	if count := testing.AllocsPerRun(100, func() { w.handleWithContext(d) }); count > 3 {
		t.Errorf("%.0f allocations", count)
	}
}

// BenchmarkContext measures the cost of one context per message. With a prefetch of 100, a message takes about 20 µs in total;
// see docs/benchmarks.md.
func BenchmarkContext(b *testing.B) {
	w, d := workerForTest(b), &Delivery{}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	w.ctx = ctx
	b.ReportAllocs()
	for b.Loop() {
		w.handleWithContext(d)
	}
}
