package safedelete

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/vhost"
)

// proof proves queues empty: behind a fence, a queue accepts a sentinel only if the queue is empty.
type proof struct{ *batch }

// verdict is the result of an attempt to prove a queue empty.
type verdict struct {
	err error
	// again: another attempt may succeed. Dead letters may be about to leave the queue, or a policy about to take effect.
	again bool
	// refilled: the queue was drained, and received a message before the sentinel. Another attempt may succeed immediately.
	refilled bool
}

// verdicts are the verdicts on the queues of a batch, by name.
type verdicts map[string]verdict

// proveAll proves all queues empty at the same time, because all must be deleted within the budget. If a queue cannot be proven
// empty, its group gets the reason as its error.
//
// The proof leaves two sentinels in each queue, which keep the queue closed. The policy lets a queue take a message only while it holds
// none. Messages that are ready, wait to be redelivered or wait to be dead-lettered all count. A publisher on a channel that is new to the
// queue gets the answer of the leader, in the order of the leader's log.
//
//  1. The queue takes a first sentinel, and refuses a second one on another channel: the policy is in effect from here on.
//     Until then it may not be, because other clients may write policies at the same time.
//  2. The first sentinel is taken out again.
//  3. Two sentinels are published in one write. The queue takes the first because it is empty, and is then closed. It takes the second
//     because the channel does not know yet that the queue is closed.
//
// Messages that are delivered and not acknowledged do not count for the policy. But their holder counts as a consumer, and Warren checks
// the consumers before and after the proof.
//
// Each of the three channels serves all queues of the batch, because the state of one queue on a channel does not affect another
// queue. Each channel serves a queue once, so that it is new to the queue.
func (p proof) proveAll(ctx context.Context) error {
	results, pending := verdicts{}, p.queues()
	for attempt := 0; attempt < attempts && len(pending) > 0 && !p.anyFailed(); attempt++ {
		if attempt > 0 {
			if err := retry.Sleep(ctx, p.deleter.errs, p.deleter.Timeouts.Settle/attempts); err != nil {
				return err
			}
		}
		if err := p.proveDrained(ctx, pending, results); err != nil {
			return err
		}
		pending = slices.DeleteFunc(pending, func(queue string) bool { return !results[queue].again })
	}
	for _, g := range p.groups {
		for _, queue := range g.queues {
			p.failUnlessEnded(ctx, g, results[queue].err)
		}
	}
	switch {
	case p.anyFailed():
		return errReleased
	case ctx.Err() != nil:
		return p.deleter.errs.Unreachable(ctx.Err())
	}
	return nil
}

// proveDrained drains queues that can be drained, and makes one attempt for all queues. It repeats both steps for queues that received a
// message in between.
func (p proof) proveDrained(ctx context.Context, queues []string, results verdicts) error {
	for range maxDrains {
		if p.drain(ctx, queues); p.anyFailed() {
			return nil
		}
		if ended := ctx.Err(); ended != nil {
			return p.deleter.errs.Unreachable(ended)
		}
		if err := p.proveOnce(ctx, queues, results); err != nil {
			return err
		}
		queues = slices.DeleteFunc(slices.Clone(queues), func(queue string) bool { return !results[queue].refilled })
		if len(queues) == 0 {
			return nil
		}
	}
	return nil
}

// proveOnce makes one attempt for some queues, on three new channels, and adds the verdicts.
func (p proof) proveOnce(ctx context.Context, queues []string, results verdicts) error {
	first, err := p.publish(ctx, queues, 1)
	if err != nil {
		return err
	}
	full := slices.DeleteFunc(slices.Clone(queues), func(queue string) bool { return !first[queue].took })
	second, err := p.publish(ctx, full, 2)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	judge := func(queue string, judged verdict) {
		mu.Lock()
		defer mu.Unlock()
		results[queue] = judged
	}
	return p.deleter.sentinels.alone(ctx, p.cluster, Sentinels*len(queues), func(sender *publisher) error {
		unproven := forEach(ctx, p.deleter.errs, queues, func(queue string) error {
			judge(queue, p.closeOff(ctx, sender, queue, first[queue], second[queue]))
			return nil
		})
		for queue, err := range unproven { // forEach did not run closeOff, because the context had ended
			judge(queue, verdict{err: err})
		}
		return nil
	})
}

// closeOff takes the first sentinel out again and publishes two, if the answers to the first two sentinels show that the policy is
// in effect.
func (p proof) closeOff(ctx context.Context, sender *publisher, queue string, first, second answer) verdict {
	switch {
	case first.err != nil:
		return verdict{err: first.err}
	case !first.took:
		return p.refused(ctx, queue)
	case second.err != nil:
		return verdict{err: second.err}
	}
	switch err := p.withdraw(ctx, queue); {
	case err != nil:
		return verdict{err: err, refilled: p.drains(queue) && errors.Is(err, brokererr.ErrNotEmpty)}
	case second.took:
		return verdict{err: p.unproven("queue %q accepts messages despite the policy that refuses them", queue), again: true}
	}
	both, err := p.put(sender, queue, 1, 2)
	switch {
	case err != nil:
		return verdict{err: err}
	case !both[0]:
		return p.refused(ctx, queue)
	case !both[1]:
		err := errors.Join(p.unproven("queue %q did not accept Warren's sentinels", queue), p.withdraw(ctx, queue))
		return verdict{err: err, again: true}
	}
	return verdict{}
}

// refused returns the reason why a queue refused a sentinel although it seems empty.
func (p proof) refused(ctx context.Context, queue string) verdict {
	now, exists, err := p.deleter.held(ctx, p.cluster, queue)
	if err != nil {
		return verdict{err: err}
	}
	if !exists {
		return verdict{err: p.unproven(deletedElsewhere, queue)}
	}
	if err := checkCounts(p.deleter.errs, queue, now); err != nil {
		return verdict{err: err, refilled: p.drains(queue)}
	}
	wait := "to be dead-lettered"
	if _, delayed := p.stats[queue].Arguments[vhost.ArgDelayedRetryType]; delayed {
		wait = "to be redelivered or dead-lettered"
	}
	text := fmt.Sprintf("%v: queue %q holds messages that wait %s", brokererr.ErrNotEmpty, queue, wait)
	return verdict{err: p.deleter.errs.Because([]error{brokererr.ErrNotEmpty, brokererr.ErrPending}, text), again: true}
}

// answer is the answer of a queue to one sentinel.
type answer struct {
	took bool
	err  error
}

// publish publishes a sentinel to each queue, on a channel that is new to all of them, and returns their answers. Its error means
// that the channel could not be opened and nothing was published.
func (p proof) publish(ctx context.Context, queues []string, number int) (map[string]answer, error) {
	answers := make([]answer, len(queues))
	if len(queues) == 0 {
		return nil, nil
	}
	err := p.deleter.sentinels.alone(ctx, p.cluster, len(queues), func(sender *publisher) error {
		var all sync.WaitGroup
		for i, queue := range queues {
			all.Go(func() {
				taken, err := p.put(sender, queue, number)
				answers[i] = answer{err == nil && taken[0], err}
			})
		}
		all.Wait()
		return nil
	})
	if err != nil {
		return nil, err
	}
	byQueue := map[string]answer{}
	for i, queue := range queues {
		byQueue[queue] = answers[i]
	}
	return byQueue, nil
}

// put publishes the sentinels of these numbers to a queue, and reports which of them the queue took.
func (p proof) put(sender *publisher, queue string, numbers ...int) (taken []bool, err error) {
	if !p.deleter.HoldsLease() { // the next leader may have cleared the fence, which is the only record of a sentinel
		return nil, p.deleter.errs.Fail(brokererr.ErrNotLeader, "queue %q is retained", queue)
	}
	p.count(queue, len(numbers))
	taken, err = sender.publish(queue, p.fenceOf(queue).Name, numbers...)
	if err != nil {
		p.deleter.deletions.recordUnanswered(p.fenceOf(queue).Name)
		return nil, wrapQueue(queue, p.deleter.sentinels.describe(sender.link, err))
	}
	for _, took := range taken {
		if !took {
			p.count(queue, -1)
		}
	}
	return taken, nil
}

// withdraw takes the sentinels out of a queue, and fails if the queue is not empty then.
func (p proof) withdraw(ctx context.Context, queue string) error {
	now, exists, err := p.search(p.fenceOf(queue)).takeOwn(ctx, queue)
	if err != nil {
		return err
	}
	missing := p.count(queue, 0) > 0
	switch {
	case !exists:
		return p.unproven(deletedElsewhere, queue)
	case missing && now.Messages+now.Consumers == 0:
		return p.unproven(guardTaken, queue)
	}
	return checkCounts(p.deleter.errs, queue, now)
}

// settle waits until the fence is known to publishers whose messages were in flight.
func (p proof) settle(ctx context.Context) error {
	wait := p.deleter.Timeouts.Settle
	if ttl, expires := p.ttl(p.queues()...); expires {
		wait = min(wait, ttl/8)
	}
	return retry.Sleep(ctx, p.deleter.errs, wait)
}
