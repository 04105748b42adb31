package recreate

import (
	"context"
	"errors"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/crashpoint"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// Swap deletes the queue if it is provably empty and has no consumers, and declares it with the new arguments. It returns once RabbitMQ has
// written the name of the new queue to disk. It calls recordDelete before it sends the delete. recordDelete must record
// Recreation.DeleteSent; its error ends the call, and is returned as it is.
//
// If the new queue lacks a member, Swap deletes and declares the queue again, unless recordDelete fails with Aborted, or the queue may hold
// a sentinel of an earlier call.
//
// If DeleteSent is recorded, a delete of an earlier process may be running. Swap then first waits up to 30 s until the queue is gone, and
// declares it. The fence stays closed during the wait, because RabbitMQ would delete new messages with the queue.
func (r *Recreator) Swap(ctx context.Context, rec Recreation, recordDelete func(context.Context) error) (Swapped, error) {
	isNew, err := r.isSwapped(ctx, rec)
	if err != nil {
		return Swapped{DeleteSent: rec.DeleteSent}, err
	}
	switch err := r.deleter.ClearRecreation(ctx, r.Cluster, rec.Queue.Name, isNew); {
	case isNew && isSentinelLeft(err): // only consumers may be able to take out the messages in front of it, so GiveBack searches again
		r.Log.Info("Warren does not check the members of a new queue that may hold a sentinel",
			"queue", rec.Queue.Name, "reason", err.Error())
		return Swapped{DeleteSent: true}, r.awaitName(ctx, rec)
	case err != nil:
		return Swapped{DeleteSent: isNew}, r.whyNotCleared(ctx, rec, err)
	}
	swapped := Swapped{DeleteSent: true}
	if isNew {
		err = r.awaitName(ctx, rec)
	} else {
		swapped, err = r.swap(ctx, rec, false, recordDelete)
	}
	if err != nil {
		return swapped, err
	}
	if err := r.completeMembers(ctx, rec, &swapped, recordDelete); err != nil {
		return swapped, err
	}
	// RabbitMQ may have failed to open a fence of this call. Until it is open, the recreation must not leave its phase.
	if err := r.deleter.ClearRecreation(ctx, r.Cluster, rec.Queue.Name, true); err != nil && !isSentinelLeft(err) {
		return swapped, withBrokerReason(err)
	}
	return swapped, r.Crash.Pass(StepSwapped)
}

// swap deletes the queue and declares it again, while a freezer holds back the messages of the tiers. A repeated swap leaves the messages
// of the queue to the drainer, which uses basic.get: a queue that lacks a member may deliver no message to a consumer.
func (r *Recreator) swap(
	ctx context.Context, rec Recreation, repeats bool, recordDelete func(context.Context) error,
) (swapped Swapped, err error) {
	if err := r.checkSources(ctx, rec.Queue.Name); err != nil { // before the freezer consumes from the tiers
		return swapped, err
	}
	rec.Emptied = true
	freezer := &freezer{Recreator: r, rec: rec}
	drainer := &drainer{Recreator: r, rec: rec}
	defer drainer.close()
	recreation := safedelete.Recreation{
		Queue: rec.Queue, Repeats: repeats,
		RecordDelete: func(ctx context.Context) error {
			if err := r.checkUnbound(ctx, rec); err != nil {
				return err
			}
			return recordDelete(ctx)
		},
		Begin: func(ctx context.Context) error {
			if err := freezer.freeze(ctx); err != nil || repeats {
				return err
			}
			return r.emptyAgain(ctx, rec, &swapped)
		},
	}
	switch drains, err := r.mayDrain(ctx, rec); {
	case err != nil:
		return swapped, err
	case drains:
		recreation.Drain = drainer.drain
	}
	done, err := r.deleter.Recreate(ctx, r.Cluster, recreation)
	swapped.DeleteSent, swapped.FenceStood, swapped.Absent = done.DeleteSent, done.FenceStood, done.Absent
	swapped.Moved += drainer.moved
	swapped.Past += drainer.past
	if errors.Is(err, crashpoint.ErrCrashed) {
		freezer.abandon()
		return swapped, crashpoint.ErrCrashed
	}
	defer freezer.thaw()
	if err != nil {
		return swapped, whyNotSwapped(done, drainer.moved, err)
	}
	return swapped, r.awaitName(ctx, rec) // the messages of the tiers also arrive in the new queue
}

// mayDrain reports whether messages may be moved out of the queue while the fence is closed. Otherwise a message ends the swap.
func (r *Recreator) mayDrain(ctx context.Context, rec Recreation) (bool, error) {
	if rec.WithoutHold || r.hasSingleActiveConsumer(rec.Queue.Name) {
		return false, nil
	}
	err := r.checkMovable(ctx, rec.Queue.Name)
	if reason := ReasonOf(err); reason == LossyDeliveries || reason == LossyDeadLetters {
		return false, nil
	}
	return err == nil, err
}

// awaitName waits until RabbitMQ has written the name of a new queue to disk, unless no messages will be moved to the queue.
func (r *Recreator) awaitName(ctx context.Context, rec Recreation) error {
	if rec.WithoutHold {
		return nil
	}
	return retry.Sleep(ctx, r.Errors, registering)
}

// emptyAgain moves messages before the fence is closed: messages that returned from the tiers, and messages that arrived while Warren was
// down. If another client has bound the queue since Divert, messages may have come through its bindings.
func (r *Recreator) emptyAgain(ctx context.Context, rec Recreation, swapped *Swapped) error {
	late, err := r.divertAll(ctx, rec, nil)
	switch {
	case errors.Is(err, brokererr.ErrNotFound): // another client has deleted the hold
		return withReason(OperationRefused, err)
	case err != nil:
		return err
	}
	if late {
		if err := retry.Sleep(ctx, r.Errors, inFlight); err != nil {
			return err
		}
		rec.Emptied = false
	}
	progress, err := r.Empty(ctx, rec, nil)
	swapped.Moved += progress.Moved
	swapped.Past += progress.Past
	if err != nil {
		return err
	}
	return rec.checkPast(progress.Past)
}

// checkUnbound fails if another client has bound the queue since emptyAgain, because RabbitMQ would delete the binding with the queue. The
// next call of Swap moves the binding to the hold. If the client binds the queue again each time, the recreation is eventually backed out,
// as with NotProven. A binding that is made in the 0.3 s between this check and the delete is lost.
func (r *Recreator) checkUnbound(ctx context.Context, rec Recreation) error {
	bindings, err := r.bindingsOf(ctx, rec, rec.Queue.Name)
	if err == nil && len(bindings) > 0 {
		err = refuse(NotProven, "queue %q: another client has just bound the queue to exchange %q. Stop that client until the recreation "+
			"has ended", rec.Queue.Name, bindings[0].Source)
	}
	return err
}

// hasSingleActiveConsumer reports whether RabbitMQ refuses basic.get for a queue.
func (r *Recreator) hasSingleActiveConsumer(queue string) (single bool) {
	r.observer.View(func(s *snapshot.Snapshot) { single = s.Queues[queue].Arguments.SingleActiveConsumer() })
	return single
}

// isSentinelLeft reports whether a fence could not be taken down only because its queue may hold a sentinel. The fence is then open.
func isSentinelLeft(err error) bool {
	return errors.Is(err, brokererr.ErrUnproven) && !errors.Is(err, safedelete.ErrBusy)
}

// whyNotCleared adds a Reason to the error of a fence that could not be taken down. While the fence was open, it may have admitted more
// messages than a search for sentinels reads. The queue must then be emptied first.
func (r *Recreator) whyNotCleared(ctx context.Context, rec Recreation, err error) error {
	if now, uncounted := r.count(ctx, rec.Queue.Name); errors.Is(err, brokererr.ErrUnproven) && uncounted == nil && now.Ready > 0 {
		return withReason(PublishersPastBindings, err)
	}
	return withBrokerReason(err)
}

// isSwapped reports whether an earlier call has swapped the queue. If it returns no error, no delete is running.
func (r *Recreator) isSwapped(ctx context.Context, rec Recreation) (bool, error) {
	if rec.DeleteSent {
		isNew, err := r.deleter.SettleRecreation(ctx, r.Cluster, rec.Queue)
		if err != nil {
			return false, withReason(DeleteUncertain, err)
		}
		return isNew, nil
	}
	now, err := r.inspectQueue(ctx, rec, rec.Queue.Name)
	return now.Exists && r.isNew(now.Arguments, rec), err
}

// whyNotSwapped adds a Reason to an error of safedelete. drained is how many messages the drainer moved while the fence was closed. If it
// moved any, there may have been no time left for the proof.
func whyNotSwapped(done safedelete.Recreated, drained int, err error) error {
	switch {
	case done.DeleteSent:
		return withReason(DeleteUncertain, err)
	case ReasonOf(err) != "":
		return err
	case errors.Is(err, brokererr.ErrConsumed):
		return withReason(ConsumersCameBack, err)
	case errors.Is(err, brokererr.ErrNotEmpty) && errors.Is(err, brokererr.ErrPending):
		return withReason(MessagesPending, err)
	case errors.Is(err, brokererr.ErrNotEmpty), drained > 0 && errors.Is(err, brokererr.ErrUnproven):
		return withReason(PublishersPastBindings, err)
	case errors.Is(err, brokererr.ErrUnproven) && !errors.Is(err, brokererr.ErrPending):
		return withReason(NotProven, err)
	}
	return withBrokerReason(err)
}
