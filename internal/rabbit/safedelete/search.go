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
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// search takes the sentinels of one fence out of its queues, and out of the queues to which they may have expired. RabbitMQ shows a
// message only to its consumer, so a search holds the messages in front of the sentinels, and puts them back.
type search struct {
	*Deleter

	fence   fence.Fence
	cluster string
	// missing changes how many sentinels of a queue have not been found yet, and returns the number.
	missing func(queue string, change int) int
	// gone is told of a queue that does not exist.
	gone func(queue string)
	// published is when the first sentinel was about to be published; zero if this process does not know.
	published time.Time
	// mayBeHeld: the process that published the sentinels may be gone without the broker having noticed, and still hold some.
	mayBeHeld bool
	// patience is for how long to wait until this process holds none itself, after its channel was closed.
	patience time.Duration
}

// run returns the queues of which a sentinel may be left, and why.
func (s *search) run(ctx context.Context) (left []string, err error) {
	var mu sync.Mutex
	found := map[string]bool{}
	lookInto := func(queue string) error {
		exists, err := s.look(ctx, queue, s.origins(queue), s.mayBeHeld)
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
	failed := forEach(ctx, s.errs, expiring, lookInto) // first: what is found there need not be looked for elsewhere
	maps.Copy(failed, forEach(ctx, s.errs, others, lookInto))
	for _, queue := range expiring {
		if found[queue] && s.missing(queue, 0) > 0 {
			if err := s.follow(ctx, queue); err != nil {
				failed[queue] = err
			}
		}
	}
	if s.deletions.mayArrive(s.fence.Name) {
		return s.fence.Queues, s.errs.Fail(brokererr.ErrUnproven, "a sentinel of policy %q may still arrive", s.fence.Name)
	}
	return slices.Sorted(maps.Keys(failed)), firstOf(s.fence.Queues, failed)
}

// byExpiry tells apart the queues of the fence in which messages expire.
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
	s.broker.View(func(known *snapshot.Snapshot) { now.Arguments = known.Queues[queue].Arguments })
	return now.ttl()
}

// onward lists the queues to which a sentinel may expire from a queue.
func (s *search) onward(queue string) (onward []string) {
	s.broker.View(func(known *snapshot.Snapshot) { onward = known.ExpiresTo(queue, s.fence.Effective) })
	return onward
}

// origins lists the queues whose sentinels may be in a queue: that queue itself, and those that expire to it.
func (s *search) origins(queue string) []string {
	origins := []string{queue}
	for _, other := range s.fence.Queues {
		if other != queue && slices.Contains(s.onward(other), queue) {
			origins = append(origins, other)
		}
	}
	return origins
}

// follow looks for sentinels that may have expired from a queue in which there are none any more.
func (s *search) follow(ctx context.Context, queue string) error {
	if ttl, _ := s.ttl(queue); !s.published.IsZero() && time.Since(s.published) < ttl {
		return nil
	}
	arriving := s.checkNoneArriving(ctx, queue) // before the looks, or what arrives in between would be missed
	for _, other := range s.onward(queue) {
		if _, err := s.look(ctx, other, []string{queue}, false); err != nil {
			return err
		}
	}
	if s.missing(queue, 0) == 0 {
		return nil
	}
	return arriving
}

// checkNoneArriving fails if a sentinel may have expired without having arrived: RabbitMQ tries again minutes later to deliver what
// expires towards a queue that is fenced. The time counts from when this process first saw the queue without sentinels: they had
// expired by then.
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
	s.deletions.refreshIn(again, s.broker.RequestRefresh)
	return s.errs.Fail(brokererr.ErrUnproven, "a sentinel that expired in queue %q may still be on its way", queue)
}

// look takes the sentinels of some queues out of one, and reports whether that exists. It fails unless none is left there. What
// RabbitMQ delivered to a consumer is not looked for. A queue that is too busy to count says that it has no messages and no
// consumers: rabbit_quorum_queue:stat gives up after a quarter of a second. So such a queue is looked into, too.
func (s *search) look(ctx context.Context, queue string, origins []string, mayBeHeld bool) (exists bool, err error) {
	if s.countMissing(origins) == 0 {
		return true, nil
	}
	now, exists, err := s.awaitNoConsumers(ctx, queue)
	most := s.maxHeld(queue)
	switch {
	case err != nil || !exists:
		return exists, err
	case now.consumers > 0 && mayBeHeld:
		return true, s.errs.Fail(brokererr.ErrUnproven, "a process that is gone may still hold a sentinel of queue %q", queue)
	case now.consumers > 0 && now.ready == 0:
		return true, nil
	case now.consumers == 0 && (now.ready <= most || !s.deletions.hasLooked(s.fence.Name, queue)):
		complete, err := s.take(ctx, queue, origins, most)
		if err != nil || complete {
			return true, err
		}
	}
	return true, s.errs.Fail(brokererr.ErrUnproven, "queue %q may hold a sentinel behind other messages; Warren looks at %d of them "+
		"at most", queue, most)
}

// awaitNoConsumers counts what is in a queue, once nobody holds messages of it, or patience is over.
func (s *search) awaitNoConsumers(ctx context.Context, queue string) (now counts, exists bool, err error) {
	now, exists, err = s.held(ctx, s.cluster, queue)
	for begun := time.Now(); err == nil && now.consumers > 0 && time.Since(begun) < s.patience; {
		if err = management.Sleep(ctx, s.errs, settlePause); err == nil {
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

// take takes the sentinels of some queues out of one. complete: none is left there.
func (s *search) take(ctx context.Context, queue string, origins []string, most int) (complete bool, err error) {
	err = s.broker.DoToTheEnd(ctx, s.cluster, func(channel *amqp.Channel) (err error) {
		var others []amqp.Delivery
		if complete, others, err = s.takeFrom(channel, queue, origins, most); err != nil {
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

// takeOwn takes the sentinels out of a queue to which this process has just published them, and returns what is in the queue then.
func (s *search) takeOwn(ctx context.Context, queue string) (now counts, exists bool, err error) {
	err = s.broker.DoToTheEnd(ctx, s.cluster, func(channel *amqp.Channel) error {
		before := s.missing(queue, 0)
		_, others, err := s.takeFrom(channel, queue, []string{queue}, s.maxHeld(queue))
		switch {
		case err != nil:
		case s.missing(queue, 0) < before || len(others) > 0:
			now, exists, err = s.putAllBack(ctx, channel, queue, others)
		default: // somebody else has them
			now, exists, err = passiveDeclare(channel, queue)
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

// takeFrom gets messages and acknowledges the sentinels among them. It returns the others, which the channel holds. It gives up when
// there are more of them than it may hold.
func (s *search) takeFrom(
	channel *amqp.Channel, queue string, origins []string, most int,
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
			if others = append(others, message); len(others) > most {
				s.deletions.recordLook(s.fence.Name, queue)
				return false, others, nil
			}
		}
	}
	return true, others, nil
}

// maxHeld is how many messages of a queue may be held. Where a message that is put back has lost one of the deliveries that its queue
// allows, it is one.
func (s *search) maxHeld(queue string) int {
	limited := false
	s.broker.View(func(known *snapshot.Snapshot) {
		limit, given := known.Queues[queue].Arguments[vhost.ArgDeliveryLimit].(int64)
		limited = given && limit >= 0
	})
	if limited && s.broker.State().CountsReturns {
		return 1
	}
	return holdLimit
}

// putAllBack returns what was held, and waits until the queue knows of that and of every acknowledgement before: what is
// sent right before a channel is closed can be forgotten. It says what is in the queue then.
func (s *search) putAllBack(
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

// takeAsConsumer does what takeFrom does, for queues with a single active consumer, which refuse basic.get. It receives nothing
// while another consumer is active.
func (s *search) takeAsConsumer(ctx context.Context, queue string, origins []string) (complete bool, err error) {
	err = s.broker.DoExclusively(ctx, s.cluster, func(exclusive amqpconn.Exclusive) error {
		channel := exclusive.Channel
		messages, err := consumeSlowly(channel, queue)
		if err != nil {
			return err
		}
		for patience := time.After(consumerPatience); ; {
			message, ok := next(ctx, messages, patience)
			switch {
			case !ok:
				complete = ctx.Err() == nil
				return stopConsuming(channel, messages)
			case !isSentinel(message, s.fence.Name): // not before no other can come, or it would be the same one again
				s.deletions.recordLook(s.fence.Name, queue)
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
