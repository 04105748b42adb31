package management

import (
	"context"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// Places limit how many steps go on at a time.
type Places chan struct{}

// NewPlaces lets so many steps go on at a time.
func NewPlaces(count int) Places { return make(Places, count) }

// Hold holds a place during a step.
func (p Places) Hold(ctx context.Context, errs brokererr.Errors, step func() error) error {
	select {
	case p <- struct{}{}:
	case <-ctx.Done():
		return errs.Unreachable(ctx.Err())
	}
	defer func() { <-p }()
	return step()
}

// Sleep waits, and fails when the context ends before.
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
