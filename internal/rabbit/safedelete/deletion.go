package safedelete

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// shortestTTL is the shortest time after which a queue may let messages expire: a sentinel must not.
	shortestTTL = time.Second
	// budget is the time from the first fence to the last deletion. Another manager takes a fence for left behind only after
	// Times.Stray, which is twice as long.
	budget = 10 * time.Second
	// undoing is the time that undoing may take.
	undoing = 10 * time.Second
	// goneWithin is for how long undoing waits for a queue to be gone whose deletion was not answered, and gonePause the time between
	// two looks.
	goneWithin = 3 * time.Second
	gonePause  = 50 * time.Millisecond
	// unanswered is how long RabbitMQ may take at most to delete a queue. It waits 5 s for the members of the queue before it ends
	// them.
	unanswered = 30 * time.Second
	// attempts is how often at most a proof is tried.
	attempts = 4
)

// promptness is how long the last check before a deletion may take, at the first attempt, the second and so on. The shorter the
// check, the less can happen between the broker's count and the deletion, so a long one counts only where the broker is far
// away or busy.
var promptness = []time.Duration{
	10 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
}

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
// others have their fences up; calls for different queues go on at the same time, and queues of several calls may stand behind one
// fence.
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
	ctx, end, err := s.begin(ctx, queues)
	if err != nil {
		return err
	}
	defer end()
	err = s.deleteGroup(&group{ctx: ctx, cluster: cluster, queues: queues, stillWanted: stillWanted, done: make(chan error, 1)})
	if ctx.Err() != nil && !errors.Is(err, ErrAbandoned) && err != nil {
		return s.errs.Ended(ctx, err)
	}
	return err
}

// begin is register.begin for the caller of a call.
func (s *Deleter) begin(ctx context.Context, queues []string) (context.Context, func(), error) {
	ctx, end, busy, err := s.deletions.begin(ctx, queues)
	if errors.Is(err, errBusy) {
		err = s.errs.Fail(brokererr.ErrUnproven, "queue %q is being deleted by another call", busy)
	}
	return ctx, end, err
}

// deleteGroup finds out first whether anything speaks against the deletion already: nobody waits for a place in vain.
func (s *Deleter) deleteGroup(g *group) error {
	if err := s.precheck(g); err != nil || len(g.queues) == 0 {
		return err
	}
	if err := s.step(StepLooked); err != nil {
		return err
	}
	g.kind = s.kindOf(g)
	return s.batches.wait(s.errs, g)
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
	if !s.HoldsLease() {
		return brokererr.ErrNotLeader
	}
	if !state.MayWritePolicies {
		return s.errs.Fail(brokererr.ErrAccessRefused, "user %q lacks the tag policymaker, without which no queue can be shown to be empty",
			s.User)
	}
	return nil
}

// ErrAbandoned ends a deletion without undoing anything, as a crash would. Tests only.
var ErrAbandoned = errors.New("abandoned")

// step is called between two steps.
func (s *Deleter) step(name string) error {
	if s.Between != nil && !s.Between(name) {
		return ErrAbandoned
	}
	return nil
}
