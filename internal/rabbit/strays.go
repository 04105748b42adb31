package rabbit

import (
	"context"
	"slices"
	"time"

	"github.com/warren-mq/warren/internal/topology"
)

const (
	// fewMessages is how many ready messages a queue may have to be looked into for a sentinel that may have expired there.
	fewMessages = 10
	// counted is how old a fence must be for the counters of its queues to tell what expired there since it was closed.
	counted = 20 * time.Second
	// latest is when the last dead letter comes that waited for a queue behind a fence: twice the time after which the
	// broker tries again (dead_letter_worker_publisher_confirm_timeout, 180 s), and some more.
	latest = 7 * time.Minute
)

// clearStrays begins to take down fences that a crash has left behind, as far as the snapshot shows them. What fails is
// tried again after the next look. It is called by the looking goroutine, and does not hold it up.
func (c *Connection) clearStrays() {
	if !c.contact.capabilities.Policies || !c.Health().Matched {
		return
	}
	strays, cluster := c.strays()
	if len(strays) == 0 || !c.deletions.clear(true) {
		return
	}
	c.running.Go(func() {
		defer c.deletions.clear(false)
		for _, stray := range strays {
			ctx, cancel := context.WithTimeout(c.deletions.closing, undoing)
			err := c.clearStray(ctx, cluster, stray)
			cancel()
			if err != nil {
				c.log.Info("A fence that was left behind could not be taken down; it is tried again with the next look",
					"vhost", c.config.VHost, "policy", stray.Name, "reason", err.Error())
				continue
			}
			c.log.Info("Took down a fence that was left behind", "vhost", c.config.VHost, "policy", stray.Name)
		}
	})
}

// clear marks beginning and end of a clearing; false if one is under way, or it is too late to begin.
func (d *deletions) clear(begin bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if begin && (d.clearing || d.closed) {
		return false
	}
	d.clearing = begin
	return true
}

// sightings are the fences that were seen in the last look and that nobody here put up, with the time at which each was
// first seen as it is.
type sightings map[string]sighting

type sighting struct {
	policy topology.Policy
	since  time.Time
}

// strays are the fences that are nobody's any more: those that this connection could not lift, those of its own owner that
// it did not put up, and those of others that were seen unchanged for longer than any deletion takes. How old a fence is by
// its name says nothing: the clock that wrote the name may be another one, and whoever put the fence up may have been
// stopped for a while.
//
// Only one process works for an owner: the leader. Another process of the same owner has lost the lead, longer ago than its
// budget lasts, and does not delete any more (see deleteOne). So its fences are taken down at once, before the sentinels
// expire.
func (c *Connection) strays() (strays []topology.Policy, cluster string) {
	var fences []topology.Policy
	c.store.view(func(s *snapshot) { fences, cluster = s.fences, s.cluster })
	now, sighted, soonest := time.Now(), sightings{}, c.timing.stray
	for _, policy := range fences {
		standing, known := c.deletions.standing(policy.Name)
		if known {
			if !standing {
				strays = append(strays, policy)
			}
			continue
		}
		if name, _ := parseFenceName(policy.Name); name.owner == c.config.Owner {
			strays = append(strays, policy)
			continue
		}
		seen, before := c.sighted[policy.Name]
		if !before || !samePolicy(seen.policy, policy) {
			seen = sighting{policy, now}
		}
		sighted[policy.Name] = seen
		if age := now.Sub(seen.since); age < c.timing.stray {
			soonest = min(soonest, c.timing.stray-age)
		} else {
			strays = append(strays, policy)
		}
	}
	if c.sighted = sighted; len(sighted) > 0 {
		c.deletions.lookIn(soonest, c.lookNow)
	}
	return strays, cluster
}

func (c *Connection) clearStray(ctx context.Context, cluster string, stray topology.Policy) error {
	now, _, err := c.writing.identity(ctx)
	if err != nil {
		return err
	}
	if err := c.config.sameCluster(now, cluster); err != nil {
		return err
	}
	f := fence{
		name: stray.Name, pattern: stray.Pattern.String(), queues: fencedQueues(stray.Pattern.String()), priority: stray.Priority,
		effective: stray.Definition,
	}
	parsed, _ := parseFenceName(stray.Name)
	closed := stray.Definition[keyOverflow] == rejectPublish // also in the form that is open already, which changes nothing
	what := taking{cluster: cluster, most: sentinels + attempts, ours: func(name string) bool { return name == stray.Name }}
	return c.lift(ctx, f, closed, func() error {
		if err := c.arrived(ctx, cluster); err != nil {
			return err
		}
		return c.takeAll(ctx, f, time.Since(parsed.begun), func(string) taking { return what }, func(string) {})
	})
}

// takeAll takes the sentinels of a fence out of its queues, and then, for those queues in which there are none and from
// which they can have expired, out of those where they went. what says what there can be in a queue; gone is told of a
// queue that does not exist. age is how long ago the sentinels were put in.
func (c *Connection) takeAll(
	ctx context.Context, f fence, age time.Duration, what func(queue string) taking, gone func(queue string),
) error {
	var without []string
	for _, queue := range f.queues {
		taken, exists, err := c.take(ctx, queue, what(queue))
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
		found, err := c.takeOnward(ctx, queue, f.effective, what(queue))
		if err == nil && !found {
			err = c.underWay(ctx, queue, f.effective, age)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// underWay says that a sentinel may have expired and may not have arrived yet: what expires towards a queue that is fenced
// is tried again minutes later. Until then the fence stays, in a form that changes nothing, as the record of it.
func (c *Connection) underWay(ctx context.Context, queue string, policy topology.Arguments, age time.Duration) error {
	var arguments topology.Arguments
	c.store.view(func(s *snapshot) { arguments = s.queues[queue].Arguments })
	now := &reading{Arguments: arguments, user: policy}
	ttl, expires := now.lowest("message-ttl")
	if !expires || age < time.Duration(ttl)*time.Millisecond || age > latest {
		return nil
	}
	if age > counted {
		now, err := c.reading(ctx, queue, withStatistics)
		if err != nil || now == nil || now.DeadLetters != nil && *now.DeadLetters == 0 {
			return err
		}
	}
	return c.config.fail(ErrUnproven, "a message that guarded queue %q may still be on its way", queue)
}

// takeOnward takes the sentinels out of the queues to which they may have expired, and says whether there were any.
func (c *Connection) takeOnward(ctx context.Context, queue string, policy topology.Arguments, what taking) (found bool, err error) {
	what.few = fewMessages
	var onward []string
	c.store.view(func(s *snapshot) { onward = s.expiresTo(queue, policy) })
	for _, other := range onward {
		taken, _, err := c.take(ctx, other, what)
		if err != nil {
			return found, err
		}
		found = found || taken > 0
	}
	return found, nil
}

// expiresTo lists the queues that a sentinel may have expired to.
func (s *snapshot) expiresTo(name string, policy topology.Arguments) []string {
	queue := s.queues[name]
	_, byArgument := queue.Arguments[topology.ArgMessageTTL]
	_, byPolicy := policy["message-ttl"]
	letter, dead := deadLetterOf(name, queue, policy)
	if !dead || !byArgument && !byPolicy {
		return nil
	}
	key := name // the sentinel's own
	if letter.RoutingKey != nil {
		key = *letter.RoutingKey
	}
	if letter.Exchange == "" {
		return []string{key}
	}
	var queues []string
	seen := map[string]bool{letter.Exchange: true}
	for reach := []string{letter.Exchange}; len(reach) > 0; reach = reach[1:] {
		for _, binding := range s.bindingsFrom[reach[0]] {
			switch {
			case s.exchanges[reach[0]].Type == "direct" && binding.RoutingKey != key:
			case !binding.ToExchange:
				queues = append(queues, binding.Destination)
			case !seen[binding.Destination]:
				seen[binding.Destination] = true
				reach = append(reach, binding.Destination)
			}
		}
	}
	slices.Sort(queues)
	return slices.Compact(queues)
}
