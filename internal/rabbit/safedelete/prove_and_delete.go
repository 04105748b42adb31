package safedelete

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// proveAll proves the queues empty, some at a time: they must all be deleted within the budget.
func (d *deletion) proveAll(ctx context.Context) error {
	results := make([]error, len(d.queues))
	places := management.NewPlaces(proofsAtOnce)
	var all sync.WaitGroup
	for i, queue := range d.queues {
		all.Go(func() {
			results[i] = places.Hold(ctx, d.deleter.errs, func() error {
				if err := d.remember(ctx, queue); err != nil {
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
// that is looked at before and after.
func (d *deletion) prove(ctx context.Context, queue string) (err error) {
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
func (d *deletion) proveOnce(ctx context.Context, queue string) (again bool, err error) {
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
func (d *deletion) refused(ctx context.Context, queue string) (again bool, err error) {
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
func (d *deletion) publish(ctx context.Context, queue string, numbers ...int) (taken []bool, err error) {
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

// count changes how many sentinels there can be in a queue, and returns the number.
func (d *deletion) count(queue string, change int) int {
	d.proving.Lock()
	defer d.proving.Unlock()
	d.inside[queue] += change
	return d.inside[queue]
}

// withdraw takes the sentinels out of a queue.
func (d *deletion) withdraw(ctx context.Context, queue string) error {
	name := d.fenceOf(queue).Name
	taken, _, err := d.deleter.ackSentinels(ctx, queue, ackOptions{
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
	case missing && now.ready+now.Consumers == 0:
		return d.unproven(guardTaken, queue)
	}
	return now.checkEmpty(d.deleter.errs, queue)
}

func (d *deletion) fenceOf(queue string) fence.Fence {
	return d.fences[slices.IndexFunc(d.fences, func(f fence.Fence) bool { return slices.Contains(f.Queues, queue) })]
}

// settle waits until publishers whose messages were on their way know of the fence.
func (d *deletion) settle(ctx context.Context) error {
	wait := d.deleter.Times.Settle
	if ttl, expires := d.ttl(); expires {
		wait = min(wait, ttl/8)
	}
	return management.Sleep(ctx, d.deleter.errs, wait)
}

// ttl is the shortest of the queues' times to live; false if nothing expires.
func (d *deletion) ttl() (shortest time.Duration, expires bool) {
	for _, queue := range d.queues {
		if limit, set := d.stats[queue].lowest(vhost.KeyMessageTTL); set {
			ttl := time.Duration(limit) * time.Millisecond
			if !expires || ttl < shortest {
				shortest, expires = ttl, true
			}
		}
	}
	return shortest, expires
}

// delete looks once more and deletes.
func (d *deletion) delete(ctx context.Context) error {
	for _, queue := range d.queues {
		now, exists, err := d.deleter.held(ctx, d.cluster, queue)
		if err == nil {
			err = d.guarded(queue, now, exists)
		}
		if err != nil {
			return err
		}
	}
	for _, queue := range slices.Clone(d.queues) {
		err := d.deleter.broker.DoExclusively(ctx, d.cluster, func(channel *amqp.Channel) error { return d.deleteOne(ctx, channel, queue) })
		if err != nil {
			return wrapQueue(queue, err)
		}
		d.gone(queue)
		if err := d.step(StepOne); err != nil {
			return err
		}
	}
	return nil
}

func (d *deletion) gone(queue string) {
	d.queues = slices.DeleteFunc(slices.Clone(d.queues), func(other string) bool { return other == queue })
	d.deleter.broker.Write(snapshot.Write{
		ID: vhost.QueueID(queue), Apply: func(s *snapshot.Snapshot) bool { return s.DropQueue(queue) },
	})
}

// guarded says why a queue holds something else than its sentinels; nil if not.
func (d *deletion) guarded(queue string, now counts, exists bool) error {
	switch {
	case !exists:
		return d.unproven(deletedElsewhere, queue)
	case now.Consumers > 0:
		return now.beyond(0).checkEmpty(d.deleter.errs, queue)
	case now.ready > d.inside[queue]:
		return now.beyond(d.inside[queue]).checkEmpty(d.deleter.errs, queue)
	case now.ready < d.inside[queue]:
		return d.unproven(guardTaken, queue)
	}
	return nil
}

const (
	guardTaken       = "queue %q: somebody took a message that guards it"
	deletedElsewhere = "queue %q was deleted by somebody else"
)

// beyond leaves out messages of our own.
func (h counts) beyond(own int) counts {
	return counts{ready: max(h.ready-own, 0), Consumers: h.Consumers}
}

// deleteOne goes step by step on one channel, so that nothing comes in between but what the broker does itself.
func (d *deletion) deleteOne(ctx context.Context, channel *amqp.Channel, queue string) error {
	now, exists, err := PassiveDeclare(channel, queue)
	if err == nil {
		err = d.guarded(queue, now, exists)
	}
	if err != nil {
		return err
	}
	if err := d.takeFirst(ctx, channel, queue); err != nil {
		return err
	}
	ttl, expires := d.ttl()
	if expires && time.Since(d.published) > ttl/2 {
		return d.slow("queue %q: it took %v; the messages that guard it expire after %v",
			queue, time.Since(d.published).Round(time.Millisecond), ttl)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if took := time.Since(d.published); took > budget { // the process may have been stopped, and the timer be late
		return d.slow("queue %q: it took %v, longer than %v", queue, took.Round(time.Millisecond), budget)
	}
	if err := d.lastLook(channel, queue); err != nil {
		return err
	}
	d.sent(queue)
	with, err := channel.QueueDelete(queue, false, false, false)
	if err == nil && with >= d.inside[queue] {
		d.deleter.Log.Error(nil, "A queue was deleted with messages", "queue", queue, "messages", with)
	}
	return err
}

// lastLook makes sure that nobody came while the first sentinel was taken out: the others are ready, and its holder is the
// only consumer. From here to the deletion it must not take long.
func (d *deletion) lastLook(channel *amqp.Channel, queue string) error {
	for range attempts {
		begun := time.Now()
		now, exists, err := PassiveDeclare(channel, queue)
		switch rest := d.inside[queue] - 1; {
		case err != nil:
			return err
		case !exists:
			return d.unproven(deletedElsewhere, queue)
		case now.ready > rest || now.Consumers > 1:
			return counts{ready: now.ready - rest, Consumers: now.Consumers - 1}.checkEmpty(d.deleter.errs, queue)
		case now.ready < rest || now.Consumers < 1:
			return d.unproven(guardTaken, queue)
		}
		if time.Since(begun) < promptness {
			return nil
		}
	}
	return d.slow("queue %q: the broker does not answer within %v", queue, promptness)
}

// takeFirst takes out the first sentinel, to see that nobody ever had it: then nobody had the second, which still
// stands, and the queue has been closed since.
func (d *deletion) takeFirst(ctx context.Context, channel *amqp.Channel, queue string) error {
	message, ok, rest := amqp.Delivery{}, false, d.inside[queue]-1
	if d.singleActive(queue) {
		messages, err := consumeSlowly(channel, queue)
		if err != nil {
			return err
		}
		message, ok = next(ctx, messages, time.After(consumerPatience))
	} else {
		var err error
		message, ok, err = channel.Get(queue, false)
		if err != nil {
			return err
		}
		rest = int(message.MessageCount)
	}
	name := d.fenceOf(queue).Name
	own := ok && isSentinel(message, func(fence string) bool { return fence == name })
	switch {
	case own && numberOf(message) == 1 && !message.Redelivered && rest == d.inside[queue]-1:
		return nil
	case own: // the end of the channel puts it back
		return d.unproven("queue %q: somebody took a message that guards it, or more came in", queue)
	case ok && d.singleActive(queue):
		return errors.Join(counts{ready: 1}.checkEmpty(d.deleter.errs, queue), channel.Cancel(consumerTag, false), putBack(message))
	case ok:
		return errors.Join(counts{ready: 1}.checkEmpty(d.deleter.errs, queue), putBack(message))
	}
	return d.unproven(guardTaken, queue)
}

func (d *deletion) singleActive(queue string) bool {
	value, _ := d.stats[queue].Arguments[vhost.ArgSingleActiveConsumer].(bool)
	return value
}
