package safedelete

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// statsLag is how long the counters of a queue take to show that its sentinels have expired. Measured: 9 s at most, and longer
	// if the broker's collect_statistics_interval is longer.
	statsLag = 30 * time.Second
	// unnoticed is longer than a broker takes to detect a cut connection: two to three missed heartbeats.
	unnoticed = 4 * amqpconn.Heartbeat
	// maxArrival is the maximum time that a dead letter takes to arrive after a fence has refused it: twice the time after which the broker
	// retries (dead_letter_worker_publisher_confirm_timeout, 180 s), and a margin.
	maxArrival = 7 * time.Minute
)

// recovery takes down fences that a crash has left behind.
type recovery struct{ *Deleter }

// ClearLeftovers starts to take down fences that a crash has left behind and that the snapshot shows. It does not wait for the end of that
// work, because the refreshing goroutine calls it. read is when the read of the snapshot began. After a failure, the next refresh retries.
func (d *Deleter) ClearLeftovers(read time.Time) {
	if state := d.observer.State(); !state.MayWritePolicies || !state.Matched || !d.HoldsLease() {
		return
	}
	d.deletions.forgetMissing(d.isShown, read)
	leftovers, cluster := recovery{d}.leftoverFences()
	if len(leftovers) == 0 || !d.deletions.clear(true) {
		return
	}
	d.clearing.Go(func() {
		defer d.deletions.clear(false)
		connections := sync.OnceValues(recovery{d}.otherConnections)
		for _, found := range leftovers {
			ctx, cancel := context.WithTimeout(d.deletions.closing, undoing)
			err := recovery{d}.checkNoDelete(ctx, cluster, found)
			if err == nil {
				err = recovery{d}.checkNotConnected(found, connections)
			}
			if err == nil {
				err = recovery{d}.clearLeftover(ctx, cluster, found)
			}
			cancel()
			if err != nil {
				recovery{d}.logFailure(found.policy.Name, err)
				continue
			}
			d.deletions.forget(found.policy.Name)
			d.Log.Info("Took down a leftover fence", "vhost", d.VHost, "policy", found.policy.Name)
		}
	})
}

func (d *Deleter) isShown(name string) (shown bool) {
	d.observer.View(func(known *snapshot.Snapshot) {
		shown = slices.ContainsFunc(known.Fences, func(policy vhost.Policy) bool { return policy.Name == name })
	})
	return shown
}

// logFailure logs why a fence could not be taken down, once for each reason, because each refresh retries it.
func (r recovery) logFailure(policy string, reason error) {
	if r.deletions.recordFailure(policy, reason.Error()) {
		return
	}
	r.Log.Info("Cannot take down a fence; Warren retries after each refresh", "vhost", r.VHost,
		"policy", policy, "reason", reason.Error())
}

// recordFailure records why a fence could not be taken down, and reports whether the same reason was recorded before.
func (r *register) recordFailure(policy, reason string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.failures[policy] == reason
	r.failures[policy] = reason
	return known
}

// clear records that the clearing of fences begins or ends. It returns false if one already runs, or if the register is closed.
func (r *register) clear(begin bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if begin && (r.clearing || r.closed) {
		return false
	}
	r.clearing = begin
	return true
}

// fencesSeen are the fences that the last refresh showed and that this process does not use, each with the time at which it was
// first seen unchanged.
type fencesSeen map[string]fenceSeen

type fenceSeen struct {
	policy vhost.Policy
	since  time.Time
}

// leftover is a fence that no running deletion needs.
type leftover struct {
	policy vhost.Policy
	// foreign: another process put the fence up. The broker may not have detected yet that the process is gone.
	foreign bool
	// seen is how long the fence has been seen.
	seen time.Duration
	// isBare: the queue was declared after the sentinels were published, so it holds none.
	isBare bool
}

// isRepeated reports whether a repeated call of Recreate put the fence up.
func (l leftover) isRepeated() bool {
	name, _ := fence.ParseName(l.policy.Name)
	return name.Repeated
}

// leftoverFences returns fences that this connection could not take down, fences of its owner that it did not put up, and fences of
// other owners that were seen unchanged for longer than any deletion takes. It leaves out fences that a deletion of this process
// needs, on any connection. It ignores the time in the name of a fence: another clock may have written it, and the process that put
// the fence up may have been stopped for a while.
//
// A recreation takes its own fences down; see ClearRecreation. If a recreation does not continue, Warren cannot detect when the delete of
// the queue has ended. A recreation keeps its fence closed while that delete may be running, so such a fence must have been unchanged for
// longer, by Timeouts.Vanish.
//
// Only the leader works for an owner. A former leader lost the Lease longer ago than the budget lasts, so its deleteOne sends no more
// deletes. Warren takes its fences down before the sentinels expire, once no delete that it sent is running; see checkNoDelete.
func (r recovery) leftoverFences() (leftovers []leftover, cluster string) {
	var fences []vhost.Policy
	r.observer.View(func(known *snapshot.Snapshot) { fences, cluster = known.Fences, known.Cluster })
	now, sighted, next := time.Now(), fencesSeen{}, time.Duration(0)
	isKnown := func(string) bool { return true }
	if r.KnownOwners != nil {
		isKnown = r.KnownOwners()
	}
	for _, policy := range fences {
		name, _ := fence.ParseName(policy.Name)
		_, known := r.deletions.isTracked(policy.Name)
		own := known || name.Owner == r.Owner
		if r.Standing.Has(policy.Name) || name.Recreation && r.mayContinue(name.Owner, policy, isKnown) {
			continue
		}
		wait := r.Timeouts.Leftover
		if name.Recreation {
			own, wait = false, wait+r.Timeouts.Vanish
		}
		seen, before := r.sighted[policy.Name]
		if !before || !own && !snapshot.SamePolicy(seen.policy, policy) {
			seen = fenceSeen{policy, now}
		}
		sighted[policy.Name] = seen
		age := now.Sub(seen.since)
		if left := wait - age; !own && left > 0 {
			if next == 0 || left < next {
				next = left
			}
			continue
		}
		leftovers = append(leftovers, leftover{policy: policy, foreign: !known || name.Recreation, seen: age})
	}
	if r.sighted = sighted; next > 0 {
		r.deletions.refreshIn(next, r.observer.RequestRefresh)
	}
	return leftovers, cluster
}

// mayContinue reports whether the recreation that put up a fence may be under way. If another owner of this process put it up, that owner's
// connection decides.
func (r recovery) mayContinue(owner string, policy vhost.Policy, isKnown func(owner string) bool) bool {
	if owner != r.Owner {
		return isKnown(owner)
	}
	return r.Recreates == nil || slices.ContainsFunc(fence.QueuesOf(policy.Pattern.String()), r.Recreates)
}

func (r recovery) clearLeftover(ctx context.Context, cluster string, found leftover) error {
	now, err := r.api.Cluster(ctx)
	if err != nil {
		return err
	}
	if err := r.errs.SameCluster(now, cluster); err != nil {
		return err
	}
	if err := r.checkVanished(ctx, cluster, found.policy.Name); err != nil {
		return err
	}
	name, pattern, definition := found.policy.Name, found.policy.Pattern.String(), found.policy.Definition
	f := fence.Fence{Name: name, Pattern: pattern, Queues: fence.QueuesOf(pattern), Priority: found.policy.Priority, Effective: definition}
	if err := r.addUnderlying(ctx, &f); err != nil {
		return err
	}
	// An open fence also has this key. Opening it again changes nothing.
	closed := definition[vhost.KeyOverflow] == vhost.OverflowRejectPublish
	if f.Drops { // otherwise a policy that a user has changed would have no effect
		closed = !definition.Equal(f.Harmless())
	}
	inside := sentinelCounts{of: map[string]int{}}
	for _, queue := range f.Queues {
		if found.isBare {
			break
		}
		inside.of[queue] = Sentinels // the maximum, because more sentinels are published only after the first ones are taken out
	}
	lost := &search{
		Deleter: r.Deleter, fence: f, cluster: cluster, missing: inside.count, gone: func(string) {},
		mayBeHeld: found.foreign && found.seen < unnoticed, published: r.publishedAfter(name),
	}
	return r.lift(ctx, f, closed, func() ([]string, error) {
		if err := r.arrived(ctx, cluster); err != nil {
			return nil, err
		}
		return lost.run(ctx)
	})
}

// addUnderlying adds to a leftover fence the policy that applies to its queues without it, so that the fence can be made harmless. It adds
// none if several policies may apply.
func (r recovery) addUnderlying(ctx context.Context, f *fence.Fence) error {
	policies, err := r.policies.get(ctx, r.errs)
	if err != nil {
		return err
	}
	policies = WithoutFences(policies)
	var underlying vhost.Arguments
	for i, queue := range f.Queues {
		applied, unclear := holdingPolicy(queue, policies, false)
		if unclear != "" || i > 0 && !applied.Definition.Equal(underlying) {
			return nil
		}
		underlying = applied.Definition
	}
	f.Effective, f.Drops = underlying, true
	return nil
}

// maxClockDifference is how far apart the clocks of two managers of one owner may be.
const maxClockDifference = time.Minute

// publishedAfter returns a time before the first sentinel of a fence was published. The name of the fence contains the time when the
// fence was put up, by the clock of the manager that put it up. The clocks of other owners are unknown, so it returns zero for their
// fences.
func (r recovery) publishedAfter(policy string) time.Time {
	name, own := fence.ParseName(policy)
	if !own || name.Owner != r.Owner {
		return time.Time{}
	}
	return name.Begun.Add(-maxClockDifference)
}

// checkVanished fails while RabbitMQ may still be deleting a queue behind a fence.
func (r recovery) checkVanished(ctx context.Context, cluster, policy string) error {
	for _, queue := range r.deletions.mayVanish(policy) {
		_, exists, err := r.held(ctx, cluster, queue)
		if err == nil && exists {
			err = r.errs.Fail(brokererr.ErrUnproven, stillDeleting, queue)
		}
		if err != nil {
			r.deletions.refreshIn(time.Second, r.observer.RequestRefresh)
			return err
		}
	}
	return nil
}

// checkNoDelete fails while a delete of a process that has ended may still take effect behind a closed fence. A delete can outlive its
// process, because the broker reads everything that a connection has sent before it detects the end of the connection. A message that the
// queue takes before the delete would be lost. The channel that deletes a queue holds a sentinel, so the broker counts it as a consumer.
// checkNoDelete cannot distinguish other consumers from it, so it passes after Timeouts.Vanish in any case.
func (r recovery) checkNoDelete(ctx context.Context, cluster string, found leftover) error {
	if !found.foreign || !fence.IsClosed(found.policy.Definition) || found.seen >= r.Timeouts.Vanish {
		return nil
	}
	queues := fence.QueuesOf(found.policy.Pattern.String())
	err := firstOf(queues, forEach(ctx, r.errs, queues, func(queue string) error {
		return r.checkUnheld(ctx, cluster, found, queue)
	}))
	if err != nil {
		r.deletions.refreshIn(time.Second, r.observer.RequestRefresh)
	}
	return err
}

// checkNotConnected fails for the fence of a recreation if its owner may be connected to the vhost. It passes if the user may not list
// connections. It calls connections only for such a fence.
func (r recovery) checkNotConnected(found leftover, connections func() (mayHave func(owner string) bool, err error)) error {
	name, _ := fence.ParseName(found.policy.Name)
	if !name.Recreation {
		return nil
	}
	mayHave, err := connections()
	if err == nil && mayHave(name.Owner) {
		err = r.errs.Fail(brokererr.ErrShared,
			"owner %s belongs to another instance, which may be connected and may still recreate the queue", name.Owner)
	}
	return err
}

// otherConnections lists the connections of other instances. The list can be large, so it serves all fences.
func (r recovery) otherConnections() (mayHave func(owner string) bool, err error) {
	ctx, cancel := context.WithTimeout(r.deletions.closing, undoing)
	defer cancel()
	return r.observer.OtherConnections(ctx)
}

// checkUnheld fails if a channel may hold a sentinel of a queue. During a delete one sentinel is held and the other is ready, so no delete
// is running on an empty queue. A count of zero messages and consumers proves nothing; see takeAll. The answer to a basic.get comes from
// the leader of the queue, and shows whether the queue is empty. An empty queue proves nothing if the ready sentinel may have expired.
// checkUnheld gets another client's message only once, because the queue may count the delivery.
func (r recovery) checkUnheld(ctx context.Context, cluster string, found leftover, queue string) error {
	policy := found.policy.Name
	now, exists, err := r.held(ctx, cluster, queue)
	switch {
	case err != nil, !exists, now.Consumers == 0 && now.Messages > 0:
		return err
	case now.Consumers > 0 || r.deletions.hasBrowsed(policy, queue) || r.mayHaveExpired(found, queue):
		return r.errs.Fail(brokererr.ErrUnproven, stillDeleting, queue)
	}
	err = r.changer.DoToTheEnd(ctx, cluster, func(channel *amqp.Channel) error {
		message, ok, err := get(channel, queue)
		if err != nil || !ok {
			return err
		}
		return r.unprovenBy(message, policy, queue)
	})
	if errors.Is(err, brokererr.ErrResourceLocked) { // a single active consumer
		return r.checkUnheldAsConsumer(ctx, cluster, policy, queue)
	}
	return err
}

// unprovenBy returns a message to the queue, and an error: while the queue holds a message, a delete may be running. If the message is of
// another client, it calls recordBrowse, so that checkUnheld does not get one again.
func (r recovery) unprovenBy(message amqp.Delivery, policy, queue string) error {
	if !IsSentinel(&message) {
		r.deletions.recordBrowse(policy, queue)
	}
	return errors.Join(r.errs.Fail(brokererr.ErrUnproven, stillDeleting, queue), putBack(message))
}

// checkUnheldAsConsumer is checkUnheld for a queue with a single active consumer, which refuses basic.get. It consumes messages instead. A
// count that includes its consumer is current, because a queue that is too busy to count reports no consumer. A channel that deletes the
// queue is the active consumer and holds one sentinel. It cannot get the other sentinel, which therefore counts as ready. If that consumer
// was cancelled, its channel counts as a second consumer. So with one consumer and no ready message, no delete is running.
func (r recovery) checkUnheldAsConsumer(ctx context.Context, cluster, policy, queue string) error {
	unproven := r.errs.Fail(brokererr.ErrUnproven, stillDeleting, queue)
	return r.changer.DoExclusively(ctx, cluster, func(exclusive amqpconn.Exclusive) error {
		messages, err := consumeSlowly(exclusive.Channel, queue)
		if err != nil {
			return err
		}
		if message, found := next(ctx, messages, time.After(consumerWait)); found {
			return errors.Join(stopConsuming(exclusive.Channel, messages), r.unprovenBy(message, policy, queue))
		}
		now, exists, err := amqpconn.DeclaredQueue(exclusive.Channel, queue)
		if err == nil && exists && (now.Consumers != 1 || now.Messages > 0) {
			err = unproven
		}
		return errors.Join(err, stopConsuming(exclusive.Channel, messages))
	})
}

// mayHaveExpired reports whether a sentinel behind a fence may have expired.
func (r recovery) mayHaveExpired(found leftover, queue string) bool {
	sentinels := &search{
		Deleter: r.Deleter, fence: fence.Fence{Effective: found.policy.Definition}, published: r.publishedAfter(found.policy.Name),
	}
	_, expires := sentinels.ttl(queue)
	return expires && sentinels.mayHaveExpired(queue)
}
