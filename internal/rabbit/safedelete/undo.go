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
func (d *batch) undo(ctx context.Context, reason error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoing)
	defer cancel()
	if !d.deleter.HoldsLease() {
		for _, f := range d.fences {
			d.deleter.deletions.untrackFence(f.Name, false)
		}
		return brokererr.ErrNotLeader
	}
	d.takeOutExpiring(ctx)
	vanishing := restoration{d}.awaitGone(ctx)
	for _, g := range d.groups {
		if g.declared {
			continue
		}
		why := g.err
		if why == nil && g.begun && len(g.queues) > 0 { // an error of the batch interrupted the deletion of this group
			why = reason
			if ended := g.ctx.Err(); ended != nil {
				why = d.deleter.errs.Unreachable(ended)
			}
		}
		if why != nil {
			g.err = restoration{d}.restore(ctx, g, why)
		}
	}
	left := false
	for _, f := range d.fences {
		err := d.takeDown(ctx, f, vanishing)
		if errors.Is(err, crashpoint.ErrCrashed) {
			return err
		}
		d.deleter.deletions.untrackFence(f.Name, err == nil)
		if err != nil {
			left = true
			recovery{d.deleter}.logFailure(f.Name, err)
		}
	}
	if left {
		d.deleter.observer.RequestRefresh()
	}
	return reason
}

// takeDown lifts a fence, unless RabbitMQ may still be deleting one of its queues: a message that such a queue takes would be lost.
func (d *batch) takeDown(ctx context.Context, f fence.Fence, vanishing []string) error {
	for _, queue := range f.Queues {
		if slices.Contains(vanishing, queue) {
			if d.recreationOf(queue) == nil {
				d.deleter.deletions.leaveClosed(f.Name, vanishing)
			}
			return d.unproven(stillDeleting, queue)
		}
	}
	return d.deleter.lift(ctx, f, len(d.queues()) > 0, func() ([]string, error) {
		d.opened()
		if err := d.deleter.Crash.Pass(StepOpened); err != nil {
			return nil, err
		}
		return d.takeOut(ctx, f)
	})
}

// takeOutExpiring takes the sentinels out of queues in which messages expire. It comes before all other steps, because a busy
// broker takes long to write policies, and a sentinel that expires towards a queue behind the same closed fence waits there for
// three minutes. takeOut reports the errors.
func (d *batch) takeOutExpiring(ctx context.Context) {
	queues := slices.DeleteFunc(d.queues(), func(queue string) bool {
		_, expires := d.ttl(queue)
		return !expires || d.count(queue, 0) == 0 || restoration{d}.isSent(queue)
	})
	forEach(ctx, d.deleter.errs, queues, func(queue string) error {
		_, err := d.search(d.fenceOf(queue)).takeAll(ctx, queue, []string{queue}, false)
		return err
	})
}

// takeOut takes the sentinels of a fence out of the remaining queues, and returns the queues that may still hold some.
func (d *batch) takeOut(ctx context.Context, f fence.Fence) ([]string, error) {
	if d.deleter.deletions.mayArrive(f.Name) {
		if err := d.deleter.arrived(ctx, d.cluster); err != nil {
			return nil, err
		}
	}
	left := d.queues()
	f.Queues = slices.DeleteFunc(slices.Clone(f.Queues), func(queue string) bool {
		return d.count(queue, 0) == 0 || !slices.Contains(left, queue)
	})
	return d.search(f).run(ctx)
}
