package safedelete

import (
	"context"
	"errors"

	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// lift ends a fence, in a way that lets publishers go on which it held up if it was closed; in between, take takes out
// the sentinels, and returns the queues that may still hold some. What fails leaves the policy, which is the record that there is
// something left to do, before no more queues than it must.
func (s *Deleter) lift(ctx context.Context, f fence.Fence, closed bool, take func() (left []string, err error)) error {
	definition := f.Open()
	if closed {
		if err := s.api.PutPolicy(ctx, f.Name, f.Pattern, f.Priority, definition); err != nil {
			return err
		}
	}
	if closed && f.Drops { // else the queue could become full in the meantime, and nobody would be told when it is no longer
		definition = f.Harmless()
		if err := s.api.PutPolicy(ctx, f.Name, f.Pattern, f.Priority, definition); err != nil {
			return err
		}
	}
	if left, err := take(); err != nil {
		if closed && len(left) > 0 && len(left) < len(f.Queues) {
			return errors.Join(err, s.api.PutPolicy(ctx, f.Name, fence.Pattern(left), f.Priority, definition))
		}
		return err
	}
	if err := s.api.DeletePolicy(ctx, f.Name); err != nil {
		return err
	}
	s.broker.Write(snapshot.Write{Apply: func(known *snapshot.Snapshot) bool { return known.DropFence(f.Name) }})
	return nil
}
