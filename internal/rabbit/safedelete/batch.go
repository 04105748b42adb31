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

// answerAge is the maximum age of the callers' answers when a batch gets a slot for its fences. A batch with older answers asks
// again.
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
	priority int // of the fences
	// asked is when the batch began to ask the callers. answered is when all of them had answered.
	asked, answered time.Time
	// closed is when the batch began to write the first fence.
	closed time.Time
	// published is when the batch was about to publish the first sentinel. deadline is when the last queue must be deleted.
	published, deadline time.Time

	// inside is the maximum number of sentinels in each queue.
	inside sentinelCounts

	mu sync.Mutex // guards the fields below, and the groups while several queues are worked on
	// sent is when a queue.delete was sent, by queue.
	sent map[string]time.Time
	// interrupt cancels the work of the batch; nil while a call that ends must not cancel it.
	interrupt context.CancelCauseFunc
}

var (
	// errOutdated: the callers must be asked again.
	errOutdated = errors.New("outdated")
	// errReleased: one group is not empty, so the others wait for another batch.
	errReleased = errors.New("released")
	// errCallEnded: the context of one of the groups ended.
	errCallEnded = errors.New("a call has ended")
)

// runBatch deletes groups, or requeues them.
func (s *Deleter) runBatch(groups []*group) {
	d := newBatch(s, groups)
	for _, g := range groups {
		defer context.AfterFunc(g.ctx, func() { d.callEnded(g) })()
	}
	d.finish(d.run())
}

func newBatch(s *Deleter, groups []*group) *batch {
	for _, g := range groups {
		g.err, g.begun, g.deleted, g.declared, g.outcome = nil, false, nil, false, Recreated{}
	}
	return &batch{
		deleter: s, cluster: groups[0].cluster, groups: groups, stats: map[string]*queueStats{}, sent: map[string]time.Time{},
	}
}

// run asks the callers, waits for a slot, and deletes the groups. If the wait took too long, it starts again. A batch holds no slot
// while it asks its callers, because their answers may take as long as a refresh of the vhost.
func (d *batch) run() error {
	ctx, end := context.WithCancelCause(context.Background())
	defer end(nil)
	for {
		d.deleter.deletions.awaitLifted()
		d.ask()
		if len(d.groups) == 0 {
			return nil
		}
		var result error
		err := d.deleter.deletions.fenced(func() error {
			if result = errOutdated; time.Since(d.answered) <= answerAge {
				d.interruptible(end)
				result = d.fenceOff(ctx)
			}
			return d.slowest(result)
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
func (d *batch) slowest(err error) error {
	for _, g := range d.groups {
		if errors.Is(g.err, errSlow) {
			return g.err
		}
	}
	return err
}

// interruptible sets the function that cancels the batch when one of its calls ends; with nil, no call cancels it. Groups whose
// calls have already ended leave the batch.
func (d *batch) interruptible(end context.CancelCauseFunc) {
	d.mu.Lock()
	d.interrupt = end
	d.mu.Unlock()
	for _, g := range d.groups {
		if err := g.ctx.Err(); err != nil && end != nil {
			d.leave(g, d.deleter.errs.Unreachable(err))
		}
	}
}

// callEnded cancels the batch when one of its calls ends. While queues are deleted, deleteOne checks the call of each group
// instead.
func (d *batch) callEnded(g *group) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.interrupt != nil && slices.Contains(d.groups, g) { // other groups have left the batch
		d.interrupt(errCallEnded)
	}
}

// ask asks all callers at the same time. Groups whose callers no longer want the deletion leave the batch.
func (d *batch) ask() {
	d.asked = time.Now()
	answers := make([]error, len(d.groups))
	var all sync.WaitGroup
	for i, g := range d.groups {
		if answers[i] = g.ctx.Err(); answers[i] != nil {
			answers[i] = d.deleter.errs.Unreachable(answers[i])
		} else if g.stillWanted != nil {
			all.Go(func() { answers[i] = g.stillWanted(g.ctx) })
		}
	}
	all.Wait()
	d.answered = time.Now()
	for i, g := range slices.Clone(d.groups) {
		if answers[i] != nil {
			d.leave(g, answers[i])
		}
	}
}

// leave removes a group whose queues are unchanged from the batch, and sends the result to its caller.
func (d *batch) leave(g *group, result error) {
	d.mu.Lock()
	d.groups = slices.DeleteFunc(slices.Clone(d.groups), func(other *group) bool { return other == g })
	d.mu.Unlock()
	g.done <- result
}

// fenceOff deletes the groups behind fences. Its error applies to all groups without an error in group.err.
func (d *batch) fenceOff(ctx context.Context) error {
	planned, err := preflight{d}.plan(ctx)
	if err != nil || len(d.groups) == 0 {
		return interrupted(ctx, err)
	}
	if time.Since(d.answered) > plannedAge { // another attempt of the same size would take as long
		return d.slow("it took longer than %v to read the queues and policies", plannedAge)
	}
	err = d.fenceAndDelete(ctx, planned)
	if errors.Is(err, crashpoint.ErrCrashed) {
		return err
	}
	return d.undo(ctx, interrupted(ctx, err))
}

// interrupted returns errCallEnded in place of an error if a call that ended has cancelled the batch.
func interrupted(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errCallEnded) {
		return errCallEnded
	}
	return err
}

// fenceAndDelete puts the fences up and deletes the groups behind them. The caller must always call undo.
func (d *batch) fenceAndDelete(ctx context.Context, planned []fence.Fence) error {
	if err := d.deleter.sentinels.check(ctx, d.cluster); err != nil {
		return err
	}
	if err := d.deleter.observer.CheckUnshared(ctx); err != nil {
		return err
	}
	d.closed = time.Now()
	for _, f := range planned {
		d.fences = append(d.fences, f)
		d.deleter.deletions.trackFence(f.Name)
		if err := d.deleter.api.PutPolicy(ctx, f.Name, f.Pattern, f.Priority, f.Closed()); err != nil {
			return err
		}
		metrics.FenceQueues.Observe(len(f.Queues))
	}
	if err := d.deleter.Crash.Pass(StepFenced); err != nil {
		return err
	}
	d.published = time.Now()
	d.deadline = d.deadlineFrom(d.closed)
	within, cancel := context.WithDeadline(ctx, d.deadline)
	defer cancel()
	err := d.deleteWithin(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return d.slow("it took longer than %v: %v", d.deadline.Sub(d.closed).Round(time.Millisecond), err)
	}
	return err
}

// deadlineFrom returns the end of the budget of a batch that began to write its first fence at the given time. Sentinels must not
// expire, so half of their time to live remains for removing them.
func (d *batch) deadlineFrom(begun time.Time) time.Time {
	deadline := begun.Add(budget)
	if ttl, expires := d.ttl(d.queues()...); expires && d.published.Add(ttl/2).Before(deadline) {
		deadline = d.published.Add(ttl / 2)
	}
	return deadline
}

func (d *batch) deleteWithin(ctx context.Context) error {
	if err := (restoration{d}).remember(ctx); err != nil {
		return err
	}
	if err := (proof{d}).proveAll(ctx); err != nil {
		return err
	}
	if err := d.deleter.Crash.Pass(StepProven); err != nil {
		return err
	}
	policies, err := d.deleter.policies.get(ctx, d.deleter.errs)
	if err != nil {
		return err
	}
	for _, g := range d.groups {
		d.doubt(g, preflight{d}.checkUnhindered(g, policies))
	}
	if d.doubtful() {
		return errReleased
	}
	if err := d.recordDelete(ctx); err != nil {
		return err
	}
	if err := (proof{d}).settle(ctx); err != nil {
		return err
	}
	if err := d.deleter.Crash.Pass(StepSettled); err != nil {
		return err
	}
	d.interruptible(nil)
	if err := (removal{d}).delete(ctx); err != nil {
		return err
	}
	return d.deleter.Crash.Pass(stepDeleted)
}

func (d *batch) unproven(format string, args ...any) error {
	return d.deleter.errs.Fail(brokererr.ErrUnproven, format, args...)
}

// slow returns an ErrUnproven for a deletion that ran out of time.
func (d *batch) slow(format string, args ...any) error {
	text := fmt.Sprintf("%v: %s", brokererr.ErrUnproven, fmt.Sprintf(format, args...))
	return d.deleter.errs.Because([]error{brokererr.ErrUnproven, errSlow}, text)
}

// doubt records why a group cannot be deleted.
func (d *batch) doubt(g *group, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g.err == nil {
		g.err = why
	}
}

// doubtIn is doubt, except for an error that only reports the end of the context.
func (d *batch) doubtIn(ctx context.Context, g *group, why error) {
	if ended := ctx.Err(); ended == nil || !errors.Is(why, ended) {
		d.doubt(g, why)
	}
}

func (d *batch) doubtful() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.groups, func(g *group) bool { return g.err != nil })
}

// queues returns the queues of all groups, without queues that are known to be gone.
func (d *batch) queues() (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range d.groups {
		all = append(all, g.queues...)
	}
	return all
}

// gone records that a queue no longer exists.
func (d *batch) gone(queue string) {
	d.mu.Lock()
	for _, g := range d.groups {
		if slices.Contains(g.queues, queue) {
			g.drop(queue)
		}
	}
	d.mu.Unlock()
	d.deleter.gone(queue)
}

// gone removes a queue from the snapshot.
func (s *Deleter) gone(queue string) {
	s.observer.Write(snapshot.Write{
		ID: vhost.QueueID(queue), Apply: func(known *snapshot.Snapshot) bool { return known.DropQueue(queue) },
	})
}

// count changes the maximum number of sentinels in a queue, and returns the new number.
func (d *batch) count(queue string, change int) int { return d.inside.count(queue, change) }

// search returns a search for the sentinels of a fence.
func (d *batch) search(f fence.Fence) *search {
	return &search{
		Deleter: d.deleter, fence: f, cluster: d.cluster, missing: d.count, gone: d.gone, published: d.published,
		settle: d.deleter.Times.Settle,
	}
}

func (d *batch) fenceOf(queue string) fence.Fence {
	return d.fences[slices.IndexFunc(d.fences, func(f fence.Fence) bool { return slices.Contains(f.Queues, queue) })]
}

// ttl returns the shortest time to live of messages in the queues; false if no messages expire.
func (d *batch) ttl(queues ...string) (shortest time.Duration, expires bool) {
	for _, queue := range queues {
		if ttl, set := d.stats[queue].ttl(); set && (!expires || ttl < shortest) {
			shortest, expires = ttl, true
		}
	}
	return shortest, expires
}

// finish sends each caller the result of its group. It requeues groups that could not be deleted only because of other groups.
func (d *batch) finish(err error) {
	var again []*group
	s, several := d.deleter, len(d.groups) > 1
	tooSlow := errors.Is(err, errSlow)
	for _, g := range d.groups {
		tooSlow = tooSlow || errors.Is(g.err, errSlow)
	}
	if len(d.fences) > 0 || tooSlow {
		s.batches.adapt(len(d.stats), tooSlow)
	}
	for _, g := range d.groups {
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
