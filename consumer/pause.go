package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

// pausedInterval is how often the contract is read again during a pause, so that the consumer notices its end soon.
const pausedInterval = 5 * time.Second

// errPaused ends a session because the contract asks for a pause.
var errPaused = errors.New("the contract asks for a pause")

// pause is the pause that the contract asks for. Only New and the goroutine of Run use it.
type pause struct {
	id    string
	ends  time.Time // at the latest; for id
	asked *contract.Pause
}

// note records what the contract asks for now. A pause ends at Until, and at the latest contract.MaxPause after its ID was first
// seen: if this machine's clock is behind the operator's, or Until is wrong, the messages must not wait for longer.
func (p *pause) note(asked *contract.Pause, now time.Time) {
	p.asked = asked
	if asked != nil && asked.ID != p.id {
		p.id, p.ends = asked.ID, now.Add(contract.MaxPause)
	}
}

// left returns for how long the consumer still has to pause; 0 or less if it may consume.
func (p *pause) left(now time.Time) time.Duration {
	if p.asked == nil {
		return 0
	}
	return min(p.asked.Until.Sub(now), p.ends.Sub(now))
}

// awaitPause waits until the contract asks for no pause, the pause is over, or ctx ends. It reports whether it has waited.
func (c *Consumer) awaitPause(ctx context.Context) (waited bool) {
	for ctx.Err() == nil {
		now := time.Now()
		left := c.pause.left(now)
		if left <= 0 {
			break
		}
		waited = true
		c.setState(StatePaused, c.breaker.err())
		c.status.recordPause(now.Add(left))
		if sleep(ctx, min(left, pausedInterval)) {
			_ = c.reload(ctx) // keeps the current contract if it cannot read the new one
		}
	}
	return waited
}
