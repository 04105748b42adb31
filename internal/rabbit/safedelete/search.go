package safedelete

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// search takes the sentinels of one fence out of its queues, and out of the queues to which they may have expired. RabbitMQ shows a
// message only to its consumer, so a search receives the messages in front of the sentinels, and returns them.
type search struct {
	*Deleter

	fence   fence.Fence
	cluster string
	// missing changes the number of sentinels of a queue that are not found yet, and returns it.
	missing func(queue string, change int) int
	// gone is called for a queue that does not exist.
	gone func(queue string)
	// published is a time before the first sentinel was published; zero if none is known.
	published time.Time
	// mayBeHeld: the process that published the sentinels may still hold some, because the broker may not have detected that the
	// process is gone.
	mayBeHeld bool
	// settle is how long RabbitMQ may take to detect that channels of this process are closed and no longer hold a sentinel.
	settle time.Duration
}

// run takes the sentinels out. It returns the queues that may still hold a sentinel, and why.
func (s *search) run(ctx context.Context) (left []string, err error) {
	var mu sync.Mutex
	found := map[string]bool{}
	takeFromQueue := func(queue string) error {
		exists, err := s.takeAll(ctx, queue, s.origins(queue), s.mayBeHeld)
		switch {
		case err != nil:
			return err
		case !exists:
			s.gone(queue)
		}
		mu.Lock()
		defer mu.Unlock()
		found[queue] = exists
		return nil
	}
	expiring, others := s.byExpiry()
	failed := forEach(ctx, s.errs, expiring, takeFromQueue) // first, because a sentinel that is found here cannot be in another queue
	maps.Copy(failed, forEach(ctx, s.errs, others, takeFromQueue))
	missing := slices.DeleteFunc(expiring, func(queue string) bool { return !found[queue] || s.missing(queue, 0) == 0 })
	expired := slices.DeleteFunc(slices.Clone(missing), func(queue string) bool { return !s.mayHaveExpired(queue) })
	arriving := s.arriving(ctx, expired) // before the search, which would miss a sentinel that arrives in between
	mayExpire := len(expired) < len(missing)
	if len(failed)+len(arriving) == 0 && !mayExpire && !s.deletions.mayArrive(s.fence.Name) {
		s.deletions.recordArrived(s.fence.Name)
	}
	for _, queue := range expired {
		if err := s.follow(ctx, queue, arriving[queue]); err != nil {
			failed[queue] = err
		}
	}
	if s.deletions.mayArrive(s.fence.Name) {
		return s.fence.Queues, s.errs.Fail(brokererr.ErrUnproven, "a sentinel of policy %q may still arrive", s.fence.Name)
	}
	return slices.Sorted(maps.Keys(failed)), firstOf(s.fence.Queues, failed)
}

// byExpiry separates the queues of the fence in which messages expire from the others.
func (s *search) byExpiry() (expiring, others []string) {
	for _, queue := range s.fence.Queues {
		if _, expires := s.ttl(queue); expires {
			expiring = append(expiring, queue)
		} else {
			others = append(others, queue)
		}
	}
	return expiring, others
}

func (s *search) ttl(queue string) (time.Duration, bool) {
	now := &queueStats{user: s.fence.Effective}
	s.observer.View(func(known *snapshot.Snapshot) {
		operator, _ := holdingPolicy(queue, known.Policies, true)
		now.Arguments, now.operator = known.Queues[queue].Arguments, operator.Definition
	})
	return now.ttl()
}

// onward returns the queues to which RabbitMQ may dead-letter a sentinel that expires in a queue.
func (s *search) onward(queue string) (onward []string) {
	s.observer.View(func(known *snapshot.Snapshot) { onward = known.ExpiresTo(queue, s.fence.Effective) })
	return onward
}

// origins returns the queues whose sentinels may be in a queue: the queue itself, and the queues of the fence that expire to it.
func (s *search) origins(queue string) []string {
	origins := []string{queue}
	for _, other := range s.fence.Queues {
		if other != queue && slices.Contains(s.onward(other), queue) {
			origins = append(origins, other)
		}
	}
	return origins
}

// mayHaveExpired reports whether the sentinels of a queue are old enough to have expired.
func (s *search) mayHaveExpired(queue string) bool {
	ttl, _ := s.ttl(queue)
	return s.published.IsZero() || time.Since(s.published) >= ttl
}

// arriving returns why an expired sentinel may not have arrived yet, by the queue that it expired from.
func (s *search) arriving(ctx context.Context, expired []string) map[string]error {
	arriving := map[string]error{}
	for _, queue := range expired {
		if err := s.checkNoneArriving(ctx, queue); err != nil {
			arriving[queue] = err
		}
	}
	return arriving
}

// follow looks for sentinels that may have expired from a queue that holds none any more. It returns arriving if it does not find all.
func (s *search) follow(ctx context.Context, queue string, arriving error) error {
	for _, other := range s.onward(queue) {
		if _, err := s.takeAll(ctx, other, []string{queue}, false); err != nil {
			return err
		}
	}
	if s.missing(queue, 0) == 0 {
		return nil
	}
	return arriving
}

// checkNoneArriving fails if an expired sentinel may not have arrived yet. If a fenced queue refuses an expired message, RabbitMQ retries
// only minutes later. The time counts from when this process first saw the queue without sentinels.
func (s *search) checkNoneArriving(ctx context.Context, queue string) error {
	waited := time.Since(s.deletions.missingSince(s.fence.Name, queue))
	if waited >= maxArrival {
		return nil
	}
	again := statsLag - waited
	if again <= 0 {
		now, err := s.queueInfo(ctx, queue, management.WithStatistics)
		if err != nil || now == nil || now.DeadLetters != nil && *now.DeadLetters == 0 {
			return err
		}
		again = statsLag
	}
	s.deletions.refreshIn(again, s.observer.RequestRefresh)
	return s.errs.Fail(brokererr.ErrUnproven, "a sentinel that expired in queue %q may not have reached its next queue yet", queue)
}

// takeAll takes the sentinels of the given origins out of a queue, and reports whether the queue exists. It fails if the queue may still
// hold one. It ignores sentinels that RabbitMQ has delivered to a consumer. takeAll also searches a queue that seems empty. A queue that is
// too busy to count reports no messages and no consumers, because rabbit_quorum_queue:stat stops after a quarter of a second.
func (s *search) takeAll(ctx context.Context, queue string, origins []string, mayBeHeld bool) (exists bool, err error) {
	if s.countMissing(origins) == 0 {
		return true, nil
	}
	now, exists, err := s.awaitNoConsumers(ctx, queue)
	limit := s.maxHeld(queue)
	switch {
	case err != nil || !exists:
		return exists, err
	case now.Consumers > 0 && mayBeHeld:
		return true, s.errs.Fail(brokererr.ErrUnproven, "a process that is gone may still hold a sentinel of queue %q", queue)
	case now.Consumers > 0 && now.Messages == 0, s.losesDeliveries(queue) && s.deletions.isSearched(s.fence.Name, queue):
		return true, nil
	case now.Consumers == 0 && (now.Messages <= limit || !s.deletions.hasBrowsed(s.fence.Name, queue)):
		complete, err := s.take(ctx, queue, origins, limit)
		if complete && now.Messages > 0 { // otherwise the queue may have been too busy to count
			s.deletions.recordSearch(s.fence.Name, queue)
		}
		if err != nil || complete {
			return true, err
		}
	}
	if now.Consumers > 0 {
		return true, s.errs.Fail(brokererr.ErrUnproven, "queue %q may hold a sentinel among its messages; Warren examines none while the "+
			"queue has consumers", queue)
	}
	return true, s.errs.Fail(brokererr.ErrUnproven, "queue %q may hold a sentinel behind other messages; Warren examines at "+
		"most %d of them", queue, limit)
}

// awaitNoConsumers counts the messages of a queue once it has no consumers, or settle has passed.
func (s *search) awaitNoConsumers(ctx context.Context, queue string) (now amqp.Queue, exists bool, err error) {
	now, exists, err = s.held(ctx, s.cluster, queue)
	for begun := time.Now(); err == nil && now.Consumers > 0 && time.Since(begun) < s.settle; {
		if err = retry.Sleep(ctx, s.errs, settlePause); err == nil {
			now, exists, err = s.held(ctx, s.cluster, queue)
		}
	}
	return now, exists, err
}

func (s *search) countMissing(origins []string) (count int) {
	for _, origin := range origins {
		count += s.missing(origin, 0)
	}
	return count
}

// take takes the sentinels of the given origins out of a queue. complete reports whether the queue no longer holds any of them.
func (s *search) take(ctx context.Context, queue string, origins []string, limit int) (complete bool, err error) {
	err = s.changer.DoToTheEnd(ctx, s.cluster, func(channel *amqp.Channel) (err error) {
		var others []amqp.Delivery
		if complete, others, err = s.takeFrom(channel, queue, origins, limit); err != nil {
			return err
		}
		_, _, err = s.putAllBack(ctx, channel, queue, others)
		return err
	})
	if errors.Is(err, brokererr.ErrResourceLocked) { // a single active consumer; see takeAsConsumer
		complete, err = s.takeAsConsumer(ctx, queue, origins)
	}
	return complete, wrapQueue(queue, err)
}

// takeOwn takes out the sentinels that this process has just published to a queue, and returns the counts of the queue afterwards.
func (s *search) takeOwn(ctx context.Context, queue string) (now amqp.Queue, exists bool, err error) {
	err = s.changer.DoToTheEnd(ctx, s.cluster, func(channel *amqp.Channel) error {
		before := s.missing(queue, 0)
		_, others, err := s.takeFrom(channel, queue, []string{queue}, s.maxHeld(queue))
		switch {
		case err != nil:
		case s.missing(queue, 0) < before || len(others) > 0:
			now, exists, err = s.putAllBack(ctx, channel, queue, others)
		default: // another consumer has the sentinels
			now, exists, err = amqpconn.DeclaredQueue(channel, queue)
		}
		return err
	})
	if errors.Is(err, brokererr.ErrResourceLocked) { // a single active consumer; see takeAsConsumer
		if _, err = s.takeAsConsumer(ctx, queue, []string{queue}); err == nil {
			now, exists, err = s.held(ctx, s.cluster, queue)
		}
	}
	return now, exists, wrapQueue(queue, err)
}

// takeFrom receives messages and acknowledges the sentinels among them. It returns the other messages, which the channel still holds. It
// stops when the channel holds as many messages as it may.
func (s *search) takeFrom(
	channel *amqp.Channel, queue string, origins []string, limit int,
) (complete bool, others []amqp.Delivery, err error) {
	for s.countMissing(origins) > 0 {
		message, ok, err := get(channel, queue)
		switch {
		case err != nil:
			return false, others, err
		case !ok:
			return true, others, nil
		case isSentinel(message, s.fence.Name):
			if err := message.Ack(false); err != nil {
				return false, others, err
			}
			s.missing(originOf(message), -1)
		default:
			if others = append(others, message); len(others) > limit {
				s.deletions.recordBrowse(s.fence.Name, queue)
				return false, others, nil
			}
		}
	}
	return true, others, nil
}

// maxHeld returns how many messages of a queue a search may hold: only one if a return counts as a delivery, and none if the queue has a
// single active consumer; see takeAsConsumer.
func (s *search) maxHeld(queue string) int {
	single := false
	s.observer.View(func(known *snapshot.Snapshot) {
		single = known.Queues[queue].Arguments[vhost.ArgSingleActiveConsumer] == true
	})
	switch {
	case single:
		return 0
	case s.losesDeliveries(queue):
		return 1
	}
	return holdLimit
}

// losesDeliveries reports whether a message that is returned to a queue may lose one of its allowed deliveries. Before 4.3, a return counts
// as a delivery. From 4.0 on, RabbitMQ allows 20 deliveries by default.
func (s *search) losesDeliveries(queue string) (loses bool) {
	version := s.observer.State().Version
	if version.AtLeast(vhost.RabbitMQ43) {
		return false
	}
	limits := func(policy vhost.Policy) bool {
		return policy.Definition[vhost.KeyDeliveryLimit] != nil && policy.Match(queue, vhost.TypeQuorum) != vhost.MatchNo
	}
	s.observer.View(func(known *snapshot.Snapshot) {
		found, exists := known.Queues[queue]
		limit, given := found.Arguments[vhost.ArgDeliveryLimit].(int64)
		unlimited := exists && !given
		if version.AtLeast(vhost.RabbitMQ40) {
			unlimited = given && limit < 0
		}
		loses = !unlimited || slices.ContainsFunc(known.Policies, limits) || slices.ContainsFunc(known.Fences, limits)
	})
	return loses
}

// putAllBack returns the held messages. It waits until the queue has processed them and every earlier acknowledgement, because RabbitMQ may
// drop frames that are sent right before a channel is closed. It returns the counts of the queue afterwards.
func (s *search) putAllBack(
	ctx context.Context, channel *amqp.Channel, queue string, held []amqp.Delivery,
) (now amqp.Queue, exists bool, err error) {
	for _, message := range held {
		if err := putBack(message); err != nil {
			return now, false, err
		}
	}
	for begun := time.Now(); time.Since(begun) < settling; {
		now, exists, err := amqpconn.DeclaredQueue(channel, queue)
		if err != nil || !exists || now.Consumers == 0 { // a channel that holds a message counts as a consumer
			return now, exists, err
		}
		if err := retry.Sleep(ctx, s.errs, settlePause); err != nil {
			return now, exists, err
		}
	}
	return now, exists, s.errs.Fail(brokererr.ErrUnproven,
		"queue %q: another client holds its messages, or the broker still counts a client that has returned them", queue)
}

// takeAsConsumer is takeFrom for queues with a single active consumer, which refuse basic.get. It receives nothing while another
// consumer is active.
func (s *search) takeAsConsumer(ctx context.Context, queue string, origins []string) (complete bool, err error) {
	err = s.changer.DoExclusively(ctx, s.cluster, func(exclusive amqpconn.Exclusive) error {
		channel := exclusive.Channel
		messages, err := consumeSlowly(channel, queue)
		if err != nil {
			return err
		}
		for limit := time.After(consumerWait); ; {
			message, ok := next(ctx, messages, limit)
			switch {
			case !ok:
				complete = ctx.Err() == nil
				return stopConsuming(channel, messages)
			case !isSentinel(message, s.fence.Name): // return it after the cancellation, or the consumer would receive it again
				s.deletions.recordBrowse(s.fence.Name, queue)
				return errors.Join(stopConsuming(channel, messages), putBack(message))
			}
			s.missing(originOf(message), -1)
			if s.countMissing(origins) == 0 {
				complete = true
				err := errors.Join(stopConsuming(channel, messages), message.Ack(false))
				_, _, settled := s.putAllBack(ctx, channel, queue, nil)
				return errors.Join(err, settled)
			}
			if err := message.Ack(false); err != nil {
				return err
			}
		}
	})
	return complete, err
}
