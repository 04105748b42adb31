package safedelete

import (
	"context"
	"errors"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/vhost"
)

// removal deletes queues that were proved empty and that sentinels keep closed.
type removal struct{ *deletion }

// delete checks once more and deletes.
func (d removal) delete(ctx context.Context) error {
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

// guarded says why a queue holds something else than its sentinels; nil if not.
func (d removal) guarded(queue string, now counts, exists bool) error {
	switch {
	case !exists:
		return d.unproven(deletedElsewhere, queue)
	case now.consumers > 0:
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
	return counts{ready: max(h.ready-own, 0), consumers: h.consumers}
}

// deleteOne goes step by step on one channel, so that nothing comes in between but what the broker does itself.
func (d removal) deleteOne(ctx context.Context, channel *amqp.Channel, queue string) error {
	now, exists, err := passiveDeclare(channel, queue)
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
	if err := d.lastCheck(channel, queue); err != nil {
		return err
	}
	restoration(d).sent(queue)
	with, err := channel.QueueDelete(queue, false, false, false)
	if err == nil && with >= d.inside[queue] {
		d.deleter.Log.Error(nil, "A queue was deleted with messages", "queue", queue, "messages", with)
	}
	return err
}

// lastCheck makes sure that nobody came while the first sentinel was taken out: the others are ready, and its holder is the
// only consumer. From here to the deletion it must not take long.
func (d removal) lastCheck(channel *amqp.Channel, queue string) error {
	for range attempts {
		begun := time.Now()
		now, exists, err := passiveDeclare(channel, queue)
		switch rest := d.inside[queue] - 1; {
		case err != nil:
			return err
		case !exists:
			return d.unproven(deletedElsewhere, queue)
		case now.ready > rest || now.consumers > 1:
			return counts{ready: now.ready - rest, consumers: now.consumers - 1}.checkEmpty(d.deleter.errs, queue)
		case now.ready < rest || now.consumers < 1:
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
func (d removal) takeFirst(ctx context.Context, channel *amqp.Channel, queue string) error {
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

func (d removal) singleActive(queue string) bool {
	value, _ := d.stats[queue].Arguments[vhost.ArgSingleActiveConsumer].(bool)
	return value
}
