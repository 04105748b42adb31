package safedelete

import (
	"context"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// fewMessages is how many ready messages a queue may have to be looked into for a sentinel that may have expired there.
	fewMessages = 10
	// statsLag is how long ago sentinels must have expired for the counters of their queues to tell.
	statsLag = 30 * time.Second
	// unnoticed is how long a broker takes at most to note that a process is gone: it misses two or three heartbeats.
	unnoticed = 4 * amqpconn.Heartbeat
	// maxArrival is when the last dead letter comes that waited for a queue behind a fence: twice the time after which the
	// broker tries again (dead_letter_worker_publisher_confirm_timeout, 180 s), and some more.
	maxArrival = 7 * time.Minute
)

// ClearLeftovers begins to take down fences that a crash has left behind, as far as the snapshot shows them. What fails is
// tried again after the next look. It is called by the looking goroutine, and does not hold it up.
func (s *Deleter) ClearLeftovers() {
	if state := s.broker.State(); !state.MayWritePolicies || !state.Matched {
		return
	}
	strays, cluster := s.leftoverFences()
	if len(strays) == 0 || !s.deletions.clear(true) {
		return
	}
	s.clearing.Go(func() {
		defer s.deletions.clear(false)
		for _, stray := range strays {
			ctx, cancel := context.WithTimeout(s.deletions.closing, undoing)
			err := s.clearLeftover(ctx, cluster, stray)
			cancel()
			if err != nil {
				s.tellOfFence(stray.policy.Name, err)
				continue
			}
			s.deletions.forget(stray.policy.Name)
			s.Log.Info("Took down a fence that was left behind", "vhost", s.VHost, "policy", stray.policy.Name)
		}
	})
}

// tellOfFence logs why a fence still stands, once for each reason: it is tried again with each look.
func (s *Deleter) tellOfFence(policy string, reason error) {
	if s.deletions.told(policy, reason.Error()) {
		return
	}
	s.Log.Info("A fence could not be taken down; it is tried again with each look", "vhost", s.VHost,
		"policy", policy, "reason", reason.Error())
}

// told takes note of why a fence could not be taken down, and says whether that was known.
func (d *register) told(policy, reason string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.standsFor[policy] == reason
	d.standsFor[policy] = reason
	return known
}

// clear marks beginning and end of a clearing; false if one is under way, or it is too late to begin.
func (d *register) clear(begin bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if begin && (d.clearing || d.closed) {
		return false
	}
	d.clearing = begin
	return true
}

// fencesSeen are the fences that were seen in the last look and that are not in use here, with the time at which each was
// first seen as it is.
type fencesSeen map[string]fenceSeen

type fenceSeen struct {
	policy vhost.Policy
	since  time.Time
}

// leftover is a fence that is nobody's any more.
type leftover struct {
	policy vhost.Policy
	// foreign: another process put it up, which may be gone without the broker having noticed.
	foreign bool
	// seen is for how long it has been seen.
	seen time.Duration
}

// leftoverFences are the fences that this connection could not lift, those of its own owner that it did not put up, and those of
// others that were seen unchanged for longer than any deletion takes. How old a fence is by its name says nothing: the clock
// that wrote the name may be another one, and whoever put the fence up may have been stopped for a while.
//
// Only one process works for an owner: the leader. Another process of the same owner has lost the lead, longer ago than its
// budget lasts, and does not delete any more (see deleteOne). So its fences are taken down at once, before the sentinels
// expire.
func (s *Deleter) leftoverFences() (strays []leftover, cluster string) {
	var fences []vhost.Policy
	s.broker.View(func(known *snapshot.Snapshot) { fences, cluster = known.Fences, known.Cluster })
	now, sighted, next := time.Now(), fencesSeen{}, time.Duration(0)
	for _, policy := range fences {
		standing, known := s.deletions.isTracked(policy.Name)
		if standing {
			continue
		}
		name, _ := fence.ParseName(policy.Name)
		own := known || name.Owner == s.Owner
		seen, before := s.sighted[policy.Name]
		if !before || !own && !snapshot.SamePolicy(seen.policy, policy) {
			seen = fenceSeen{policy, now}
		}
		sighted[policy.Name] = seen
		age := now.Sub(seen.since)
		if left := s.Times.Stray - age; !own && left > 0 {
			if next == 0 || left < next {
				next = left
			}
			continue
		}
		strays = append(strays, leftover{policy, !known, age})
	}
	if s.sighted = sighted; next > 0 {
		s.deletions.lookIn(next, s.broker.RequestRefresh)
	}
	return strays, cluster
}

func (s *Deleter) clearLeftover(ctx context.Context, cluster string, stray leftover) error {
	now, err := s.api.Cluster(ctx)
	if err != nil {
		return err
	}
	if err := s.errs.SameCluster(now, cluster); err != nil {
		return err
	}
	name, pattern, definition := stray.policy.Name, stray.policy.Pattern.String(), stray.policy.Definition
	f := fence.Fence{Name: name, Pattern: pattern, Queues: fence.QueuesOf(pattern), Priority: stray.policy.Priority, Effective: definition}
	parsed, _ := fence.ParseName(name)
	closed := definition[vhost.KeyOverflow] == vhost.OverflowRejectPublish // also in the form that is open already, which changes nothing
	what := ackOptions{
		cluster: cluster, max: Sentinels + attempts, held: stray.foreign && stray.seen < unnoticed,
		match: func(fence string) bool { return fence == name },
	}
	return s.lift(ctx, f, closed, func() error {
		if err := s.arrived(ctx, cluster); err != nil {
			return err
		}
		return s.ackAllSentinels(ctx, f, time.Since(parsed.Begun), func(string) ackOptions { return what }, func(string) {})
	})
}

// ackAllSentinels takes the sentinels of a fence out of its queues, and then, for those queues in which there are none and from
// which they can have expired, out of those where they went. what says what there can be in a queue; gone is told of a
// queue that does not exist. age is how long ago the sentinels were put in.
func (s *Deleter) ackAllSentinels(
	ctx context.Context, f fence.Fence, age time.Duration, what func(queue string) ackOptions, gone func(queue string),
) error {
	var without []string
	for _, queue := range f.Queues {
		taken, exists, err := s.ackSentinels(ctx, queue, what(queue))
		switch {
		case err != nil:
			return err
		case !exists:
			gone(queue)
		case taken == 0:
			without = append(without, queue)
		}
	}
	for _, queue := range without {
		found, err := s.ackExpiredSentinels(ctx, queue, f.Effective, what(queue))
		if err == nil && !found {
			err = s.checkNoneArriving(ctx, queue, f.Effective, age)
		}
		if err != nil {
			return err
		}
	}
	if s.deletions.mayArrive(f.Name) {
		return s.errs.Fail(brokererr.ErrUnproven, "a message that guards the queues of policy %q may still arrive", f.Name)
	}
	return nil
}

// checkNoneArriving says that a sentinel may have expired and may not have arrived yet: what expires towards a queue that is fenced
// is tried again minutes later. Until then the fence stays, in a form that changes nothing, as the record of it.
func (s *Deleter) checkNoneArriving(ctx context.Context, queue string, policy vhost.Arguments, age time.Duration) error {
	var arguments vhost.Arguments
	s.broker.View(func(known *snapshot.Snapshot) { arguments = known.Queues[queue].Arguments })
	now := &queueStats{QueueInfo: management.QueueInfo{Arguments: arguments}, user: policy}
	limit, expires := now.lowest("message-ttl")
	ttl := time.Duration(limit) * time.Millisecond
	if !expires || age < ttl || age > ttl+maxArrival {
		return nil
	}
	if age > ttl+budget+statsLag {
		now, err := s.queueInfo(ctx, queue, management.WithStatistics)
		if err != nil || now == nil || now.DeadLetters != nil && *now.DeadLetters == 0 {
			return err
		}
	}
	return s.errs.Fail(brokererr.ErrUnproven, "a message that guarded queue %q may still be on its way", queue)
}

// ackExpiredSentinels takes the sentinels out of the queues to which they may have expired, and says whether there were any.
func (s *Deleter) ackExpiredSentinels(ctx context.Context, queue string, policy vhost.Arguments, what ackOptions) (found bool, err error) {
	what.maxReady, what.held = fewMessages, false
	var onward []string
	s.broker.View(func(known *snapshot.Snapshot) { onward = known.ExpiresTo(queue, policy) })
	for _, other := range onward {
		taken, _, err := s.ackSentinels(ctx, other, what)
		if err != nil {
			return found, err
		}
		found = found || taken > 0
	}
	return found, nil
}
