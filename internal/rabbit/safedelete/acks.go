package safedelete

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// sentinelAcks takes sentinels out of queues again.
type sentinelAcks struct{ *Deleter }

// ackAllSentinels takes the sentinels of a fence out of its queues, and then, for those queues in which there are none and from
// which they can have expired, out of those where they went. what says what there can be in a queue; gone is told of a
// queue that does not exist. age is how long ago the sentinels were put in. Where that fails it returns the queues that it failed
// with, as far as the others are surely without sentinels.
func (s sentinelAcks) ackAllSentinels(
	ctx context.Context, f fence.Fence, age time.Duration, what func(queue string) ackOptions, gone func(queue string),
) (left []string, err error) {
	var mu sync.Mutex
	without := map[string]bool{}
	failed := forEach(ctx, s.errs, f.Queues, func(queue string) error {
		taken, exists, err := s.ackSentinels(ctx, queue, what(queue))
		if err != nil {
			return err
		}
		if !exists {
			gone(queue)
		}
		mu.Lock()
		defer mu.Unlock()
		without[queue] = exists && taken == 0
		return nil
	})
	for _, queue := range f.Queues {
		if !without[queue] {
			continue
		}
		found, err := s.ackExpiredSentinels(ctx, queue, f.Effective, what(queue))
		if err == nil && !found {
			err = s.checkNoneArriving(ctx, queue, f.Effective, age)
		}
		if err != nil {
			failed[queue] = err
		}
	}
	if s.deletions.mayArrive(f.Name) {
		return f.Queues, s.errs.Fail(brokererr.ErrUnproven, "a message that guards the queues of policy %q may still arrive", f.Name)
	}
	return slices.Sorted(maps.Keys(failed)), firstOf(f.Queues, failed)
}

// checkNoneArriving says that a sentinel may have expired and may not have arrived yet: what expires towards a queue that is fenced
// is tried again minutes later. Until then the fence stays, in a form that changes nothing, as the record of it.
func (s sentinelAcks) checkNoneArriving(ctx context.Context, queue string, policy vhost.Arguments, age time.Duration) error {
	var arguments vhost.Arguments
	s.broker.View(func(known *snapshot.Snapshot) { arguments = known.Queues[queue].Arguments })
	now := &queueStats{QueueInfo: management.QueueInfo{Arguments: arguments}, user: policy}
	limit, expires := now.lowest("message-ttl")
	ttl := time.Duration(limit) * time.Millisecond
	if !expires || age < ttl || age > ttl+maxArrival {
		return nil
	}
	if age > ttl+budget+statsLag {
		now, err := s.queueInfo(ctx, queue, management.WithStatistics)
		if err != nil || now == nil || now.DeadLetters != nil && *now.DeadLetters == 0 {
			return err
		}
	}
	return s.errs.Fail(brokererr.ErrUnproven, "a message that guarded queue %q may still be on its way", queue)
}

// ackExpiredSentinels takes the sentinels out of the queues to which they may have expired, and says whether there were any.
func (s sentinelAcks) ackExpiredSentinels(
	ctx context.Context, queue string, policy vhost.Arguments, what ackOptions,
) (found bool, err error) {
	what.maxReady, what.held = fewMessages, false
	var onward []string
	s.broker.View(func(known *snapshot.Snapshot) { onward = known.ExpiresTo(queue, policy) })
	for _, other := range onward {
		taken, _, err := s.ackSentinels(ctx, other, what)
		if err != nil {
			return found, err
		}
		found = found || taken > 0
	}
	return found, nil
}

// ackSentinels takes sentinels out of a queue. It returns their number, and whether the queue exists. RabbitMQ shows a
// message only to its consumer, so ackSentinels holds the messages in front of the sentinels, and puts them back. It skips a queue
// without ready messages, and one with consumers: RabbitMQ delivered the sentinels to these long ago. But see ackOptions.held.
func (s sentinelAcks) ackSentinels(ctx context.Context, queue string, what ackOptions) (taken int, exists bool, err error) {
	worth, exists, err := s.mayHoldSentinels(ctx, queue, what)
	if err != nil || !worth {
		return 0, exists, err
	}
	err = s.broker.DoToTheEnd(ctx, what.cluster, func(channel *amqp.Channel) (err error) {
		var held []amqp.Delivery
		if taken, held, err = s.ackFrom(channel, queue, what); err != nil {
			return err
		}
		_, _, err = s.putAllBack(ctx, channel, queue, held)
		return err
	})
	if errors.Is(err, brokererr.ErrResourceLocked) { // a single active consumer; see ackAsConsumer
		taken, err = s.ackAsConsumer(ctx, queue, what)
	}
	return taken, true, wrapQueue(queue, err)
}

// ackOwn is ackSentinels for a queue to which this process has just published them; it also returns what is in the queue then.
func (s sentinelAcks) ackOwn(ctx context.Context, queue string, what ackOptions) (taken int, now counts, exists bool, err error) {
	err = s.broker.DoToTheEnd(ctx, what.cluster, func(channel *amqp.Channel) (err error) {
		var held []amqp.Delivery
		taken, held, err = s.ackFrom(channel, queue, what)
		switch {
		case err != nil:
		case taken+len(held) > 0:
			now, exists, err = s.putAllBack(ctx, channel, queue, held)
		default: // somebody else has them
			now, exists, err = passiveDeclare(channel, queue)
		}
		return err
	})
	if errors.Is(err, brokererr.ErrResourceLocked) { // a single active consumer; see ackAsConsumer
		if taken, err = s.ackAsConsumer(ctx, queue, what); err == nil {
			now, exists, err = s.held(ctx, what.cluster, queue)
		}
	}
	return taken, now, exists, wrapQueue(queue, err)
}

// ackFrom gets messages and acknowledges the sentinels among them. The others it holds.
func (s sentinelAcks) ackFrom(channel *amqp.Channel, queue string, what ackOptions) (taken int, held []amqp.Delivery, err error) {
	most := holdLimit
	if s.countsDeliveries(queue) {
		most = 1
	}
	for taken < what.max && len(held) < most {
		message, ok, err := get(channel, queue)
		switch {
		case err != nil:
			return taken, held, err
		case !ok:
			return taken, held, nil
		case !isSentinel(message, what.match):
			held = append(held, message)
			continue
		}
		if err := message.Ack(false); err != nil {
			return taken, held, err
		}
		taken++
	}
	return taken, held, nil
}

// mayHoldSentinels says whether there can be sentinels to take out of a queue, and whether there is such a queue.
func (s sentinelAcks) mayHoldSentinels(ctx context.Context, queue string, what ackOptions) (worth, exists bool, err error) {
	now, exists, err := s.held(ctx, what.cluster, queue)
	for begun := time.Now(); err == nil && now.consumers > 0 && time.Since(begun) < what.patience; {
		if err = management.Sleep(ctx, s.errs, settlePause); err == nil {
			now, exists, err = s.held(ctx, what.cluster, queue)
		}
	}
	if err == nil && now.consumers > 0 && what.held {
		err = s.errs.Fail(brokererr.ErrUnproven, "a message that guarded queue %q may still be held by a process that is gone", queue)
	}
	few := what.maxReady == 0 || now.ready <= what.maxReady
	return exists && now.ready > 0 && now.consumers == 0 && few, exists, err
}

// countsDeliveries says whether a message that is put back has lost one of the deliveries that its queue allows.
func (s sentinelAcks) countsDeliveries(queue string) bool {
	limited := false
	s.broker.View(func(known *snapshot.Snapshot) {
		limit, given := known.Queues[queue].Arguments[vhost.ArgDeliveryLimit].(int64)
		limited = given && limit >= 0
	})
	return limited && s.broker.State().CountsReturns
}

// putAllBack returns what was held, and waits until the queue knows of that and of every acknowledgement before: what is
// sent right before a channel is closed can be forgotten. It says what is in the queue then.
func (s sentinelAcks) putAllBack(
	ctx context.Context, channel *amqp.Channel, queue string, held []amqp.Delivery,
) (now counts, exists bool, err error) {
	for _, message := range held {
		if err := putBack(message); err != nil {
			return now, false, err
		}
	}
	for begun := time.Now(); time.Since(begun) < settling; {
		now, exists, err := passiveDeclare(channel, queue)
		if err != nil || !exists || now.consumers == 0 { // whoever holds a message counts as a consumer
			return now, exists, err
		}
		if err := management.Sleep(ctx, s.errs, settlePause); err != nil {
			return now, exists, err
		}
	}
	return now, exists, s.errs.Fail(brokererr.ErrUnproven,
		"queue %q: somebody holds messages of it, or the broker is slow to note that nobody does", queue)
}

// ackAsConsumer does what ackFrom does, for queues with a single active consumer, which refuse basic.get. It receives nothing
// while another consumer is active.
func (s sentinelAcks) ackAsConsumer(ctx context.Context, queue string, what ackOptions) (int, error) {
	taken := 0
	err := s.broker.DoExclusively(ctx, what.cluster, func(channel *amqp.Channel) error {
		messages, err := consumeSlowly(channel, queue)
		if err != nil {
			return err
		}
		for patience := time.After(consumerPatience); ; {
			message, ok := next(ctx, messages, patience)
			if !ok {
				return stopConsuming(channel, messages)
			}
			if !isSentinel(message, what.match) { // not before no other can come, or it would be the same one again
				return errors.Join(stopConsuming(channel, messages), putBack(message))
			}
			taken++
			if taken == what.max {
				err := errors.Join(stopConsuming(channel, messages), message.Ack(false))
				_, _, settled := s.putAllBack(ctx, channel, queue, nil)
				return errors.Join(err, settled)
			}
			if err := message.Ack(false); err != nil {
				return err
			}
		}
	})
	return taken, err
}
