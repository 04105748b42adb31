package safedelete

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// proof shows that queues are empty, by sentinels that only an empty queue takes.
type proof struct{ *deletion }

// proveAll proves the queues empty, some at a time: they must all be deleted within the budget.
func (d proof) proveAll(ctx context.Context) error {
	results := make([]error, len(d.queues))
	places := management.NewPlaces(proofsAtOnce)
	var all sync.WaitGroup
	for i, queue := range d.queues {
		all.Go(func() {
			results[i] = places.Hold(ctx, d.deleter.errs, func() error {
				if err := restoration(d).remember(ctx, queue); err != nil {
					return err
				}
				return d.prove(ctx, queue)
			})
		})
	}
	all.Wait()
	for _, err := range results {
		if err != nil {
			return err
		}
	}
	return nil
}

// prove shows that a queue is empty, and leaves two sentinels in it that keep it closed. The policy lets the queue take a
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
func (d proof) prove(ctx context.Context, queue string) (err error) {
	for range attempts {
		again := false
		if again, err = d.proveOnce(ctx, queue); !again {
			return err
		}
		if err := management.Sleep(ctx, d.deleter.errs, d.deleter.Times.Settle/attempts); err != nil {
			return err
		}
	}
	return err
}

// proveOnce says whether it is worth another attempt: dead letters may be on their way out, a policy on its way in.
func (d proof) proveOnce(ctx context.Context, queue string) (again bool, err error) {
	first, err := d.publish(ctx, queue, 1)
	if err != nil {
		return false, err
	}
	if !first[0] {
		return d.refused(ctx, queue)
	}
	second, err := d.publish(ctx, queue, 2)
	if err != nil {
		return false, err
	}
	if err := d.withdraw(ctx, queue); err != nil {
		return false, err
	}
	if second[0] {
		return true, d.unproven("queue %q takes messages in spite of the policy that refuses them", queue)
	}
	both, err := d.publish(ctx, queue, 1, 2)
	switch {
	case err != nil:
		return false, err
	case !both[0]:
		return d.refused(ctx, queue)
	case !both[1]:
		return true, errors.Join(d.unproven("queue %q did not take the messages that guard it", queue), d.withdraw(ctx, queue))
	}
	return false, nil
}

// refused says why a queue took no sentinel although it seems empty.
func (d proof) refused(ctx context.Context, queue string) (again bool, err error) {
	now, exists, err := d.deleter.held(ctx, d.cluster, queue)
	if err != nil {
		return false, err
	}
	if !exists {
		return false, d.unproven(deletedElsewhere, queue)
	}
	if err := now.checkEmpty(d.deleter.errs, queue); err != nil {
		return false, err
	}
	wait := "to be dead-lettered"
	if _, delayed := d.stats[queue].Arguments[vhost.ArgDelayedRetryType]; delayed {
		wait = "to be redelivered or dead-lettered"
	}
	text := fmt.Sprintf("%v: queue %q holds messages that wait %s", brokererr.ErrNotEmpty, queue, wait)
	return true, d.deleter.errs.Because([]error{brokererr.ErrNotEmpty, brokererr.ErrPending}, text)
}

// publish publishes sentinels of these numbers to a queue, on a channel of their own, and says which were taken.
func (d proof) publish(ctx context.Context, queue string, numbers ...int) (taken []bool, err error) {
	d.count(queue, len(numbers))
	err = d.deleter.sentinels.alone(ctx, d.cluster, func(l *amqpconn.Conn, channel *amqp.Channel) (err error) {
		taken, err = publishSentinels(l, channel, queue, d.fenceOf(queue).Name, numbers...)
		return err
	})
	if err != nil {
		d.deleter.deletions.drift(d.fenceOf(queue).Name)
		return nil, wrapQueue(queue, err)
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
	name := d.fenceOf(queue).Name
	taken, _, err := sentinelAcks{d.deleter}.ackSentinels(ctx, queue, ackOptions{
		cluster: d.cluster, max: d.count(queue, 0), match: func(fence string) bool { return fence == name },
	})
	if err != nil {
		return err
	}
	missing := d.count(queue, -taken) > 0
	now, exists, err := d.deleter.held(ctx, d.cluster, queue)
	switch {
	case err != nil:
		return err
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
	if ttl, expires := d.ttl(); expires {
		wait = min(wait, ttl/8)
	}
	return management.Sleep(ctx, d.deleter.errs, wait)
}
