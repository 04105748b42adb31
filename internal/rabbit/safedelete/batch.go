package safedelete

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/crashpoint"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// answerAge is the maximum age of the callers' answers when a batch gets a slot for its fences. A batch whose answers are older asks again.
const answerAge = 2 * time.Second

// plannedAge is the maximum age of the callers' answers once the fences are planned. Planning takes long on a slow broker.
const plannedAge = 5 * time.Second

// batch is a set of groups whose queues stand behind one fence, or a few fences, at the same time.
type batch struct {
	deleter *Deleter
	cluster string
	// groups are the groups that are still to be deleted.
	groups []*group

	stats    map[string]*queueStats
	fences   []fence.Fence
	priority float64 // of the fences
	// asked is when the batch began to ask the callers. answered is when all of them had answered.
	asked, answered time.Time
	// closed is when the batch began to write the first fence.
	closed time.Time
	// published is when the batch was about to publish the first sentinel. deadline is when the last queue must be deleted.
	published, deadline time.Time

	// inside counts the sentinels that each queue may hold. A sentinel whose publish was not answered counts, too.
	inside sentinelCounts

	mu sync.Mutex // guards the fields below, and the groups while several queues are worked on
	// sent is when a queue.delete was sent, by queue.
	sent map[string]time.Time
	// interrupt cancels the work of the batch; nil while the end of a call must not cancel it.
	interrupt context.CancelCauseFunc
}

var (
	// errOutdated: the callers must be asked again.
	errOutdated = errors.New("outdated")
	// errReleased: one group is not empty, so the other groups wait for another batch.
	errReleased = errors.New("released")
	// errCallEnded: the context of one of the groups ended.
	errCallEnded = errors.New("a call has ended")
)

// runBatch deletes groups, or requeues them.
func (d *Deleter) runBatch(groups []*group) {
	b := newBatch(d, groups)
	for _, g := range groups {
		defer context.AfterFunc(g.ctx, func() { b.callEnded(g) })()
	}
	b.finish(b.run())
}

func newBatch(d *Deleter, groups []*group) *batch {
	for _, g := range groups {
		g.err, g.begun, g.deleted, g.declared, g.outcome = nil, false, nil, false, Recreated{}
	}
	return &batch{
		deleter: d, cluster: groups[0].cluster, groups: groups, stats: map[string]*queueStats{}, sent: map[string]time.Time{},
	}
}

// run asks the callers, waits for a slot, and deletes the groups. If the wait took too long, it starts again. A batch holds no slot
// while it asks its callers, because their answers may take as long as a refresh of the vhost.
func (b *batch) run() error {
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	for {
		b.deleter.deletions.awaitLifted()
		b.ask()
		if len(b.groups) == 0 {
			return nil
		}
		var result error
		err := b.deleter.deletions.fenced(func() error {
			if result = errOutdated; time.Since(b.answered) <= answerAge {
				b.interruptible(end)
				result = b.fenceOff(ctx)
			}
			return b.slowest(result)
		})
		switch {
		case errors.Is(err, brokererr.ErrClosed):
			return err
		case !errors.Is(result, errOutdated):
			return result
		}
	}
}

// slowest returns the error of a group that was too slow, or the given error if there is none.
func (b *batch) slowest(err error) error {
	for _, g := range b.groups {
		if errors.Is(g.err, errSlow) {
			return g.err
		}
	}
	return err
}

// interruptible sets the function that cancels the batch when one of its calls ends; with nil, no call cancels it. Groups whose
// calls have already ended leave the batch.
func (b *batch) interruptible(end context.CancelCauseFunc) {
	b.mu.Lock()
	b.interrupt = end
	b.mu.Unlock()
	for _, g := range b.groups {
		if err := g.ctx.Err(); err != nil && end != nil {
			b.leave(g, b.deleter.errs.Unreachable(err))
		}
	}
}

// callEnded cancels the batch when one of its calls ends. While queues are deleted, deleteOne checks the call of each group
// instead.
func (b *batch) callEnded(g *group) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.interrupt != nil && slices.Contains(b.groups, g) { // other groups have left the batch
		b.interrupt(errCallEnded)
	}
}

// ask asks all callers at the same time. Groups whose callers no longer want the deletion leave the batch.
func (b *batch) ask() {
	b.asked = time.Now()
	answers := make([]error, len(b.groups))
	var all sync.WaitGroup
	for i, g := range b.groups {
		if answers[i] = g.ctx.Err(); answers[i] != nil {
			answers[i] = b.deleter.errs.Unreachable(answers[i])
		} else if g.stillDeletable != nil {
			all.Go(func() { answers[i] = g.stillDeletable(g.ctx) })
		}
	}
	all.Wait()
	b.answered = time.Now()
	for i, g := range slices.Clone(b.groups) {
		if answers[i] != nil {
			b.leave(g, answers[i])
		}
	}
}

// leave removes a group whose queues are unchanged from the batch, and sends the result to its caller.
func (b *batch) leave(g *group, result error) {
	b.mu.Lock()
	b.groups = slices.DeleteFunc(slices.Clone(b.groups), func(other *group) bool { return other == g })
	b.mu.Unlock()
	g.done <- result
}

// fenceOff deletes the groups behind fences. Its error applies to all groups without an error in group.err.
func (b *batch) fenceOff(ctx context.Context) error {
	planned, err := preflight{b}.plan(ctx)
	if err != nil || len(b.groups) == 0 {
		return interrupted(ctx, err)
	}
	if time.Since(b.answered) > plannedAge { // another attempt of the same size would take as long
		return b.slow("it took longer than %v to read the queues and policies", plannedAge)
	}
	err = b.fenceAndDelete(ctx, planned)
	if errors.Is(err, crashpoint.ErrCrashed) {
		return err
	}
	return b.undo(ctx, interrupted(ctx, err))
}

// interrupted returns errCallEnded instead of an error if the end of a call has cancelled the batch.
func interrupted(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errCallEnded) {
		return errCallEnded
	}
	return err
}

// fenceAndDelete puts the fences up and deletes the groups behind them. The caller must then call undo, unless the error is ErrCrashed.
func (b *batch) fenceAndDelete(ctx context.Context, planned []fence.Fence) error {
	if err := b.deleter.sentinels.check(ctx, b.cluster); err != nil {
		return err
	}
	if err := b.deleter.observer.CheckUnshared(ctx); err != nil {
		return err
	}
	b.closed = time.Now()
	for _, f := range planned {
		b.fences = append(b.fences, f)
		b.deleter.deletions.trackFence(f.Name)
		if err := b.deleter.api.PutPolicy(ctx, f.Name, f.Pattern, f.Priority, f.Closed()); err != nil {
			return err
		}
		metrics.FenceQueues.Observe(float64(len(f.Queues)))
	}
	if err := b.deleter.Crash.Pass(StepFenced); err != nil {
		return err
	}
	b.published = time.Now()
	b.deadline = b.deadlineFrom(b.closed)
	within, cancel := context.WithDeadline(ctx, b.deadline)
	defer cancel()
	err := b.deleteWithin(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return b.slow("it took longer than %v: %v", b.deadline.Sub(b.closed).Round(time.Millisecond), err)
	}
	return err
}

// deadlineFrom returns the end of the budget of a batch that began to write its first fence at the given time. Sentinels must not
// expire, so half of their time to live remains for removing them.
func (b *batch) deadlineFrom(begun time.Time) time.Time {
	deadline := begun.Add(budget)
	if ttl, expires := b.ttl(b.queues()...); expires && b.published.Add(ttl/2).Before(deadline) {
		deadline = b.published.Add(ttl / 2)
	}
	return deadline
}

func (b *batch) deleteWithin(ctx context.Context) error {
	if err := (restoration{b}).remember(ctx); err != nil {
		return err
	}
	if err := (proof{b}).proveAll(ctx); err != nil {
		return err
	}
	if err := b.deleter.Crash.Pass(StepProven); err != nil {
		return err
	}
	policies, err := b.deleter.policies.get(ctx, b.deleter.errs)
	if err != nil {
		return err
	}
	for _, g := range b.groups {
		b.fail(g, preflight{b}.checkUnhindered(g, policies))
	}
	if b.anyFailed() {
		return errReleased
	}
	if err := b.recordDelete(ctx); err != nil {
		return err
	}
	if err := (proof{b}).settle(ctx); err != nil {
		return err
	}
	if err := b.deleter.Crash.Pass(StepSettled); err != nil {
		return err
	}
	b.interruptible(nil)
	if err := (removal{b}).delete(ctx); err != nil {
		return err
	}
	return b.deleter.Crash.Pass(stepDeleted)
}

func (b *batch) unproven(format string, args ...any) error {
	return b.deleter.errs.Fail(brokererr.ErrUnproven, format, args...)
}

// slow returns an ErrUnproven for a deletion that ran out of time.
func (b *batch) slow(format string, args ...any) error {
	text := fmt.Sprintf("%v: %s", brokererr.ErrUnproven, fmt.Sprintf(format, args...))
	return b.deleter.errs.Because([]error{brokererr.ErrUnproven, errSlow}, text)
}

// fail records why a group cannot be deleted.
func (b *batch) fail(g *group, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g.err == nil {
		g.err = why
	}
}

// failUnlessEnded is fail, but ignores an error that only reports the end of the context.
func (b *batch) failUnlessEnded(ctx context.Context, g *group, why error) {
	if ended := ctx.Err(); ended == nil || !errors.Is(why, ended) {
		b.fail(g, why)
	}
}

// anyFailed reports whether a group cannot be deleted.
func (b *batch) anyFailed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.groups, func(g *group) bool { return g.err != nil })
}

// queues returns the queues of all groups, without queues that are known to be gone.
func (b *batch) queues() (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.groups {
		all = append(all, g.queues...)
	}
	return all
}

// gone records that a queue no longer exists.
func (b *batch) gone(queue string) {
	b.mu.Lock()
	for _, g := range b.groups {
		if slices.Contains(g.queues, queue) {
			g.drop(queue)
		}
	}
	b.mu.Unlock()
	b.deleter.gone(queue)
}

// gone removes a queue from the snapshot.
func (d *Deleter) gone(queue string) {
	d.observer.Write(snapshot.Write{
		ID: vhost.QueueID(queue), Apply: func(known *snapshot.Snapshot) bool { return known.DropQueue(queue) },
	})
}

// count changes the number of sentinels that a queue may hold, and returns the new number.
func (b *batch) count(queue string, change int) int { return b.inside.count(queue, change) }

func (b *batch) search(f fence.Fence) *search {
	return &search{
		Deleter: b.deleter, fence: f, cluster: b.cluster, missing: b.count, gone: b.gone, published: b.published,
		settle: b.deleter.Timeouts.Settle,
	}
}

func (b *batch) fenceOf(queue string) fence.Fence {
	return b.fences[slices.IndexFunc(b.fences, func(f fence.Fence) bool { return slices.Contains(f.Queues, queue) })]
}

// ttl returns the shortest time to live of messages in the queues; false if no messages expire.
func (b *batch) ttl(queues ...string) (shortest time.Duration, expires bool) {
	for _, queue := range queues {
		if ttl, set := b.stats[queue].ttl(); set && (!expires || ttl < shortest) {
			shortest, expires = ttl, true
		}
	}
	return shortest, expires
}

// finish sends each caller the result of its group. It requeues a group that failed only because of other groups.
func (b *batch) finish(err error) {
	var again []*group
	s, several := b.deleter, len(b.groups) > 1
	tooSlow := errors.Is(err, errSlow)
	for _, g := range b.groups {
		tooSlow = tooSlow || errors.Is(g.err, errSlow)
	}
	if len(b.fences) > 0 || tooSlow {
		s.batches.adapt(len(b.stats), tooSlow)
	}
	for _, g := range b.groups {
		ended := g.ctx.Err()
		switch {
		case errors.Is(err, crashpoint.ErrCrashed):
			g.done <- err
		case g.declared:
			g.done <- nil
		case g.err != nil:
			g.done <- g.err
		case len(g.queues) == 0:
			now := time.Now()
			s.lastDeletion.Store(&now)
			g.done <- nil
		case ended != nil:
			g.done <- s.errs.Unreachable(ended)
		case err == nil || errors.Is(err, errReleased) || errors.Is(err, errCallEnded):
			again = append(again, g)
		case several && errors.Is(err, errSlow) && g.slow < slowLimit:
			g.slow++
			again = append(again, g)
		default:
			g.done <- err
		}
	}
	if len(again) > 0 {
		metrics.BatchesReleased.Inc()
		s.batches.again(again)
	}
}
