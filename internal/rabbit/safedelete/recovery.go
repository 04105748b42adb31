package safedelete

import (
	"context"
	"slices"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

const (
	// statsLag is how long ago sentinels must have expired for the counters of their queues to tell. Measured: 9 s at most, and
	// longer where the broker's collect_statistics_interval is.
	statsLag = 30 * time.Second
	// unnoticed is how long a broker takes at most to note that a process is gone: it misses two or three heartbeats.
	unnoticed = 4 * amqpconn.Heartbeat
	// maxArrival is when the last dead letter comes that waited for a queue behind a fence: twice the time after which the
	// broker tries again (dead_letter_worker_publisher_confirm_timeout, 180 s), and some more.
	maxArrival = 7 * time.Minute
)

// recovery takes down fences that a crash has left behind.
type recovery struct{ *Deleter }

// ClearLeftovers begins to take down fences that a crash has left behind, as far as the snapshot shows them, which was read from a time
// on. What fails is tried again after the next refresh. The refreshing goroutine calls it and is not held up.
func (s *Deleter) ClearLeftovers(read time.Time) {
	if state := s.broker.State(); !state.MayWritePolicies || !state.Matched || !s.HoldsLease() {
		return
	}
	s.deletions.forgetMissing(s.isShown, read)
	strays, cluster := recovery{s}.leftoverFences()
	if len(strays) == 0 || !s.deletions.clear(true) {
		return
	}
	s.clearing.Go(func() {
		defer s.deletions.clear(false)
		for _, stray := range strays {
			ctx, cancel := context.WithTimeout(s.deletions.closing, undoing)
			err := recovery{s}.clearLeftover(ctx, cluster, stray)
			cancel()
			if err != nil {
				recovery{s}.tellOfFence(stray.policy.Name, err)
				continue
			}
			s.deletions.forget(stray.policy.Name)
			s.Log.Info("Took down a fence that was left behind", "vhost", s.VHost, "policy", stray.policy.Name)
		}
	})
}

// isShown says whether the snapshot has a fence.
func (s *Deleter) isShown(name string) (shown bool) {
	s.broker.View(func(known *snapshot.Snapshot) {
		shown = slices.ContainsFunc(known.Fences, func(policy vhost.Policy) bool { return policy.Name == name })
	})
	return shown
}

// tellOfFence logs why a fence still stands, once for each reason: it is tried again with each refresh.
func (s recovery) tellOfFence(policy string, reason error) {
	if s.deletions.told(policy, reason.Error()) {
		return
	}
	s.Log.Info("A fence could not be taken down; Warren tries again with each refresh", "vhost", s.VHost,
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

// fencesSeen are the fences that were seen in the last refresh and that are not in use here, with the time at which each was
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
	// isBare: the queue was declared after the sentinels were published, which are gone with the one before.
	isBare bool
}

// leftoverFences are the fences that this connection could not lift, those of its own owner that it did not put up, and those of
// others that were seen unchanged for longer than any deletion takes. A fence that a deletion of this process needs is none of
// them, whatever connection the deletion goes through. The fence of a recreation is none of them: see ClearRecreation. How old a fence
// is by its name says nothing: the clock that wrote the name may be another one, and whoever put the fence up may have been stopped for
// a while.
//
// Only one process works for an owner: the leader. Another process of the same owner has lost the lead, longer ago than its
// budget lasts, and does not delete any more (see deleteOne). So its fences are taken down at once, before the sentinels
// expire.
func (s recovery) leftoverFences() (strays []leftover, cluster string) {
	var fences []vhost.Policy
	s.broker.View(func(known *snapshot.Snapshot) { fences, cluster = known.Fences, known.Cluster })
	now, sighted, next := time.Now(), fencesSeen{}, time.Duration(0)
	for _, policy := range fences {
		name, _ := fence.ParseName(policy.Name)
		if s.Standing.Has(policy.Name) || name.Recreation {
			continue
		}
		_, known := s.deletions.isTracked(policy.Name)
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
		strays = append(strays, leftover{policy: policy, foreign: !known, seen: age})
	}
	if s.sighted = sighted; next > 0 {
		s.deletions.refreshIn(next, s.broker.RequestRefresh)
	}
	return strays, cluster
}

func (s recovery) clearLeftover(ctx context.Context, cluster string, stray leftover) error {
	now, err := s.api.Cluster(ctx)
	if err != nil {
		return err
	}
	if err := s.errs.SameCluster(now, cluster); err != nil {
		return err
	}
	if err := s.checkVanished(ctx, cluster, stray.policy.Name); err != nil {
		return err
	}
	name, pattern, definition := stray.policy.Name, stray.policy.Pattern.String(), stray.policy.Definition
	f := fence.Fence{Name: name, Pattern: pattern, Queues: fence.QueuesOf(pattern), Priority: stray.policy.Priority, Effective: definition}
	closed := definition[vhost.KeyOverflow] == vhost.OverflowRejectPublish // also in the form that is open already, which changes nothing
	inside := tally{of: map[string]int{}}
	for _, queue := range f.Queues {
		if stray.isBare {
			break
		}
		inside.of[queue] = Sentinels // at most: more are published only when those before are out
	}
	lost := &search{
		Deleter: s.Deleter, fence: f, cluster: cluster, missing: inside.count, gone: func(string) {},
		mayBeHeld: stray.foreign && stray.seen < unnoticed,
	}
	return s.lift(ctx, f, closed, func() ([]string, error) {
		if err := s.arrived(ctx, cluster); err != nil {
			return nil, err
		}
		return lost.run(ctx)
	})
}

// checkVanished fails while RabbitMQ may still be deleting a queue behind a fence.
func (s recovery) checkVanished(ctx context.Context, cluster, policy string) error {
	for _, queue := range s.deletions.mayVanish(policy) {
		_, exists, err := s.held(ctx, cluster, queue)
		if err == nil && exists {
			err = s.errs.Fail(brokererr.ErrUnproven, stillDeleting, queue)
		}
		if err != nil {
			s.deletions.refreshIn(time.Second, s.broker.RequestRefresh)
			return err
		}
	}
	return nil
}
