package observe

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// refreshRequests are the requests to a refresher.
type refreshRequests struct {
	vhost  string
	wake   chan struct{}
	closed <-chan struct{}

	mu      sync.Mutex
	waiting []chan<- error // for the next refresh
	askedAt time.Time      // the time of the last request for the next refresh; zero if there is none
	// stale: the identity of the broker must be read again. Results from before staleSince may be out of date.
	stale      bool
	staleSince time.Time
}

// Refresh returns after a refresh that began after the call. One refresh serves all callers that wait for it.
func (r *refreshRequests) Refresh(ctx context.Context) error {
	result := make(chan error, 1)
	r.mu.Lock()
	r.waiting = append(r.waiting, result)
	r.mu.Unlock()
	r.RequestRefresh()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("waiting for a refresh of vhost %q: %w", r.vhost, ctx.Err())
	case <-r.closed:
		return brokererr.ErrClosed
	}
}

// RequestRefresh requests a refresh that begins after the call, and does not wait for it.
func (r *refreshRequests) RequestRefresh() {
	metrics.RefreshRequests.Inc()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.askedAt = time.Now()
	select {
	case r.wake <- struct{}{}:
	default: // a refresh is about to begin
	}
}

// take returns the callers that the next refresh serves, and when the last request was made; zero if there was none. It clears
// the requests.
func (r *refreshRequests) take() (waiting []chan<- error, askedAt time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.wake:
	default:
	}
	waiting, r.waiting = r.waiting, nil
	askedAt, r.askedAt = r.askedAt, time.Time{}
	return waiting, askedAt
}

// requeue passes a failed request to the next refresh.
func (r *refreshRequests) requeue(askedAt time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if askedAt.After(r.askedAt) {
		r.askedAt = askedAt
	}
}

// MarkStale makes the next refresh read the identity of the broker and the vhost again, because they may have changed without an
// event.
func (r *refreshRequests) MarkStale() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale, r.staleSince = true, time.Now()
}

// takeStale reports whether the caller must read the identity of the broker again.
func (r *refreshRequests) takeStale() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	stale := r.stale
	r.stale = false
	return stale
}

// outdatedBefore returns the time of the last MarkStale; zero if there was none.
func (r *refreshRequests) outdatedBefore() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.staleSince
}
