package safedelete

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// shortestTTL is the shortest time after which a queue may let messages expire: a sentinel must not.
	shortestTTL = time.Second
	// budget is the time from the first sentinel to the last deletion. Others take a fence for left behind after
	// timing.stray, which is far longer.
	budget = 10 * time.Second
	// promptness is how long the last check before a deletion may take.
	promptness = 100 * time.Millisecond
	// undoing is the time that undoing may take.
	undoing = 10 * time.Second
	// attempts is how often at most a proof is tried.
	attempts = 4
	// proofsAtOnce is how many queues of a group are proved empty at the same time.
	proofsAtOnce = 4
)

// The steps of a deletion, as tests call them.
const (
	StepLooked  = "looked"
	StepFenced  = "fenced"
	StepProved  = "proved"
	StepSettled = "settled"
	StepOne     = "one deleted"
	stepDeleted = "deleted"
	StepOpened  = "opened"
)

// DeleteEmpty deletes queues, in the order given, if every one of them is provably empty and without consumers; otherwise
// none. cluster is as for Remove. Queues that do not exist count as deleted. A call takes about a second, and longer while
// others have their fences up; calls for different queues go on at the same time.
//
// What is not proved stays: the error wraps ErrNotEmpty if a queue holds messages or has consumers, ErrUnproven if that
// cannot be told. It writes policies, for which the user needs the tag policymaker (ErrAccessRefused). Whatever happens,
// and also when ctx ends, messages that the broker confirmed to others stay, and what was put up is taken down; what
// cannot be, because the broker is gone, is when it is back. If something comes into a queue after the first of them is
// deleted, the deleted ones are declared again, with their bindings.
//
// RabbitMQ cannot delete a queue on condition that it is empty. So a policy, the fence, lets a queue take a message only
// if the queue has none, ready or pending; that it takes a sentinel, a message of Warren's, is the proof (see prove). The
// sentinels then keep the fence closed, until the queue is deleted. Nothing rests on the broker's statistics. What expires
// or is dead-lettered into the queue at-most-once within the last millisecond passes the fence.
//
// stillWanted, if it is not nil, is called right before the fence goes up, after all waiting. An error of stillWanted ends
// the call before anything is changed at the broker, and is returned as it is.
func (s *Deleter) DeleteEmpty(
	ctx context.Context, cluster string, queues []string, stillWanted func(context.Context) error,
) error {
	queues = unique(queues)
	if err := s.mayDelete(cluster, queues); err != nil || len(queues) == 0 {
		return err
	}
	ctx, end, busy, err := s.deletions.begin(ctx, queues)
	switch {
	case errors.Is(err, errBusy):
		return s.errs.Fail(brokererr.ErrUnproven, "queue %q is being deleted by another call", busy)
	case err != nil:
		return err
	}
	defer end()
	d := &deletion{
		deleter: s, cluster: cluster, queues: queues, stillWanted: stillWanted,
		stats: map[string]*queueStats{}, inside: map[string]int{},
	}
	err = d.run(ctx)
	if ctx.Err() != nil && !errors.Is(err, ErrAbandoned) && err != nil {
		return s.errs.Ended(ctx, err)
	}
	return err
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

func (s *Deleter) mayDelete(cluster string, queues []string) error {
	state := s.broker.State()
	if !state.Cluster.Known() {
		return s.errs.Fail(brokererr.ErrUnreachable, "the broker has not been reached yet")
	}
	if err := s.errs.SameCluster(state.Cluster, cluster); err != nil {
		return err
	}
	for _, queue := range queues {
		if queue == "" || len(queue) > vhost.LongestName {
			return s.errs.Fail(brokererr.ErrPreconditionFailed, "queue %q: no queue can have this name", queue)
		}
	}
	if !state.MayWritePolicies {
		return s.errs.Fail(brokererr.ErrAccessRefused, "user %q lacks the tag policymaker, without which no queue can be shown to be empty",
			s.User)
	}
	return nil
}

// deletion is one call of DeleteEmpty.
type deletion struct {
	deleter *Deleter
	cluster string
	// queues are those that exist, as far as is known.
	queues []string
	// stillWanted is the caller's last word before the fence goes up; it may be nil.
	stillWanted func(context.Context) error

	stats    map[string]*queueStats
	fences   []fence.Fence
	priority int // of the fences
	deleted  []deletedQueue
	// published is when the first sentinel was about to be.
	published time.Time

	proving sync.Mutex // guards what follows while several queues are proved empty
	// inside is how many sentinels there can be, by queue.
	inside map[string]int
}

// ErrAbandoned ends a deletion without undoing anything, as a crash would. Tests only.
var ErrAbandoned = errors.New("abandoned")

// step is called between two steps.
func (d *deletion) step(name string) error {
	if d.deleter.Between != nil && !d.deleter.Between(name) {
		return ErrAbandoned
	}
	return nil
}

func (d *deletion) run(ctx context.Context) error {
	if err := (preflight{d}).checkQueues(ctx); err != nil || len(d.queues) == 0 { // nobody waits for a place in vain
		return err
	}
	if err := d.step(StepLooked); err != nil {
		return err
	}
	return d.deleter.deletions.fenced(ctx, d.deleter.errs, func() error {
		planned, err := preflight{d}.planFences(ctx)
		if err != nil || len(d.queues) == 0 {
			return err
		}
		err = d.fenceAndDelete(ctx, planned)
		if errors.Is(err, ErrAbandoned) {
			return err
		}
		return d.undo(ctx, err)
	})
}

// fenceAndDelete has left traces when it returns, whatever it returns.
func (d *deletion) fenceAndDelete(ctx context.Context, planned []fence.Fence) error {
	if err := d.deleter.sentinels.check(ctx, d.cluster); err != nil {
		return err
	}
	if err := d.deleter.broker.CheckUnshared(ctx); err != nil {
		return err
	}
	if d.stillWanted != nil {
		if err := d.stillWanted(ctx); err != nil {
			return err
		}
	}
	for _, f := range planned {
		d.fences = append(d.fences, f)
		d.deleter.deletions.trackFence(f.Name)
		if err := d.deleter.api.PutPolicy(ctx, f.Name, f.Pattern, f.Priority, f.Closed()); err != nil {
			return err
		}
	}
	if err := d.step(StepFenced); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	err := d.deleteWithin(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return d.slow("it took longer than %v: %v", budget, err)
	}
	return err
}

func (d *deletion) deleteWithin(ctx context.Context) error {
	d.published = time.Now()
	if err := (proof{d}).proveAll(ctx); err != nil {
		return err
	}
	if err := d.step(StepProved); err != nil {
		return err
	}
	policies, err := d.deleter.policies(ctx)
	if err != nil {
		return err
	}
	if err := (preflight{d}).checkUnhindered(policies); err != nil {
		return err
	}
	if err := (proof{d}).settle(ctx); err != nil {
		return err
	}
	if err := d.step(StepSettled); err != nil {
		return err
	}
	if err := (removal{d}).delete(ctx); err != nil {
		return err
	}
	return d.step(stepDeleted)
}

func (d *deletion) unproven(format string, args ...any) error {
	return d.deleter.errs.Fail(brokererr.ErrUnproven, format, args...)
}

// slow is unproven for want of time.
func (d *deletion) slow(format string, args ...any) error {
	text := fmt.Sprintf("%v: %s", brokererr.ErrUnproven, fmt.Sprintf(format, args...))
	return d.deleter.errs.Because([]error{brokererr.ErrUnproven, errSlow}, text)
}

// undo takes down what was put up, with a time of its own, and returns the reason why there is something to undo.
func (d *deletion) undo(ctx context.Context, reason error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoing)
	defer cancel()
	if reason != nil {
		reason = restoration{d}.restore(ctx, reason)
	}
	left := false
	for _, f := range d.fences {
		err := d.deleter.lift(ctx, f, len(d.queues) > 0, func() error {
			if err := d.step(StepOpened); err != nil {
				return err
			}
			return d.takeOut(ctx, f)
		})
		if errors.Is(err, ErrAbandoned) {
			return err
		}
		d.deleter.deletions.untrackFence(f.Name, err == nil)
		if err != nil {
			left = true
			recovery{d.deleter}.tellOfFence(f.Name, err)
		}
	}
	if left {
		d.deleter.broker.RequestRefresh()
	}
	return reason
}

// takeOut takes the sentinels of a fence out of the queues that are left.
func (d *deletion) takeOut(ctx context.Context, f fence.Fence) error {
	if d.deleter.deletions.mayArrive(f.Name) {
		if err := d.deleter.arrived(ctx, d.cluster); err != nil {
			return err
		}
	}
	f.Queues = slices.DeleteFunc(slices.Clone(f.Queues), func(queue string) bool {
		return d.inside[queue] == 0 || !slices.Contains(d.queues, queue)
	})
	return sentinelAcks{d.deleter}.ackAllSentinels(ctx, f, time.Since(d.published), func(queue string) ackOptions {
		return ackOptions{
			cluster: d.cluster, max: d.inside[queue], patience: d.deleter.Times.Settle,
			match: func(name string) bool { return name == f.Name },
		}
	}, d.gone)
}

// gone takes note that a queue does not exist any more.
func (d *deletion) gone(queue string) {
	d.queues = slices.DeleteFunc(slices.Clone(d.queues), func(other string) bool { return other == queue })
	d.deleter.broker.Write(snapshot.Write{
		ID: vhost.QueueID(queue), Apply: func(s *snapshot.Snapshot) bool { return s.DropQueue(queue) },
	})
}

// count changes how many sentinels there can be in a queue, and returns the number.
func (d *deletion) count(queue string, change int) int {
	d.proving.Lock()
	defer d.proving.Unlock()
	d.inside[queue] += change
	return d.inside[queue]
}

func (d *deletion) fenceOf(queue string) fence.Fence {
	return d.fences[slices.IndexFunc(d.fences, func(f fence.Fence) bool { return slices.Contains(f.Queues, queue) })]
}

// ttl is the shortest of the queues' times to live; false if nothing expires.
func (d *deletion) ttl() (shortest time.Duration, expires bool) {
	for _, queue := range d.queues {
		if limit, set := d.stats[queue].lowest(vhost.KeyMessageTTL); set {
			ttl := time.Duration(limit) * time.Millisecond
			if !expires || ttl < shortest {
				shortest, expires = ttl, true
			}
		}
	}
	return shortest, expires
}
