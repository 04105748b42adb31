package safedelete

import (
	"context"
	"errors"

	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// lift takes a fence down in steps, so that publishers that the closed fence blocked can continue. After the fence is open, take removes
// the sentinels and returns the queues that may still hold one. If a step fails, the policy remains and records the remaining work. It
// matches no more queues than necessary.
func (d *Deleter) lift(ctx context.Context, f fence.Fence, closed bool, take func() (left []string, err error)) error {
	definition := f.Open()
	if closed {
		if err := d.api.PutPolicy(ctx, f.Name, f.Pattern, f.Priority, definition); err != nil {
			return err
		}
	}
	if closed && f.Drops { // otherwise the queue could fill up, and no publisher would learn when it has room again
		definition = f.Harmless()
		if err := d.api.PutPolicy(ctx, f.Name, f.Pattern, f.Priority, definition); err != nil {
			return err
		}
	}
	if left, err := take(); err != nil {
		if closed && len(left) > 0 && len(left) < len(f.Queues) {
			return errors.Join(err, d.api.PutPolicy(ctx, f.Name, fence.Pattern(left), f.Priority, definition))
		}
		return err
	}
	if err := d.api.DeletePolicy(ctx, f.Name); err != nil {
		return err
	}
	d.observer.Write(snapshot.Write{Apply: func(known *snapshot.Snapshot) bool { return known.DropFence(f.Name) }})
	return nil
}
