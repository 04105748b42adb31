package safedelete

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/crashpoint"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Recreation is a queue that is deleted if it is provably empty, and declared again.
type Recreation struct {
	// Queue is the queue with the arguments of its new declaration.
	Queue topology.Queue
	// Repeats: the queue already has its new arguments.
	Repeats bool
	// Begin is called right before the fence goes up, after all waiting, perhaps several times. Its error ends the call, and is
	// returned as it is. Begin may be nil.
	Begin func(context.Context) error
	// Drain moves all ready messages of the queue elsewhere. It is called while the fence is closed, before each attempt of the
	// proof. Its error ends the call, and is returned as it is. If Drain is nil, a message in the queue ends the call.
	Drain func(context.Context) error
	// RecordDelete is called before the delete is sent, while the fence is closed. Its error ends the call, and is returned as it is.
	RecordDelete func(context.Context) error
}

// Recreated is the result of Recreate.
type Recreated struct {
	// DeleteSent: a queue.delete was sent. If Recreate also returns an error, the deletion may still be running.
	DeleteSent bool
	// FenceStood is how long the fence was closed. Absent is the maximum time for which the queue did not exist. Both are zero if unknown.
	FenceStood, Absent time.Duration
}

// Recreate deletes a queue as DeleteEmpty does, and declares it with other arguments. It sends both in one write. In between, the queue
// does not exist for some milliseconds, and RabbitMQ drops a message that is published to it by name without mandatory. If the queue does
// not exist, Recreate only declares it.
//
// While RabbitMQ may be deleting the queue, the fence stays closed and the queue is not declared. A delete can outlive its connection, and
// then deletes any queue with this name. Such a call returns an error and DeleteSent, and SettleRecreation continues its work. Before
// another call, ClearRecreation must take down the fence of an earlier one.
func (d *Deleter) Recreate(ctx context.Context, cluster string, recreation Recreation) (Recreated, error) {
	queues := []string{recreation.Queue.Name}
	if err := d.mayDelete(cluster, queues); err != nil {
		return Recreated{}, err
	}
	ctx, end, err := d.begin(ctx, queues)
	if err != nil {
		return Recreated{}, err
	}
	defer end()
	g := &group{
		ctx: ctx, cluster: cluster, queues: queues, stillDeletable: recreation.Begin, recreation: &recreation, done: make(chan error, 1),
	}
	err = d.deleteGroup(g)
	g.outcome.DeleteSent = g.begun
	switch {
	case err == nil && !g.declared:
		err = d.declareIfGone(ctx, cluster, recreation)
	case err != nil && ctx.Err() != nil && !errors.Is(err, crashpoint.ErrCrashed):
		err = d.errs.Ended(ctx, err)
	}
	return g.outcome, err
}

// SettleRecreation determines the state of a queue for which an earlier call may have sent a delete. It declares the queue if it is gone,
// and reports whether the queue has its new arguments. If the queue still has other arguments after Timeouts.Vanish, no delete is running
// any more. SettleRecreation fails if it cannot read the arguments.
//
// The arguments do not show the end of a delete that a repeated call has sent. SettleRecreation waits for that end behind the fence of
// the repeated call.
func (d *Deleter) SettleRecreation(ctx context.Context, cluster string, queue topology.Queue) (isNew bool, err error) {
	ctx, end, err := d.begin(ctx, []string{queue.Name})
	if err != nil {
		return false, err
	}
	defer end()
	if err := d.awaitRepeatedDelete(ctx, cluster, queue.Name); err != nil {
		return false, err
	}
	within, cancel := context.WithTimeout(ctx, d.Timeouts.Vanish)
	defer cancel()
	if err := d.declareOnceGone(within, cluster, Recreation{Queue: queue}); err == nil {
		return true, nil
	} else if ctx.Err() != nil {
		return false, d.errs.Ended(ctx, err)
	}
	err = d.declareIfGone(ctx, cluster, Recreation{Queue: queue}) // the management API may not have answered during the wait
	if errors.Is(err, errOtherArguments) {
		return false, nil
	}
	return err == nil, err
}

// ClearRecreation takes down the fences of this owner's recreations that match a queue, and takes out their sentinels. No delete of the
// queue may be running. ClearRecreation fails with ErrUnproven if the queue may still hold a sentinel. The fence is then open, and its
// policy remains as the record. isNew means that a recreation has declared the queue, so it holds no sentinel, except behind the fence of
// a repeated call. ClearRecreation fails with ErrShared if another owner recreates the queue.
func (d *Deleter) ClearRecreation(ctx context.Context, cluster, queue string, isNew bool) error {
	ctx, end, err := d.begin(ctx, []string{queue})
	if err != nil {
		return err
	}
	defer end()
	return d.eachRecreationFence(ctx, queue, func(left leftover) error {
		left.isBare = isNew && !left.isRepeated()
		if err := (recovery{d}).clearLeftover(ctx, cluster, left); err != nil {
			return err
		}
		d.deletions.forget(left.policy.Name)
		return nil
	})
}

// CheckNoDelete fails with ErrUnproven while a process that is gone may still delete a queue behind the closed fence of a recreation.
func (d *Deleter) CheckNoDelete(ctx context.Context, cluster, queue string) error {
	ctx, end, err := d.begin(ctx, []string{queue})
	if err != nil {
		return err
	}
	defer end()
	return d.eachRecreationFence(ctx, queue, func(left leftover) error { return recovery{d}.checkNoDelete(ctx, cluster, left) })
}

// awaitRepeatedDelete waits until no delete of a repeated call can take effect behind its fence, but not longer than Timeouts.Vanish.
func (d *Deleter) awaitRepeatedDelete(ctx context.Context, cluster, queue string) error {
	for {
		err := d.eachRecreationFence(ctx, queue, func(left leftover) error {
			if !left.isRepeated() {
				return nil
			}
			return recovery{d}.checkNoDelete(ctx, cluster, left)
		})
		if !errors.Is(err, brokererr.ErrUnproven) || retry.Sleep(ctx, d.errs, time.Second) != nil { // each time lists the policies
			return err
		}
	}
}

// eachRecreationFence calls a function with each fence of this owner's recreations that matches a queue, until an error. It fails with
// ErrShared at a fence of another owner.
func (d *Deleter) eachRecreationFence(ctx context.Context, queue string, do func(leftover) error) error {
	policies, err := d.policies.get(ctx, d.errs)
	if err != nil {
		return err
	}
	for _, policy := range policies {
		name, own := fence.ParseName(policy.Name)
		if !own || !name.Recreation || policy.Operator || !slices.Contains(fence.QueuesOf(policy.Pattern.String()), queue) {
			continue
		}
		if name.Owner != d.Owner {
			return d.errs.Fail(brokererr.ErrShared, "queue %q: policy %q of another instance exists", queue, policy.Name)
		}
		if !d.HoldsLease() {
			return brokererr.ErrNotLeader
		}
		// A cut connection, even of this process, may hold a sentinel until RabbitMQ detects the cut.
		if err := do(leftover{policy: policy, foreign: true, seen: time.Since(d.deletions.firstSeen(policy.Name))}); err != nil {
			return err
		}
	}
	return nil
}

// declareOnceGone waits until a queue is gone and declares it. It returns nil once the queue has its new arguments. In a repeated call the
// queue had them before, and declareOnceGone returns nil once it has declared the queue again. RabbitMQ can fail to declare a queue right
// after the deletion: 4.3 sometimes answers cluster_not_formed and closes the connection. So declareOnceGone retries until the context
// ends.
func (d *Deleter) declareOnceGone(ctx context.Context, cluster string, recreation Recreation) error {
	for {
		err := d.declareIfGone(ctx, cluster, recreation)
		if err == nil {
			return nil
		}
		if retry.Sleep(ctx, d.errs, gonePause) != nil {
			return err
		}
	}
}

// errOtherArguments: the queue exists and does not have its new arguments.
var errOtherArguments = errors.New("other arguments")

func (d *Deleter) declareIfGone(ctx context.Context, cluster string, recreation Recreation) error {
	queue := recreation.Queue
	_, exists, err := d.held(ctx, cluster, queue.Name)
	if err != nil {
		return err
	}
	switch {
	case !exists:
		d.gone(queue.Name)
		return d.changer.Declare(ctx, cluster, queue, nil)
	case recreation.Repeats:
		return d.errs.Fail(brokererr.ErrUnproven, stillDeleting, queue.Name)
	}
	info, err := d.queueInfo(ctx, queue.Name, management.WithoutStatistics)
	switch {
	case err != nil:
		return err
	case info == nil:
		return d.errs.Fail(brokererr.ErrUnproven, stillDeleting, queue.Name)
	case !snapshot.SameArguments(vhost.Normalize(info.Arguments), vhost.Normalize(queue.Arguments)):
		text := fmt.Sprintf("%v: "+stillDeleting, brokererr.ErrUnproven, queue.Name)
		return d.errs.Because([]error{brokererr.ErrUnproven, errOtherArguments}, text)
	}
	return nil
}

// recreationOf returns the group that recreates a queue; nil if there is none.
func (b *batch) recreationOf(queue string) *group {
	for _, g := range b.groups {
		if g.recreation != nil && g.recreation.Queue.Name == queue {
			return g
		}
	}
	return nil
}

// drains reports whether a queue is drained before each attempt of its proof.
func (b *batch) drains(queue string) bool {
	g := b.recreationOf(queue)
	return g != nil && g.recreation.Drain != nil
}

// drain moves the messages of queues elsewhere. A failure becomes the error of its group.
func (b *batch) drain(ctx context.Context, queues []string) {
	for _, queue := range queues {
		if b.drains(queue) {
			g := b.recreationOf(queue)
			b.failUnlessEnded(ctx, g, g.recreation.Drain(ctx))
		}
	}
}

// recordDelete calls RecordDelete of each recreation, so that the caller records the delete before it is sent.
func (b *batch) recordDelete(ctx context.Context) error {
	for _, g := range b.groups {
		if g.recreation != nil {
			b.fail(g, g.recreation.RecordDelete(ctx))
		}
	}
	if b.anyFailed() {
		return errReleased
	}
	return nil
}

// swap deletes and declares a queue. The broker executes both in this order and answers neither. It answers the second
// declaration, which changes nothing.
func (r removal) swap(channel amqpconn.Exclusive, g *group) error {
	queue, arguments := g.recreation.Queue.Name, amqpconn.Table(g.recreation.Queue.Arguments)
	begun := time.Now()
	err := amqpconn.Timed("queue.delete", func() error {
		err := channel.Together(func() error {
			_, err := channel.QueueDelete(queue, false, false, true)
			if err == nil {
				_, err = channel.QueueDeclare(queue, true, false, false, true, arguments)
			}
			return err
		})
		if err == nil {
			_, err = channel.QueueDeclare(queue, true, false, false, false, arguments)
		}
		return err
	})
	if err == nil {
		r.swapped(g, time.Since(begun))
	}
	return err
}

// swapped records that a queue was declared again, in the batch and in the snapshot.
func (b *batch) swapped(g *group, absent time.Duration) {
	queue := g.recreation.Queue
	b.mu.Lock()
	g.declared, g.outcome.Absent = true, absent
	delete(b.sent, queue.Name)
	b.mu.Unlock()
	b.count(queue.Name, -Sentinels)
	b.deleter.observer.Write(snapshot.Write{ID: vhost.QueueID(queue.Name), Apply: func(known *snapshot.Snapshot) bool {
		dropped := known.DropQueue(queue.Name)
		item := management.QueueItem{Durable: true, Arguments: queue.Arguments}
		return known.PutQueue(queue.Name, item.Observed()) || dropped
	}})
}

// opened records how long the fence was closed.
func (b *batch) opened() {
	for _, g := range b.groups {
		g.outcome.FenceStood = time.Since(b.closed)
	}
}
