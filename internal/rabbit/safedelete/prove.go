package safedelete

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// proof shows that queues are empty, by sentinels that only an empty queue takes.
type proof struct{ *batch }

// verdict is what came of an attempt to prove a queue empty.
type verdict struct {
	err error
	// again: it is worth another attempt. Dead letters may be on their way out, a policy on its way in.
	again bool
}

// verdicts are those of the queues of a batch, by their names.
type verdicts map[string]verdict

// proveAll proves the queues empty, all at the same time: they must all be deleted within the budget. The groups of those that
// cannot be proved empty now have the reason as their error.
//
// It shows that a queue is empty, and leaves two sentinels in it that keep it closed. The policy lets the queue take a
// message only while it holds none: messages that are ready, wait to be redelivered or wait to be dead-lettered all count.
// Who publishes on a channel that is new to the queue gets the leader's answer, in the order of its log.
//
//  1. A first sentinel is taken, and a second one, on another channel, is refused: the policy is in effect from here on.
//     Until then it may not be, where somebody else writes policies at the same time.
//  2. The first is taken out again.
//  3. Two sentinels are published in one piece: the first is taken because the queue is empty, and closes it; the second is
//     taken because the channel has not been told yet.
//
// Messages that are delivered and not acknowledged do not count for the policy; who holds them counts as a consumer, and
// that is checked before and after.
//
// Each of the three channels serves all queues of the batch, for what a channel has been told of one queue says nothing of
// another; and each serves a queue once, so that it is new to it.
func (d proof) proveAll(ctx context.Context) error {
	results, pending := verdicts{}, d.queues()
	for attempt := range attempts {
		if attempt > 0 {
			if err := management.Sleep(ctx, d.deleter.errs, d.deleter.Times.Settle/attempts); err != nil {
				return err
			}
		}
		if err := d.proveOnce(ctx, pending, results); err != nil {
			return err
		}
		pending = slices.DeleteFunc(pending, func(queue string) bool { return !results[queue].again })
		if len(pending) == 0 {
			break
		}
	}
	for _, g := range d.groups {
		for _, queue := range g.queues {
			d.doubtIn(ctx, g, results[queue].err)
		}
	}
	switch {
	case d.doubtful():
		return errReleased
	case ctx.Err() != nil:
		return d.deleter.errs.Unreachable(ctx.Err())
	}
	return nil
}

// proveOnce makes one attempt with some queues, on three new channels, and adds to the verdicts.
func (d proof) proveOnce(ctx context.Context, queues []string, results verdicts) error {
	first, err := d.publish(ctx, queues, 1)
	if err != nil {
		return err
	}
	full := slices.DeleteFunc(slices.Clone(queues), func(queue string) bool { return !first[queue].took })
	second, err := d.publish(ctx, full, 2)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	judge := func(queue string, judged verdict) {
		mu.Lock()
		defer mu.Unlock()
		results[queue] = judged
	}
	return d.deleter.sentinels.alone(ctx, d.cluster, Sentinels*len(queues), func(p *publisher) error {
		unproved := forEach(ctx, d.deleter.errs, queues, func(queue string) error {
			judge(queue, d.closeOff(ctx, p, queue, first[queue], second[queue]))
			return nil
		})
		for queue, err := range unproved { // the context ended before
			judge(queue, verdict{err: err})
		}
		return nil
	})
}

// closeOff takes the first sentinel out again, and puts two in, unless what came of the two so far speaks against it.
func (d proof) closeOff(ctx context.Context, p *publisher, queue string, first, second answer) verdict {
	switch {
	case first.err != nil:
		return verdict{err: first.err}
	case !first.took:
		return d.refused(ctx, queue)
	case second.err != nil:
		return verdict{err: second.err}
	}
	switch err := d.withdraw(ctx, queue); {
	case err != nil:
		return verdict{err: err}
	case second.took:
		return verdict{d.unproven("queue %q takes messages in spite of the policy that refuses them", queue), true}
	}
	both, err := d.put(p, queue, 1, 2)
	switch {
	case err != nil:
		return verdict{err: err}
	case !both[0]:
		return d.refused(ctx, queue)
	case !both[1]:
		return verdict{errors.Join(d.unproven("queue %q did not take the messages that guard it", queue), d.withdraw(ctx, queue)), true}
	}
	return verdict{}
}

// refused says why a queue took no sentinel although it seems empty.
func (d proof) refused(ctx context.Context, queue string) verdict {
	now, exists, err := d.deleter.held(ctx, d.cluster, queue)
	if err != nil {
		return verdict{err: err}
	}
	if !exists {
		return verdict{err: d.unproven(deletedElsewhere, queue)}
	}
	if err := now.checkEmpty(d.deleter.errs, queue); err != nil {
		return verdict{err: err}
	}
	wait := "to be dead-lettered"
	if _, delayed := d.stats[queue].Arguments[vhost.ArgDelayedRetryType]; delayed {
		wait = "to be redelivered or dead-lettered"
	}
	text := fmt.Sprintf("%v: queue %q holds messages that wait %s", brokererr.ErrNotEmpty, queue, wait)
	return verdict{d.deleter.errs.Because([]error{brokererr.ErrNotEmpty, brokererr.ErrPending}, text), true}
}

// answer is what a queue made of one sentinel.
type answer struct {
	took bool
	err  error
}

// publish publishes a sentinel to each of some queues, on a channel that is new to them all, and says what they made of it. Its
// error is that of a channel that could not be opened: then nothing was published.
func (d proof) publish(ctx context.Context, queues []string, number int) (map[string]answer, error) {
	answers := make([]answer, len(queues))
	if len(queues) == 0 {
		return nil, nil
	}
	err := d.deleter.sentinels.alone(ctx, d.cluster, len(queues), func(p *publisher) error {
		var all sync.WaitGroup
		for i, queue := range queues {
			all.Go(func() {
				taken, err := d.put(p, queue, number)
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

// put publishes sentinels of these numbers to a queue, and says which were taken.
func (d proof) put(p *publisher, queue string, numbers ...int) (taken []bool, err error) {
	if !d.deleter.HoldsLease() { // the successor may have cleared the fence, the only record of a sentinel
		return nil, d.deleter.errs.Fail(brokererr.ErrNotLeader, "queue %q stays", queue)
	}
	d.count(queue, len(numbers))
	taken, err = p.publish(queue, d.fenceOf(queue).Name, numbers...)
	if err != nil {
		d.deleter.deletions.drift(d.fenceOf(queue).Name)
		return nil, wrapQueue(queue, d.deleter.sentinels.describe(p.link, err))
	}
	for _, took := range taken {
		if !took {
			d.count(queue, -1)
		}
	}
	return taken, nil
}

// withdraw takes the sentinels out of a queue.
func (d proof) withdraw(ctx context.Context, queue string) error {
	now, exists, err := d.search(d.fenceOf(queue)).takeOwn(ctx, queue)
	if err != nil {
		return err
	}
	missing := d.count(queue, 0) > 0
	switch {
	case !exists:
		return d.unproven(deletedElsewhere, queue)
	case missing && now.ready+now.consumers == 0:
		return d.unproven(guardTaken, queue)
	}
	return now.checkEmpty(d.deleter.errs, queue)
}

// settle waits until publishers whose messages were on their way know of the fence.
func (d proof) settle(ctx context.Context) error {
	wait := d.deleter.Times.Settle
	if ttl, expires := d.ttl(d.queues()...); expires {
		wait = min(wait, ttl/8)
	}
	return management.Sleep(ctx, d.deleter.errs, wait)
}
