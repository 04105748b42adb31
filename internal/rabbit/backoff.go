package rabbit

import (
	"math/rand/v2"
	"time"
)

// backoff is the waiting time before another attempt: first, doubled each time, up to limit.
type backoff struct {
	first, limit time.Duration
	next         time.Duration
}

// wait returns how long to wait now, and doubles.
func (b *backoff) wait() time.Duration {
	b.next = min(max(b.next, b.first), b.limit)
	wait := b.next
	b.next = min(2*b.next, b.limit)
	return jitter(wait)
}

func (b *backoff) reset() { b.next = 0 }

// jitter takes up to 10% off a time, so that many clients do not come all at once.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.1*rand.Float64())) // spreads load, and keeps no one waiting for longer
}
