package retry

import (
	"context"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// Slots limit how many steps run at a time.
type Slots chan struct{}

// NewSlots returns Slots for count concurrent steps.
func NewSlots(count int) Slots { return make(Slots, count) }

// Hold waits for a slot, and holds it while step runs. It returns the error of step, or ErrUnreachable if the context ends first.
func (s Slots) Hold(ctx context.Context, errs brokererr.Errors, step func() error) error {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return errs.Unreachable(ctx.Err())
	}
	defer func() { <-s }()
	return step()
}

// Sleep returns nil after the wait, or ErrUnreachable if the context ends first.
func Sleep(ctx context.Context, errs brokererr.Errors, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errs.Unreachable(ctx.Err())
	}
}
