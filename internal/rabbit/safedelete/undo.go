package safedelete

import (
	"context"
	"errors"
	"slices"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/crashpoint"
	"github.com/warren-mq/warren/internal/rabbit/fence"
)

// undo takes the fences down and restores the groups, even if ctx has ended. It returns the given reason, or ErrNotLeader if this
// process no longer leads.
func (b *batch) undo(ctx context.Context, reason error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoing)
	defer cancel()
	if !b.deleter.HoldsLease() {
		for _, f := range b.fences {
			b.deleter.deletions.untrackFence(f.Name, false)
		}
		return brokererr.ErrNotLeader
	}
	b.takeOutExpiring(ctx)
	vanishing := restoration{b}.awaitGone(ctx)
	for _, g := range b.groups {
		if g.declared {
			continue
		}
		why := g.err
		if why == nil && g.begun && len(g.queues) > 0 { // an error of the batch interrupted the deletion of this group
			why = reason
			if ended := g.ctx.Err(); ended != nil {
				why = b.deleter.errs.Unreachable(ended)
			}
		}
		if why != nil {
			g.err = restoration{b}.restore(ctx, g, why)
		}
	}
	left := false
	for _, f := range b.fences {
		err := b.takeDown(ctx, f, vanishing)
		if errors.Is(err, crashpoint.ErrCrashed) {
			return err
		}
		b.deleter.deletions.untrackFence(f.Name, err == nil)
		if err != nil {
			left = true
			recovery{b.deleter}.logFailure(f.Name, err)
		}
	}
	if left {
		b.deleter.observer.RequestRefresh()
	}
	return reason
}

// takeDown takes a fence down, unless RabbitMQ may still be deleting one of its queues: a message that such a queue takes would be lost.
func (b *batch) takeDown(ctx context.Context, f fence.Fence, vanishing []string) error {
	for _, queue := range f.Queues {
		if slices.Contains(vanishing, queue) {
			if b.recreationOf(queue) == nil {
				b.deleter.deletions.leaveClosed(f.Name, vanishing)
			}
			return b.unproven(stillDeleting, queue)
		}
	}
	return b.deleter.lift(ctx, f, len(b.queues()) > 0, func() ([]string, error) {
		b.opened()
		if err := b.deleter.Crash.Pass(StepOpened); err != nil {
			return nil, err
		}
		return b.takeOut(ctx, f)
	})
}

// takeOutExpiring takes the sentinels out of queues in which messages expire. It comes before all other steps, because a busy broker takes
// long to write policies. A sentinel that the same closed fence refuses after it expired waits for three minutes. takeOut reports the
// errors.
func (b *batch) takeOutExpiring(ctx context.Context) {
	queues := slices.DeleteFunc(b.queues(), func(queue string) bool {
		_, expires := b.ttl(queue)
		return !expires || b.count(queue, 0) == 0 || restoration{b}.isSent(queue)
	})
	forEach(ctx, b.deleter.errs, queues, func(queue string) error {
		_, err := b.search(b.fenceOf(queue)).takeAll(ctx, queue, []string{queue}, false)
		return err
	})
}

// takeOut takes the sentinels of a fence out of the remaining queues, and returns the queues that may still hold some.
func (b *batch) takeOut(ctx context.Context, f fence.Fence) ([]string, error) {
	if b.deleter.deletions.mayArrive(f.Name) {
		if err := b.deleter.arrived(ctx, b.cluster); err != nil {
			return nil, err
		}
	}
	left := b.queues()
	f.Queues = slices.DeleteFunc(slices.Clone(f.Queues), func(queue string) bool {
		return b.count(queue, 0) == 0 || !slices.Contains(left, queue)
	})
	return b.search(f).run(ctx)
}
