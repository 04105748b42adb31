package recreate

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/change"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// nearlyEmpty is the number of ready messages in the hold below which the queue is bound again. Newer messages overtake the
	// messages that are still in the hold.
	nearlyEmpty = 20
	// inFlight is how long a message may still arrive after its binding was removed.
	inFlight = 300 * time.Millisecond
	// dropHeadShare is the percentage of its maximum length to which GiveBack fills a queue that drops its oldest messages.
	dropHeadShare = 80
)

// GiveBack moves messages and bindings back to the queue, the new one or the old one, and removes the objects that the recreation
// has declared. It keeps bindings that left the spec, because dead letters of another queue may need them. No delete of the queue may be
// running: see Recreation.DeleteSent. report, if it is not nil, is called several times a second.
//
// If the queue may still hold a sentinel behind other messages after a back-out, GiveBack fails at its end. Consumers may start before
// that. If the queue is new, if the status was lost, or if the recreation has no hold, GiveBack does not fail for that reason: the search
// continues as for any leftover fence.
func (r *Recreator) GiveBack(ctx context.Context, rec Recreation, report func(Progress)) (Progress, error) {
	now, err := r.inspectQueue(ctx, rec, rec.Queue.Name)
	if err != nil {
		return Progress{}, err
	}
	isNew := now.Exists && r.isNew(now.Arguments, rec) && !rec.StatusLost
	cleared := r.deleter.ClearRecreation(ctx, r.Cluster, rec.Queue.Name, isNew)
	if cleared != nil && !isSentinelLeft(cleared) {
		return Progress{}, withBrokerReason(cleared)
	}
	if now.Exists { // after a back-out with its old arguments
		rec.Queue.Arguments = now.Arguments
	} else { // another client has deleted it
		if err := r.changer.Declare(ctx, r.Cluster, topology.Topology{Queues: []topology.Queue{rec.Queue}}); err != nil {
			return Progress{}, withBrokerReason(err)
		}
		if err := r.awaitName(ctx, rec); err != nil {
			return Progress{}, err
		}
	}
	progress, err := r.giveBack(ctx, rec, report)
	if errors.Is(err, brokererr.ErrAccessRefused) {
		err = r.endWithoutRights(ctx, rec, err)
	}
	if err != nil || cleared == nil || isNew || rec.StatusLost || rec.WithoutHold {
		return progress, err
	}
	// An open fence refuses no message. Its policy records that the queue may still hold a sentinel.
	return progress, withBrokerReason(r.deleter.ClearRecreation(ctx, r.Cluster, rec.Queue.Name, isNew))
}

// giveBack does the work of GiveBack except for the fence.
func (r *Recreator) giveBack(ctx context.Context, rec Recreation, report func(Progress)) (Progress, error) {
	removal := change.Removal{Queues: []string{rec.probe()}, Private: true} // a crash can leave the probe behind
	if rec.WithoutHold {
		return Progress{}, withBrokerReason(r.changer.Remove(ctx, r.Cluster, removal))
	}
	progress, err := r.giveBackAll(ctx, rec, report)
	if err != nil {
		return progress, err
	}
	removal.Bindings = boundTo(rec.Queue.Name, []vhost.Binding{{Source: rec.BackExchange()}})
	removal.Exchanges = []string{rec.BacklogExchange(), rec.BackExchange()}
	return progress, withBrokerReason(r.changer.Remove(ctx, r.Cluster, removal))
}

// bindIfUnbound is bindRecorded unless the queue has bindings, because a crash may have followed an earlier call that bound it.
func (r *Recreator) bindIfUnbound(ctx context.Context, rec Recreation) error {
	bindings, err := r.bindingsOf(ctx, rec, rec.Queue.Name)
	if err != nil || len(bindings) > 0 {
		return err
	}
	return r.bindRecorded(ctx, rec, rec.Queue.Name)
}

// bindRecorded binds a queue as recorded after another client has deleted the hold, and with it the bindings of the hold. It skips a
// binding whose exchange was deleted, too.
func (r *Recreator) bindRecorded(ctx context.Context, rec Recreation, queue string) error {
	for _, binding := range rec.Bindings {
		err := r.bind(ctx, queue, []vhost.Binding{binding})
		if errors.Is(err, brokererr.ErrNotFound) {
			if now, uncounted := r.count(ctx, queue); uncounted == nil && now.Exists {
				continue
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// giveBackAll moves the messages of the backlog back, then most messages of the hold. Then it binds the queue, moves the remaining
// messages, and deletes both queues. The messages of a publisher retain their order, except messages in flight when the bindings move, and
// messages that are published faster than Warren moves them. If a message cannot be moved, giveBackAll continues and fails at its end. An
// unbound queue would be worse than messages in the wrong order.
func (r *Recreator) giveBackAll(ctx context.Context, rec Recreation, report func(Progress)) (progress Progress, err error) {
	hold, err := r.count(ctx, rec.Hold())
	if err != nil {
		return progress, err
	}
	backlog, err := r.count(ctx, rec.Backlog())
	if err != nil {
		return progress, err
	}
	if !hold.Exists && !backlog.Exists {
		return progress, r.bindIfUnbound(ctx, rec)
	}
	if err := r.bindBack(ctx, rec); err != nil {
		return progress, err
	}
	progress, stuck := r.moveBoth(ctx, rec, progress, nearlyEmpty, report)
	if mayBeTemporary(stuck) {
		return progress, stuck
	}
	if err := r.rebind(ctx, rec); err != nil {
		return progress, errors.Join(stuck, err)
	}
	return r.giveBackRest(ctx, rec, progress, report)
}

// bindBack declares the exchange through which messages are moved back.
func (r *Recreator) bindBack(ctx context.Context, rec Recreation) error {
	err := r.changer.Declare(ctx, r.Cluster, topology.Topology{
		Exchanges: []topology.Exchange{fanout(rec.BackExchange())},
		Bindings:  []topology.Binding{{Source: rec.BackExchange(), Destination: rec.Queue.Name}},
	})
	if err != nil {
		return withBrokerReason(err)
	}
	return r.Crash.Pass(StepBackBound)
}

// giveBackRest moves the last messages of the hold back, and deletes the hold and the backlog once both are provably empty. The backlog can
// still receive messages from a manager that does not know yet that it no longer leads.
func (r *Recreator) giveBackRest(ctx context.Context, rec Recreation, progress Progress, report func(Progress)) (Progress, error) {
	for {
		var err error
		if progress, err = r.moveBoth(ctx, rec, progress, 0, report); err != nil {
			return progress, err
		}
		switch err := r.deleter.DeleteEmpty(ctx, r.Cluster, []string{rec.Backlog(), rec.Hold()}, nil); {
		case err == nil:
			return progress, r.Crash.Pass(StepHoldDeleted)
		case !errors.Is(err, brokererr.ErrNotEmpty) || errors.Is(err, brokererr.ErrConsumed) || errors.Is(err, brokererr.ErrPending):
			return progress, withBrokerReason(err)
		}
	}
}

// moveBoth moves the messages of the backlog back, and those of the hold until fewer than endBelow are ready. If a message of the backlog
// cannot be moved, moveBoth still moves those of the hold, and then fails.
func (r *Recreator) moveBoth(
	ctx context.Context, rec Recreation, before Progress, endBelow int, report func(Progress),
) (Progress, error) {
	count := r.countReliably // if a queue only looked empty, its messages would lose their place in the order
	if endBelow == 0 {       // the deletion shows whether the queues are empty
		count = r.count
	}
	progress, stuck := r.moveBack(ctx, rec, rec.Backlog(), before, 0, count, report)
	if mayBeTemporary(stuck) {
		return progress, stuck
	}
	progress, err := r.moveBack(ctx, rec, rec.Hold(), progress, endBelow, count, report)
	if mayBeTemporary(err) {
		return progress, err
	}
	return progress, cmp.Or(stuck, err)
}

// mayBeTemporary reports whether an error may be temporary, such as the loss of a connection.
func mayBeTemporary(err error) bool { return err != nil && ReasonOf(err) == "" }

// counter returns the counts of a queue.
type counter func(ctx context.Context, queue string) (QueueSeen, error)

// moveBack moves messages from the hold or the backlog to the queue until fewer than endBelow are ready; zero moves all. It fails earlier
// if the queue could drop messages, even because of a policy that changes during the move.
func (r *Recreator) moveBack(
	ctx context.Context, rec Recreation, from string, before Progress, endBelow int, count counter, report func(Progress),
) (Progress, error) {
	depth := func(ctx context.Context) (int, error) {
		policies, err := r.api.Policies(ctx)
		if err != nil {
			return 0, withBrokerReason(err)
		}
		return maxDepth(rec.Queue.Name, rec.Queue.Arguments, policies)
	}
	left, err := count(ctx, from)
	if err != nil || left.Ready < max(1, endBelow) {
		return before, err
	}
	now, err := r.move(ctx, move{
		from: from, to: rec.Queue.Name, exchange: rec.BackExchange(), ready: left.Ready, endBelow: endBelow, before: before,
		maxDepth: depth, movesBack: true, restores: from == rec.Backlog(),
	}, report)
	if err != nil {
		return now, err
	}
	return now, r.Crash.Pass(StepMoved)
}

// maxDepth returns the number of ready messages up to which a queue is filled; zero if the queue never drops messages because of their
// number. It refuses a queue that drops messages because of their size, because the mover only counts messages.
func maxDepth(queue string, arguments vhost.Arguments, policies []vhost.Policy) (int, error) {
	messages, bytes := safedelete.DropLimits(queue, arguments, policies)
	switch {
	case bytes < math.MaxInt64:
		return 0, dropsBeyond(queue, bytes, "bytes")
	case messages < 1:
		return 0, dropsBeyond(queue, messages, "messages")
	case messages == math.MaxInt64:
		return 0, nil
	}
	return max(1, int(min(messages, math.MaxInt32))*dropHeadShare/100), nil
}

func dropsBeyond(queue string, limit int64, unit string) error {
	return refuse(LossyLength, "queue %q drops its oldest messages beyond %d %s, so messages that are moved back to it could be lost. "+
		"Set overflow to reject-publish in a policy of the queue until it is recreated", queue, limit, unit)
}

// rebind binds the queue before it unbinds the hold. While both are bound, each message arrives twice. So rebind unbinds the hold even if
// RabbitMQ refuses a binding of the queue, or if another instance works on the vhost. It skips a binding that the queue seems to have,
// because Divert may have failed to remove it; see whyNotUnbound. If another client has deleted the hold, rebind binds the queue as
// recorded.
func (r *Recreator) rebind(ctx context.Context, rec Recreation) error {
	bindings, err := r.bindingsOf(ctx, rec, rec.Hold())
	if err != nil {
		return err
	}
	hold, err := r.count(ctx, rec.Hold()) // the management API lists no bindings for a queue that does not exist (4.3)
	if err != nil {
		return err
	}
	if !hold.Exists {
		return r.bindRecorded(ctx, rec, rec.Queue.Name)
	}
	kept, err := r.bindingsOf(ctx, rec, rec.Queue.Name)
	if err != nil {
		return err
	}
	refused := r.bind(ctx, rec.Queue.Name, union(kept, bindings)[len(kept):])
	if refused != nil { // perhaps for some bindings only
		if kept, err = r.bindingsOf(ctx, rec, rec.Queue.Name); err != nil {
			return errors.Join(refused, err)
		}
		bindings = slices.DeleteFunc(bindings, func(binding vhost.Binding) bool {
			return !slices.ContainsFunc(kept, func(has vhost.Binding) bool { return isSame(has, binding) })
		})
	}
	if err := r.Crash.Pass(StepRebound); err != nil {
		return err
	}
	unbound := r.changer.Remove(ctx, r.Cluster, change.Removal{Bindings: boundTo(rec.Hold(), bindings), Private: true})
	if err := errors.Join(refused, withBrokerReason(unbound)); err != nil {
		return err
	}
	if err := r.Crash.Pass(StepHoldUnbound); err != nil {
		return err
	}
	return retry.Sleep(ctx, r.Errors, inFlight)
}
