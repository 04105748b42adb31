package consumer

import (
	"context"
	"math/rand/v2"
	"time"
)

// The delay between attempts to connect, or to publish a message that the broker refused, doubles from minDelay to maxDelay.
const (
	minDelay = 250 * time.Millisecond
	maxDelay = 10 * time.Second
)

// backoff computes the delay between attempts. The zero value is ready.
type backoff struct{ delay time.Duration }

// next returns the delay before the next attempt, with 20% jitter.
func (b *backoff) next() time.Duration {
	b.delay = min(max(minDelay, 2*b.delay), maxDelay)
	return time.Duration(float64(b.delay) * (0.8 + 0.4*rand.Float64()))
}

func (b *backoff) reset() { b.delay = 0 }

// sleep waits for a delay. It returns false if ctx ended before.
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
