package recreate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// Find returns the IDs of a queue's recreations whose hold or backlog is in the snapshot.
func (r *Recreator) Find(queue string) (ids []string) {
	r.observer.View(func(known *snapshot.Snapshot) {
		for name := range known.Queues {
			if id, ok := idOf(name, queue); ok {
				ids = append(ids, id)
			}
		}
	})
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Inspect reports the state of the queue, of the hold and of the fence at the broker.
func (r *Recreator) Inspect(ctx context.Context, rec Recreation) (seen Seen, err error) {
	if seen.Queue, err = r.inspectQueue(ctx, rec, rec.Queue.Name); err != nil {
		return Seen{}, err
	}
	seen.IsNew = seen.Queue.Exists && r.isNew(seen.Queue.Arguments, rec)
	counted, err := r.countReliably(ctx, rec.Queue.Name)
	if err != nil {
		return Seen{}, err
	}
	seen.Queue.Ready, seen.Queue.Consumers = counted.Ready, counted.Consumers
	if !rec.WithoutHold {
		if seen.Hold, err = r.inspectQueue(ctx, rec, rec.Hold()); err != nil {
			return Seen{}, err
		}
	}
	policies, err := r.api.Policies(ctx)
	if err != nil {
		return Seen{}, withBrokerReason(err)
	}
	seen.Fenced = isFenced(rec.Queue.Name, policies)
	return seen, nil
}

// CheckNoDelete fails while a delete of a process that has ended may still take effect behind a closed fence, but not for longer than
// Timeouts.Vanish.
func (r *Recreator) CheckNoDelete(ctx context.Context, rec Recreation) error {
	return withBrokerReason(r.deleter.CheckNoDelete(ctx, r.Cluster, rec.Queue.Name))
}

func (r *Recreator) isNew(arguments vhost.Arguments, rec Recreation) bool {
	return snapshot.SameArguments(vhost.Normalize(arguments), vhost.Normalize(rec.Queue.Arguments))
}

// inspectQueue reports the state of one queue.
func (r *Recreator) inspectQueue(ctx context.Context, rec Recreation, queue string) (QueueSeen, error) {
	seen, err := r.count(ctx, queue)
	if err != nil || !seen.Exists {
		return seen, err
	}
	info, err := r.api.QueueInfo(ctx, queue, management.WithoutStatistics)
	if err != nil {
		return seen, withBrokerReason(withQueue(queue, err))
	}
	if info == nil { // deleted in between
		return QueueSeen{}, nil
	}
	seen.Arguments = vhost.Normalize(info.Arguments)
	seen.Bindings, err = r.bindingsOf(ctx, rec, queue)
	return seen, err
}

// count returns the counts of a passive declaration, which are current.
func (r *Recreator) count(ctx context.Context, queue string) (QueueSeen, error) {
	declared, exists, err := r.changer.DeclaredQueue(ctx, r.Cluster, queue)
	return QueueSeen{Exists: exists, Ready: declared.Messages, Consumers: declared.Consumers}, withBrokerReason(withQueue(queue, err))
}

const (
	// stall is the time after which RabbitMQ stops asking a quorum queue for its counts, and answers zero.
	stall = 250 * time.Millisecond
	// stalledCounts is how often a stalled count is repeated, with a pause in between.
	stalledCounts = 3
	stalledPause  = 300 * time.Millisecond
)

// countReliably is count, but repeats a count of zero, which may be the answer of a queue that is too busy to count.
func (r *Recreator) countReliably(ctx context.Context, queue string) (now QueueSeen, err error) {
	for range stalledCounts {
		asked := time.Now()
		now, err = r.count(ctx, queue)
		if err != nil || !now.Exists || now.Ready > 0 || now.Consumers > 0 || time.Since(asked) < stall {
			return now, err
		}
		if err := retry.Sleep(ctx, r.Errors, stalledPause); err != nil {
			return now, err
		}
	}
	return r.count(ctx, queue)
}

// bindingsOf returns the bindings of a queue except the recreation's own.
func (r *Recreator) bindingsOf(ctx context.Context, rec Recreation, queue string) ([]vhost.Binding, error) {
	bindings, err := r.api.BindingsOf(ctx, queue)
	if errors.Is(err, brokererr.ErrNotFound) {
		return nil, nil
	}
	return slices.DeleteFunc(bindings, rec.IsOwn), withBrokerReason(withQueue(queue, err))
}

// until calls ask until it returns true or limit has passed.
func (r *Recreator) until(ctx context.Context, limit time.Duration, ask func() (bool, error)) error {
	for begun := time.Now(); ; {
		done, err := ask()
		if err != nil || done || time.Since(begun) > limit {
			return err
		}
		if err := retry.Sleep(ctx, r.Errors, pollPause); err != nil {
			return err
		}
	}
}

// pollPause is the time between two calls.
const pollPause = 20 * time.Millisecond
