package rabbit

import (
	"context"
	"errors"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func (d *deletion) putSentinels(ctx context.Context, queue string) error {
	return about(queue, d.c.channels.alone(ctx, d.cluster, func(channel *amqp.Channel) error {
		now, _, err := passive(channel, queue)
		if err == nil {
			err = now.holds(d.c.config, queue) // nothing must be ready before the sentinels, or they are hard to get out again
		}
		if err != nil {
			return err
		}
		d.inside[queue] = sentinels
		taken, err := publishSentinels(channel, queue, d.fenceOf(queue).name, 1, 2)
		if err == nil && slices.Contains(taken, false) {
			return d.unproven("queue %q did not take the messages that guard it", queue)
		}
		return err
	}))
}

func (d *deletion) fenceOf(queue string) fence {
	return d.fences[slices.IndexFunc(d.fences, func(f fence) bool { return slices.Contains(f.queues, queue) })]
}

// verify makes sure that the fence stands: no policy is stronger, and each queue refuses a message.
func (d *deletion) verify(ctx context.Context) error {
	policies, err := d.c.writing.policies(ctx)
	if err != nil {
		return err
	}
	if err := d.unhindered(policies); err != nil {
		return err
	}
	for _, queue := range d.queues {
		if err := d.tryRefusal(ctx, queue); err != nil {
			return err
		}
	}
	return nil
}

// tryRefusal publishes until the queue refuses. Policies come into effect at once, as a rule; but where others write some at
// the same time, the broker may answer before the queue knows. What it takes is one more sentinel.
func (d *deletion) tryRefusal(ctx context.Context, queue string) error {
	for range refusals {
		taken := []bool{true}
		err := d.c.channels.alone(ctx, d.cluster, func(channel *amqp.Channel) (err error) {
			taken, err = publishSentinels(channel, queue, d.fenceOf(queue).name, d.inside[queue]+1)
			return err
		})
		if err != nil {
			return about(queue, err)
		}
		if !taken[0] {
			return nil
		}
		d.inside[queue]++
		if err := d.c.sleep(ctx, d.c.timing.settle/refusals); err != nil {
			return err
		}
	}
	return d.unproven("queue %q takes messages in spite of the policy that refuses them", queue)
}

// settle waits until publishers whose messages were on their way know of the fence.
func (d *deletion) settle(ctx context.Context) error {
	wait := d.c.timing.settle
	if ttl, expires := d.ttl(); expires {
		wait = min(wait, ttl/8)
	}
	return d.c.sleep(ctx, wait)
}

// ttl is the shortest of the queues' times to live; false if nothing expires.
func (d *deletion) ttl() (shortest time.Duration, expires bool) {
	for _, queue := range d.queues {
		if limit, set := d.readings[queue].lowest("message-ttl"); set {
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
		now, exists, err := d.c.held(ctx, d.cluster, queue)
		if err == nil {
			err = d.guarded(queue, now, exists)
		}
		if err != nil {
			return err
		}
	}
	for _, queue := range slices.Clone(d.queues) {
		err := d.c.channels.alone(ctx, d.cluster, func(channel *amqp.Channel) error { return d.deleteOne(ctx, channel, queue) })
		if err != nil {
			return about(queue, err)
		}
		d.gone(queue)
	}
	return nil
}

func (d *deletion) gone(queue string) {
	d.queues = slices.DeleteFunc(slices.Clone(d.queues), func(other string) bool { return other == queue })
	d.c.store.write(func(s *snapshot) bool { return s.dropQueue(queue) })
}

// guarded says why a queue holds something else than its sentinels; nil if not.
func (d *deletion) guarded(queue string, now held, exists bool) error {
	switch {
	case !exists:
		return d.unproven("queue %q was deleted by somebody else", queue)
	case now.consumers > 0:
		return now.beyond(0).holds(d.c.config, queue)
	case now.ready > d.inside[queue]:
		return now.beyond(d.inside[queue]).holds(d.c.config, queue)
	case now.ready < d.inside[queue]:
		return d.unproven(guardTaken, queue)
	}
	return nil
}

const guardTaken = "queue %q: somebody took a message that guards it"

// beyond leaves out messages of our own.
func (h held) beyond(own int) held { return held{ready: max(h.ready-own, 0), consumers: h.consumers} }

// deleteOne goes step by step on one channel, so that nothing comes in between but what the broker does itself.
func (d *deletion) deleteOne(ctx context.Context, channel *amqp.Channel, queue string) error {
	now, exists, err := passive(channel, queue)
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
		return d.unproven("queue %q: it took %v; the messages that guard it expire after %v",
			queue, time.Since(d.published).Round(time.Millisecond), ttl)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	with, err := channel.QueueDelete(queue, false, false, false)
	if err == nil && with >= d.inside[queue] {
		d.c.log.Error(nil, "A queue was deleted with messages", "queue", queue, "messages", with)
	}
	return err
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
	fence := d.fenceOf(queue).name
	own := ok && isSentinel(message, func(name string) bool { return name == fence })
	switch {
	case own && numberOf(message) == 1 && !message.Redelivered && rest == d.inside[queue]-1:
		return nil
	case own: // the end of the channel puts it back
		return d.unproven("queue %q: somebody took a message that guards it, or more came in", queue)
	case ok && d.singleActive(queue):
		return errors.Join(held{ready: 1}.holds(d.c.config, queue), channel.Cancel(consumerTag, false), putBack(message))
	case ok:
		return errors.Join(held{ready: 1}.holds(d.c.config, queue), putBack(message))
	}
	return d.unproven(guardTaken, queue)
}

func (d *deletion) singleActive(queue string) bool {
	value, _ := d.readings[queue].Arguments["x-single-active-consumer"].(bool)
	return value
}
