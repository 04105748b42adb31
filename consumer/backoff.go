package consumer

import (
	"context"
	"math/rand/v2"
	"time"
)

// Delays between attempts to reach the broker, or to publish what it did not take: each is twice as long as the one before.
const (
	minDelay = 250 * time.Millisecond
	maxDelay = 10 * time.Second
)

// backoff spaces attempts. Its zero value is ready.
type backoff struct{ delay time.Duration }

// next is how long to wait before the next attempt, give or take a fifth.
func (b *backoff) next() time.Duration {
	b.delay = min(max(minDelay, 2*b.delay), maxDelay)
	return time.Duration(float64(b.delay) * (0.8 + 0.4*rand.Float64()))
}

// reset begins with the shortest delay again.
func (b *backoff) reset() { b.delay = 0 }

// sleep waits; it is false if ctx ended before.
func sleep(ctx context.Context, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
