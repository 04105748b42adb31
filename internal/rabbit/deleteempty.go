package rabbit

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/warren-mq/warren/internal/topology"
)

const (
	// shortestTTL is the shortest time after which a queue may let messages expire: a sentinel must not.
	shortestTTL = time.Second
	// readings is how often counters are read at most, until two in a row say that a queue holds nothing.
	readings = 4
	// budget is the time from the first sentinel to the last deletion.
	budget = 10 * time.Second
	// undoing is the time that undoing may take.
	undoing = 10 * time.Second
	// refusals is how often at most a queue is tried whether it refuses a message.
	refusals = 4
	// stale is how old the last reading may be when a fence is put up.
	stale = 2 * time.Second
)

// The steps of a deletion, as tests call them.
const (
	stepLooked   = "looked"
	stepMarked   = "marked"
	stepSentinel = "sentinel put in"
	stepFenced   = "fenced"
	stepSettled  = "settled"
	stepDeleted  = "deleted"
	stepOpened   = "opened"
)

// DeleteEmpty deletes queues, in the order given, if every one of them is provably empty and without consumers; otherwise
// none. cluster is as for Remove. Queues that do not exist count as deleted. It takes some 11 s, and up to 35 s where
// counts change; calls for different queues go on at the same time.
//
// What is not proved stays: the error wraps ErrNotEmpty if a queue holds messages or has consumers, ErrUnproven if that
// cannot be told. It writes policies, for which the user needs the tag policymaker (ErrAccessRefused). Whatever happens,
// and also when ctx ends, messages that the broker confirmed to others stay, and what was put up is taken down; what
// cannot be, because the broker is gone, is when it is back. Once the first queue is deleted the others are not safe from
// staying: if something comes into them in that very moment, the error says so, and they stay.
//
// RabbitMQ cannot delete a queue on condition that it is empty, and shows unacknowledged messages only seconds later. So
// counters are read twice; then a policy refuses whatever is published, while sentinels stand in the queue; and then the
// queue is deleted if nothing is ready but these. What expires or is dead-lettered into the queue at-most-once within the
// last millisecond passes the fence.
//
// stillWanted, if it is not nil, is called right before the fence goes up, after all waiting. An error of stillWanted ends
// the call before anything is changed at the broker, and is returned as it is.
func (c *Connection) DeleteEmpty(
	ctx context.Context, cluster string, queues []string, stillWanted func(context.Context) error,
) error {
	queues = unique(queues)
	if err := c.mayDelete(cluster, queues); err != nil || len(queues) == 0 {
		return err
	}
	ctx, end, busy, err := c.deletions.begin(ctx, queues)
	switch {
	case errors.Is(err, errBusy):
		return c.config.fail(ErrUnproven, "queue %q is being deleted by another call", busy)
	case err != nil:
		return err
	}
	defer end()
	d := &deletion{
		c: c, cluster: cluster, queues: queues, stillWanted: stillWanted,
		readings: map[string]*reading{}, inside: map[string]int{},
	}
	err = d.run(ctx)
	if ctx.Err() != nil && !errors.Is(err, errAbandoned) && err != nil {
		return c.config.ended(ctx, err)
	}
	return err
}

// ended says that a call came to nothing because its context ended, or because the connection was closed.
func (c Config) ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrClosed) {
		return ErrClosed
	}
	if errors.Is(err, ctx.Err()) {
		return err
	}
	return errors.Join(c.unreachable(ctx.Err()), err)
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

func (c *Connection) mayDelete(cluster string, queues []string) error {
	health := c.Health()
	if !health.Cluster.Known() {
		return c.config.fail(ErrUnreachable, "the broker has not been reached yet")
	}
	if err := c.config.sameCluster(health.Cluster, cluster); err != nil {
		return err
	}
	for _, queue := range queues {
		if queue == "" || len(queue) > shortString {
			return c.config.fail(ErrPreconditionFailed, "queue %q: no queue can have this name", queue)
		}
	}
	if !health.Capabilities.Policies {
		return c.config.fail(ErrAccessRefused, "user %q lacks the tag policymaker, without which no queue can be shown to be empty",
			c.config.Username)
	}
	return nil
}

// deletion is one call of DeleteEmpty.
type deletion struct {
	c       *Connection
	cluster string
	// queues are those that exist, as far as is known.
	queues []string
	// stillWanted is the caller's last word before the fence goes up; it may be nil.
	stillWanted func(context.Context) error

	readings map[string]*reading
	readAt   time.Time
	policies []topology.Policy // at the first reading
	fences   []fence
	// published is when the sentinels were about to be, and inside how many there can be, by queue.
	published time.Time
	inside    map[string]int
	closed    bool // the fences may be
	priority  int  // of the fences
}

// errAbandoned ends a deletion without undoing anything, as a crash would. Tests only.
var errAbandoned = errors.New("abandoned")

// step is called between two steps.
func (d *deletion) step(name string) error {
	if d.c.between != nil && !d.c.between(name) {
		return errAbandoned
	}
	return nil
}

func (d *deletion) run(ctx context.Context) error {
	if err := d.look(ctx); err != nil || len(d.queues) == 0 {
		return err
	}
	if err := d.step(stepLooked); err != nil {
		return err
	}
	return d.c.config.inPlace(ctx, d.c.deletions.fencing, func() error {
		if err := d.lookAgain(ctx); err != nil || len(d.queues) == 0 {
			return err
		}
		err := d.fenceAndDelete(ctx)
		if errors.Is(err, errAbandoned) {
			return err
		}
		return d.undo(ctx, err)
	})
}

// fenceAndDelete has left traces when it returns, whatever it returns.
func (d *deletion) fenceAndDelete(ctx context.Context) error {
	planned, err := d.plan(ctx)
	if err != nil {
		return err
	}
	if err := d.c.unshared(ctx); err != nil {
		return err
	}
	if d.stillWanted != nil {
		if err := d.stillWanted(ctx); err != nil {
			return err
		}
	}
	for _, f := range planned {
		d.fences = append(d.fences, f)
		d.c.deletions.stand(f.name)
		if err := d.c.writing.putFence(ctx, f, f.marking()); err != nil {
			return err
		}
	}
	if err := d.step(stepMarked); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	err = d.deleteWithin(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return d.c.config.fail(ErrUnproven, "it took longer than %v: %v", budget, err)
	}
	return err
}

func (d *deletion) deleteWithin(ctx context.Context) error {
	d.published = time.Now()
	for _, queue := range d.queues {
		if err := d.putSentinels(ctx, queue); err != nil {
			return err
		}
	}
	if err := d.step(stepSentinel); err != nil {
		return err
	}
	d.closed = true
	for _, f := range d.fences {
		if err := d.c.writing.putFence(ctx, f, f.closed()); err != nil {
			return err
		}
	}
	if err := d.step(stepFenced); err != nil {
		return err
	}
	if err := d.verify(ctx); err != nil {
		return err
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	if err := d.step(stepSettled); err != nil {
		return err
	}
	if err := d.delete(ctx); err != nil {
		return err
	}
	return d.step(stepDeleted)
}

func (d *deletion) unproven(format string, args ...any) error {
	return d.c.config.fail(ErrUnproven, format, args...)
}

// undo takes down what was put up, with a time of its own, and returns the reason why there is something to undo. A
// queue that is gone is deleted, whatever the reason.
func (d *deletion) undo(ctx context.Context, reason error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoing)
	defer cancel()
	failed := false
	for _, f := range d.fences {
		err := d.c.lift(ctx, f, d.closed, func() error {
			if err := d.step(stepOpened); err != nil {
				return err
			}
			return d.takeOut(ctx, f)
		})
		d.c.deletions.fallen(f.name)
		if errors.Is(err, errAbandoned) {
			return err
		}
		if err != nil {
			failed = true
			d.c.log.Info("A fence could not be taken down; it is tried again with the next look", "vhost", d.c.config.VHost,
				"policy", f.name, "reason", err.Error())
		}
	}
	if failed {
		d.c.lookNow()
	}
	if reason != nil && len(d.queues) == 0 {
		return nil
	}
	return reason
}

// takeOut takes the sentinels of a fence out of the queues that are left.
func (d *deletion) takeOut(ctx context.Context, f fence) error {
	f.queues = slices.DeleteFunc(slices.Clone(f.queues), func(queue string) bool {
		return d.inside[queue] == 0 || !slices.Contains(d.queues, queue)
	})
	return d.c.takeAll(ctx, f, time.Since(d.published), func(queue string) taking {
		return taking{cluster: d.cluster, most: d.inside[queue], ours: func(name string) bool { return name == f.name }}
	}, d.gone)
}
