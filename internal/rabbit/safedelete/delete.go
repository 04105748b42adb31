package safedelete

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/crashpoint"
	"github.com/warren-mq/warren/internal/vhost"
)

// removal deletes queues that are proven empty and closed by their sentinels.
type removal struct{ *batch }

const (
	// groupsAtOnce is the maximum number of groups of a batch that are deleted at the same time.
	groupsAtOnce = amqpconn.ChannelLimit / 4
	// channelAge is how long one channel is used to delete groups. It is far shorter than Timeouts.Operation.
	channelAge = 2 * time.Second
)

// delete checks each group again and deletes it. If a group is not empty, delete records the reason as the error of the group. Running
// deletions then continue, and no other deletion begins.
func (r removal) delete(ctx context.Context) error {
	groups := make(chan *group, len(r.groups))
	for _, g := range r.groups {
		groups <- g
	}
	close(groups)
	var all sync.WaitGroup
	for range min(groupsAtOnce, len(r.groups)) {
		all.Go(func() {
			for g := r.next(ctx, groups); g != nil; g = r.next(ctx, groups) {
				r.deleteFrom(ctx, g, groups)
			}
		})
	}
	all.Wait()
	for _, g := range r.groups {
		if errors.Is(g.err, crashpoint.ErrCrashed) {
			return crashpoint.ErrCrashed
		}
	}
	if err := ctx.Err(); err != nil {
		return r.deleter.errs.Unreachable(err)
	}
	return nil
}

// next returns the next group to delete; nil if none is left, or if no further deletion may begin.
func (r removal) next(ctx context.Context, groups <-chan *group) *group {
	if r.anyFailed() || ctx.Err() != nil {
		return nil
	}
	return <-groups
}

// deleteFrom deletes a group and the groups after it on one channel.
func (r removal) deleteFrom(ctx context.Context, g *group, groups <-chan *group) {
	queue := g.queues[0]
	var own error // an error of Warren, which DoExclusively must not classify
	err := r.deleter.changer.DoExclusively(ctx, r.cluster, func(channel amqpconn.Exclusive) error {
		for begun := time.Now(); g != nil && time.Since(begun) < channelAge; g = r.next(ctx, groups) {
			if queue, own = r.deleteGroup(ctx, channel, g); own != nil {
				return own
			}
		}
		return nil
	})
	switch {
	case errors.Is(own, crashpoint.ErrCrashed):
		r.fail(g, crashpoint.ErrCrashed)
	case err != nil:
		if errors.Is(err, brokererr.ErrAccessRefused) {
			restoration(r).refused(ctx, g, queue)
		}
		r.fail(g, wrapQueue(queue, err))
	case g != nil: // the channel is older than channelAge
		r.deleteFrom(ctx, g, groups)
	}
}

// deleteGroup checks that all queues of a group hold only their sentinels, and deletes the queues one after the other. It returns
// the queue with which it failed.
func (r removal) deleteGroup(ctx context.Context, channel amqpconn.Exclusive, g *group) (queue string, err error) {
	queues := slices.Clone(g.queues)
	for _, queue := range queues {
		if err := r.checkGuarded(channel.Channel, queue); err != nil {
			return queue, err
		}
	}
	for i, queue := range queues {
		if i > 0 {
			err = r.checkGuarded(channel.Channel, queue)
		}
		if err == nil {
			err = r.deleteOne(ctx, channel, g, queue)
		}
		if err != nil {
			return queue, err
		}
		if g.recreation == nil {
			r.gone(queue)
		}
		if err := r.deleter.Crash.Pass(StepOne); err != nil {
			return queue, err
		}
	}
	return "", nil
}

func (r removal) checkGuarded(channel *amqp.Channel, queue string) error {
	now, exists, err := amqpconn.DeclaredQueue(channel, queue)
	if err == nil {
		err = r.guarded(queue, now, exists)
	}
	return err
}

// guarded fails if a queue does not hold exactly its sentinels.
func (r removal) guarded(queue string, now amqp.Queue, exists bool) error {
	switch {
	case !exists:
		return r.unproven(deletedElsewhere, queue)
	case now.Consumers > 0:
		return checkCounts(r.deleter.errs, queue, now)
	case now.Messages > r.count(queue, 0):
		return checkCounts(r.deleter.errs, queue, amqp.Queue{Messages: now.Messages - r.count(queue, 0)})
	case now.Messages < r.count(queue, 0):
		return r.unproven(guardTaken, queue)
	}
	return nil
}

const (
	guardTaken       = "queue %q: another client took one of Warren's sentinels"
	deletedElsewhere = "queue %q was deleted by another client"
)

// deleteOne runs its steps on one channel, one after the other.
func (r removal) deleteOne(ctx context.Context, channel amqpconn.Exclusive, g *group, queue string) error {
	if err := r.takeFirst(ctx, channel.Channel, queue); err != nil {
		return err
	}
	if err := cmp.Or(ctx.Err(), g.ctx.Err()); err != nil {
		return err
	}
	if late := time.Since(r.deadline); late > 0 { // if the process was stopped, the timer of ctx fires late
		return r.slow("queue %q: the deletion missed its deadline by %v", queue, late.Round(time.Millisecond))
	}
	if err := r.lastCheck(channel.Channel, queue); err != nil {
		return err
	}
	if !r.deleter.HoldsLease() {
		return r.deleter.errs.Fail(brokererr.ErrNotLeader, "queue %q is retained", queue)
	}
	restoration(r).send(g, queue)
	if g.recreation != nil {
		return r.swap(channel, g)
	}
	with := 0
	err := amqpconn.Timed("queue.delete", func() (err error) {
		with, err = channel.QueueDelete(queue, false, false, false)
		return err
	})
	if err == nil && with >= r.count(queue, 0) {
		r.deleter.Log.Error(nil, "A queue was deleted with messages", "queue", queue, "messages", with)
	}
	return err
}

// lastCheck checks that no message and no consumer arrived while the first sentinel was taken out. All other sentinels must be
// ready, and the channel that holds the first one must be the only consumer. The deletion must follow quickly, so lastCheck fails
// if the broker answers slowly.
func (r removal) lastCheck(channel *amqp.Channel, queue string) error {
	for _, limit := range promptness {
		begun := time.Now()
		now, exists, err := amqpconn.DeclaredQueue(channel, queue)
		switch rest := r.count(queue, 0) - 1; {
		case err != nil:
			return err
		case !exists:
			return r.unproven(deletedElsewhere, queue)
		case now.Messages > rest || now.Consumers > 1:
			return checkCounts(r.deleter.errs, queue, amqp.Queue{Messages: now.Messages - rest, Consumers: now.Consumers - 1})
		case now.Messages < rest || now.Consumers < 1:
			return r.unproven(guardTaken, queue)
		}
		if time.Since(begun) < limit {
			return nil
		}
	}
	return r.slow("queue %q: the broker does not answer within %v", queue, promptness[len(promptness)-1])
}

// takeFirst takes out the first sentinel, and checks that no other consumer ever had it. In that case, no other consumer had the second
// sentinel either, and the queue has been closed since both were published.
func (r removal) takeFirst(ctx context.Context, channel *amqp.Channel, queue string) error {
	message, ok, rest := amqp.Delivery{}, false, r.count(queue, 0)-1
	if r.singleActive(queue) {
		messages, err := consumeSlowly(channel, queue)
		if err != nil {
			return err
		}
		message, ok = next(ctx, messages, time.After(consumerWait))
	} else {
		var err error
		message, ok, err = get(channel, queue)
		if err != nil {
			return err
		}
		rest = int(message.MessageCount)
	}
	name := r.fenceOf(queue).Name
	own := ok && isSentinel(message, name)
	switch {
	case own && numberOf(message) == 1 && !message.Redelivered && rest == r.count(queue, 0)-1:
		return nil
	case own: // the end of the channel returns it
		return r.unproven("queue %q: another client took one of Warren's sentinels, or messages arrived", queue)
	case ok && r.singleActive(queue):
		holds := checkCounts(r.deleter.errs, queue, amqp.Queue{Messages: 1})
		return errors.Join(holds, channel.Cancel(consumerTag, false), putBack(message))
	case ok:
		return errors.Join(checkCounts(r.deleter.errs, queue, amqp.Queue{Messages: 1}), putBack(message))
	}
	return r.unproven(guardTaken, queue)
}

func (r removal) singleActive(queue string) bool {
	return vhost.Arguments(r.stats[queue].Arguments).SingleActiveConsumer()
}
