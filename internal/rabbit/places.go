package rabbit

import "context"

// inPlace holds one of the places of a limit during a step.
func (e Errors) inPlace(ctx context.Context, places chan struct{}, step func() error) error {
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return e.Unreachable(ctx.Err())
	}
	defer func() { <-places }()
	return step()
}
