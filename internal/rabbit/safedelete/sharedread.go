package safedelete

import (
	"context"
	"sync"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// sharedRead makes one read for all callers that wait when it begins. No caller gets an answer that is older than its call.
type sharedRead[T any] struct {
	read func() (T, error)

	mu      sync.Mutex
	running bool
	next    *reading[T] // has not begun; nil if no caller waits
}

// reading is one read. Its answer is available when done is closed.
type reading[T any] struct {
	done   chan struct{}
	answer T
	err    error
}

// get returns the answer of a read that begins after the call. The read continues when the context ends, because other callers
// may wait for it.
func (r *sharedRead[T]) get(ctx context.Context, errs brokererr.Errors) (T, error) {
	asked := r.ask()
	select {
	case <-asked.done:
		return asked.answer, asked.err
	case <-ctx.Done():
		var none T
		return none, errs.Unreachable(ctx.Err())
	}
}

func (r *sharedRead[T]) ask() *reading[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &reading[T]{done: make(chan struct{})}
	}
	if !r.running {
		r.running = true
		go r.run()
	}
	return r.next
}

// run reads as long as callers wait.
func (r *sharedRead[T]) run() {
	for {
		r.mu.Lock()
		now := r.next
		r.next = nil
		r.running = now != nil
		r.mu.Unlock()
		if now == nil {
			return
		}
		now.answer, now.err = r.read()
		close(now.done)
	}
}
