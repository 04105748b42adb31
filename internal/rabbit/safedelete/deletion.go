package safedelete

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/crashpoint"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// shortestTTL is the shortest message TTL that a queue may have. Sentinels must not expire.
	shortestTTL = time.Second
	// budget is the time from the first fence to the last deletion. Another manager treats a fence as left behind only after
	// Timeouts.Leftover, which is twice as long.
	budget = 10 * time.Second
	// undoing limits the undoing of a batch, and the clearing of one leftover fence.
	undoing = 10 * time.Second
	// goneWithin is how long undo waits for the end of a deletion that the broker has not answered. gonePause is the time between
	// two checks.
	goneWithin = 3 * time.Second
	gonePause  = 50 * time.Millisecond
	// unanswered is the maximum time that RabbitMQ takes to delete a queue. RabbitMQ waits 5 s for the members of the queue before it stops
	// them.
	unanswered = 30 * time.Second
	// attempts is the maximum number of attempts of a proof.
	attempts = 4
	// maxDrains limits how often one attempt drains a queue.
	maxDrains = 20
)

// promptness is how long the last check before a deletion may take, at each attempt. A shorter check leaves less time between the broker's
// count and the deletion. Later attempts accept a longer check, because the broker may be far away or busy.
var promptness = []time.Duration{
	10 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
}

// The steps of a deletion, as Settings.Crash gets them.
const (
	StepPrechecked = "prechecked"
	StepFenced     = "fenced"
	StepProven     = "proven"
	StepSettled    = "settled"
	StepOne        = "one deleted"
	stepDeleted    = "deleted"
	StepOpened     = "opened"
)

// DeleteEmpty deletes queues in the given order if each of them is provably empty and has no consumers. Otherwise it deletes
// none. It fails if the broker does not belong to the given cluster. Queues that do not exist count as deleted. A call takes
// about a second, and longer while other calls have fences up. Calls for different queues run at the same time, and may share a
// fence.
//
// A queue that is not proven empty is retained: the error wraps ErrNotEmpty if the queue holds messages or has consumers, and ErrUnproven
// if Warren cannot determine it. DeleteEmpty writes policies, for which the user needs the tag policymaker (ErrAccessRefused). The call
// never deletes messages that the broker has confirmed to other clients, even if ctx ends. It takes its fences down. If the broker is
// unreachable, a later refresh does so. If a queue gets a message or a consumer after other queues of its group were deleted, the call
// declares the deleted queues again, with their bindings.
//
// RabbitMQ cannot delete a quorum queue on condition that it is empty. Behind a fence, a queue takes a message only if it has no ready and
// no pending message. If the queue takes a sentinel, which is a message of Warren, the queue is empty (see proveAll). The sentinels then
// keep the fence closed until the queue is deleted. The proof does not use the broker's statistics. The fence cannot stop a message that
// expires, or is dead-lettered at most once, into the queue within the last millisecond.
//
// stillDeletable, if it is not nil, is called right before the fence goes up, after all waiting. An error of stillDeletable ends the
// call before anything is changed at the broker, and is returned as it is.
func (d *Deleter) DeleteEmpty(
	ctx context.Context, cluster string, queues []string, stillDeletable func(context.Context) error,
) error {
	queues = unique(queues)
	if err := d.mayDelete(cluster, queues); err != nil || len(queues) == 0 {
		return err
	}
	ctx, end, err := d.begin(ctx, queues)
	if err != nil {
		return err
	}
	defer end()
	err = d.deleteGroup(&group{ctx: ctx, cluster: cluster, queues: queues, stillDeletable: stillDeletable, done: make(chan error, 1)})
	if ctx.Err() != nil && !errors.Is(err, crashpoint.ErrCrashed) && err != nil {
		return d.errs.Ended(ctx, err)
	}
	return err
}

// begin is register.begin with an error that names the queue in use. The error also wraps ErrUnproven.
func (d *Deleter) begin(ctx context.Context, queues []string) (context.Context, func(), error) {
	ctx, end, busy, err := d.deletions.begin(ctx, queues)
	if errors.Is(err, ErrBusy) {
		text := fmt.Sprintf("%v: queue %q is being deleted by another call", brokererr.ErrUnproven, busy)
		err = d.errs.Because([]error{brokererr.ErrUnproven, ErrBusy}, text)
	}
	return ctx, end, err
}

// deleteGroup checks a group, and enqueues it for a batch. It does not enqueue a group that cannot be deleted.
func (d *Deleter) deleteGroup(g *group) error {
	if err := d.precheck(g); err != nil || len(g.queues) == 0 {
		return err
	}
	if err := d.Crash.Pass(StepPrechecked); err != nil {
		return err
	}
	g.kind = d.kindOf(g)
	return d.batches.wait(d.errs, g)
}

func unique(names []string) []string {
	var kept []string
	for _, name := range names {
		if !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	return kept
}

func (d *Deleter) mayDelete(cluster string, queues []string) error {
	state := d.observer.State()
	if !state.Cluster.Known() {
		return d.errs.Fail(brokererr.ErrUnreachable, "the broker has not been reached yet")
	}
	if err := d.errs.SameCluster(state.Cluster, cluster); err != nil {
		return err
	}
	for _, queue := range queues {
		if queue == "" || len(queue) > vhost.MaxNameLength {
			return d.errs.Fail(brokererr.ErrPreconditionFailed, "queue %q: no queue can have this name", queue)
		}
	}
	if !d.HoldsLease() {
		return brokererr.ErrNotLeader
	}
	if !state.MayWritePolicies {
		return d.errs.Fail(brokererr.ErrAccessRefused,
			"user %q lacks the tag policymaker, which Warren needs to show that a queue is empty", d.User)
	}
	return nil
}
