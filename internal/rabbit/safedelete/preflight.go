package safedelete

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/vhost"
)

// preflight finds out all that speaks against a deletion, or that a fence depends on, before anything is changed.
type preflight struct{ *deletion }

// checkQueues finds out whether anything speaks against a deletion already.
func (d preflight) checkQueues(ctx context.Context) error {
	policies, err := d.deleter.policies(ctx)
	if err != nil {
		return err
	}
	if err := d.checkNoLeftovers(policies); err != nil {
		return err
	}
	return d.checkEmpty(ctx)
}

// planFences finds out all that a fence depends on, and plans the fences. Queues that do not exist are left out.
func (d preflight) planFences(ctx context.Context) ([]fence.Fence, error) {
	now, err := d.deleter.api.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.deleter.errs.SameCluster(now, d.cluster); err != nil {
		return nil, err
	}
	policies, err := d.deleter.policies(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.checkNoLeftovers(policies); err != nil {
		return nil, err
	}
	if err := d.checkEmpty(ctx); err != nil {
		return nil, err
	}
	for _, queue := range d.queues {
		if err := d.readQueue(ctx, queue, Users(policies)); err != nil {
			return nil, err
		}
	}
	d.priority = 1000
	for _, policy := range Users(policies) {
		if !policy.Operator {
			d.priority = max(d.priority, policy.Priority+1)
		}
	}
	if err := d.checkUnhindered(policies); err != nil {
		return nil, err
	}
	return d.fencesFor(time.Now()), nil
}

// checkNoLeftovers says that one of the queues has a fence that a crash has left behind, and has that taken down: until then
// there may be sentinels, which must not pass for messages.
func (d preflight) checkNoLeftovers(policies []vhost.Policy) error {
	for _, policy := range policies {
		_, own := fence.ParseName(policy.Name)
		if standing, _ := d.deleter.deletions.isTracked(policy.Name); standing || !own || policy.Operator {
			continue
		}
		for _, queue := range fence.QueuesOf(policy.Pattern.String()) {
			if slices.Contains(d.queues, queue) {
				d.deleter.broker.RequestRefresh()
				text := fmt.Sprintf("%v: queue %q: policy %q of another deletion is in the way", brokererr.ErrUnproven, queue, policy.Name)
				return d.deleter.errs.Because([]error{brokererr.ErrUnproven, brokererr.ErrPending}, text)
			}
		}
	}
	return nil
}

// checkEmpty asks for what is current, and leaves out queues that don't exist.
func (d preflight) checkEmpty(ctx context.Context) error {
	for _, queue := range slices.Clone(d.queues) {
		now, exists, err := d.deleter.held(ctx, d.cluster, queue)
		if err != nil {
			return err
		}
		if !exists {
			d.gone(queue)
		}
		if err := now.checkEmpty(d.deleter.errs, queue); err != nil {
			return err
		}
	}
	return nil
}

// readQueue asks what a queue is, and which policies hold for it.
func (d preflight) readQueue(ctx context.Context, queue string, policies []vhost.Policy) error {
	info, err := d.deleter.queueInfo(ctx, queue, management.WithoutStatistics)
	if err != nil {
		return err
	}
	if info == nil {
		return d.unproven("queue %q is not known to the management API", queue)
	}
	now := &queueStats{QueueInfo: *info}
	d.stats[queue] = now
	if err := d.workOutPolicies(ctx, queue, now, policies); err != nil {
		return err
	}
	return now.checkEligible(d.deleter.errs, queue)
}

// queueInfo makes a request when it is its turn.
func (s *Deleter) queueInfo(ctx context.Context, queue, query string) (answer *management.QueueInfo, err error) {
	err = s.deletions.requests.Hold(ctx, s.errs, func() error {
		answer, err = s.api.QueueInfo(ctx, queue, query)
		return err
	})
	return answer, err
}

// policies lists those of the vhost, when it is their turn.
func (s *Deleter) policies(ctx context.Context) (all []vhost.Policy, err error) {
	err = s.deletions.requests.Hold(ctx, s.errs, func() error {
		all, err = s.api.Policies(ctx)
		return err
	})
	return all, err
}

// Users leaves out fences, Warren's own policies.
func Users(policies []vhost.Policy) []vhost.Policy {
	return slices.DeleteFunc(slices.Clone(policies), func(p vhost.Policy) bool {
		_, own := fence.ParseName(p.Name)
		return own && !p.Operator
	})
}

// checkUnhindered says which policy keeps our fences from being in effect as they are written, or may do so; nil if none.
func (d preflight) checkUnhindered(policies []vhost.Policy) error {
	for _, policy := range policies {
		overflow, refuses := policy.Definition[vhost.KeyOverflow]
		hinders := policy.Priority >= d.priority
		if policy.Operator {
			hinders = refuses && overflow != vhost.OverflowRejectPublish
		}
		_, foreign := fence.ParseName(policy.Name)
		foreign = foreign && !policy.Operator
		if foreign && slices.ContainsFunc(d.fences, func(f fence.Fence) bool { return f.Name == policy.Name }) || !foreign && !hinders {
			continue
		}
		for _, queue := range d.queues {
			switch {
			case policy.Match(queue, vhost.TypeQuorum) == vhost.MatchNo:
			case foreign:
				return d.unproven("queue %q: policy %q of another deletion is in the way", queue, policy.Name)
			case policy.Operator:
				return d.unproven("queue %q: operator policy %q is in the way: it sets overflow %v", queue, policy.Name, overflow)
			default:
				return d.unproven("queue %q: policy %q is in the way: its priority is %d", queue, policy.Name, policy.Priority)
			}
		}
	}
	return nil
}

// fencesFor puts together the queues that have the same policy, as far as one pattern can name them.
func (d preflight) fencesFor(begun time.Time) (planned []fence.Fence) {
	alike := map[string][]string{}
	var order []string
	for _, queue := range d.queues {
		key := vhost.Normalize(d.stats[queue].user).JSON()
		if alike[key] == nil {
			order = append(order, key)
		}
		alike[key] = append(alike[key], queue)
	}
	for _, key := range order {
		for _, queues := range fence.Patterns(alike[key]) {
			planned = append(planned, fence.Fence{
				Name: fence.Name{Owner: d.deleter.Owner, Begun: begun}.String(queues[0]), Pattern: fence.Pattern(queues), Queues: queues,
				Priority: d.priority, Effective: vhost.Normalize(d.stats[queues[0]].user),
				Drops: slices.ContainsFunc(queues, func(queue string) bool { return d.stats[queue].drops() }),
			})
		}
	}
	return planned
}
