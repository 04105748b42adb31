package safedelete

import (
	"context"

	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// lift ends a fence, in a way that lets publishers go on which it held up if it was closed; in between, take takes out
// the sentinels. What fails leaves the policy, which is the record that there is something left to do.
func (s *Deleter) lift(ctx context.Context, f fence.Fence, closed bool, take func() error) error {
	if closed {
		if err := s.api.PutPolicy(ctx, f.Name, f.Pattern, f.Priority, f.Open()); err != nil {
			return err
		}
	}
	if closed && f.Drops { // else the queue could become full in the meantime, and nobody would be told when it is no longer
		if err := s.api.PutPolicy(ctx, f.Name, f.Pattern, f.Priority, f.Harmless()); err != nil {
			return err
		}
	}
	if err := take(); err != nil {
		return err
	}
	if err := s.api.DeletePolicy(ctx, f.Name); err != nil {
		return err
	}
	s.broker.Write(snapshot.Write{Apply: func(known *snapshot.Snapshot) bool { return known.DropFence(f.Name) }})
	return nil
}
