// Package retry computes the waits between attempts, waits, and limits how many steps run at a time.
package retry

import (
	"math/rand/v2"
	"time"
)

// Backoff computes the wait before each attempt: First, then doubled each time up to Limit.
type Backoff struct {
	First, Limit time.Duration
	next         time.Duration
}

// Wait returns the next wait, shortened by Jitter.
func (b *Backoff) Wait() time.Duration {
	b.next = min(max(b.next, b.First), b.Limit)
	wait := b.next
	b.next = min(2*b.next, b.Limit)
	return Jitter(wait)
}

// Reset makes the next wait First again.
func (b *Backoff) Reset() { b.next = 0 }

// Jitter shortens a wait by up to 10%, so that many clients do not act at the same moment. It never lengthens the wait.
func Jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.1*rand.Float64()))
}
