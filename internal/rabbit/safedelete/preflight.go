package safedelete

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// preflight checks whether queues can be deleted, and plans the fences, before anything is changed.
type preflight struct{ *batch }

// queuesAtOnce is how many queues of a batch are worked on over AMQP at a time: half of all channels.
const queuesAtOnce = amqpconn.ChannelLimit / 2

// precheck returns a reason against the deletion of a group, if there is one already. It drops queues that do not exist.
func (s *Deleter) precheck(g *group) error {
	var refusal error
	for _, queue := range slices.Clone(g.queues) {
		now, exists, err := s.held(g.ctx, g.cluster, queue)
		if err != nil {
			return err
		}
		if !exists {
			g.drop(queue)
			s.gone(queue)
		}
		if g.recreation != nil { // its messages are moved right before the fence goes up
			now.ready = 0
		}
		if refusal == nil {
			refusal = now.checkEmpty(s.errs, queue)
		}
	}
	if len(g.queues) == 0 || refusal == nil {
		return nil
	}
	policies, err := s.policies.get(g.ctx, s.errs) // the message may be a sentinel
	if err != nil {
		return err
	}
	if err := s.checkNoLeftovers(g, policies); err != nil {
		return err
	}
	return refusal
}

// plan reads the queues and policies, and plans the fences. Groups that cannot be deleted leave the batch. Queues that do not exist
// are dropped.
func (d preflight) plan(ctx context.Context) ([]fence.Fence, error) {
	now, err := d.deleter.identity.get(ctx, d.deleter.errs)
	if err != nil {
		return nil, err
	}
	if err := d.deleter.errs.SameCluster(now, d.cluster); err != nil {
		return nil, err
	}
	policies, err := d.deleter.policies.get(ctx, d.deleter.errs)
	if err != nil {
		return nil, err
	}
	d.without(func(g *group) error { return d.deleter.checkNoLeftovers(g, policies) })
	d.checkEmpty(ctx)
	infos, err := d.queueInfos(ctx)
	if err != nil {
		return nil, err
	}
	users := WithoutFences(policies)
	d.without(func(g *group) error { return d.checkGroup(ctx, g, infos, users) })
	d.priority = 1000
	for _, policy := range users {
		if !policy.Operator {
			d.priority = max(d.priority, policy.Priority+1)
		}
	}
	d.without(func(g *group) error { return d.checkUnhindered(g, policies) })
	return d.fencesFor(time.Now()), nil
}

// without removes groups from the batch that fail the check, and groups that have no queue left.
func (d preflight) without(against func(*group) error) {
	for _, g := range slices.Clone(d.groups) {
		if err := against(g); err != nil || len(g.queues) == 0 {
			d.leave(g, err)
		}
	}
}

// checkNoLeftovers fails if a queue of the group has a fence that a crash has left behind, and requests the refresh after which
// the fence is taken down. Until then the queue may hold sentinels, which must not count as messages.
func (s *Deleter) checkNoLeftovers(g *group, policies []vhost.Policy) error {
	for _, policy := range policies {
		_, own := fence.ParseName(policy.Name)
		if standing, _ := s.deletions.isTracked(policy.Name); standing || !own || policy.Operator {
			continue
		}
		for _, queue := range fence.QueuesOf(policy.Pattern.String()) {
			if slices.Contains(g.queues, queue) {
				s.observer.RequestRefresh()
				text := fmt.Sprintf("%v: queue %q: policy %q of another deletion still exists", brokererr.ErrUnproven, queue, policy.Name)
				return s.errs.Because([]error{brokererr.ErrUnproven, brokererr.ErrPending}, text)
			}
		}
	}
	return nil
}

// checkEmpty reads the current counts, and drops queues that do not exist.
func (d preflight) checkEmpty(ctx context.Context) {
	failed := forEach(ctx, d.deleter.errs, d.queues(), func(queue string) error {
		now, exists, err := d.deleter.held(ctx, d.cluster, queue)
		if err != nil {
			return err
		}
		if !exists {
			d.gone(queue)
		}
		if d.drains(queue) {
			now.ready = 0
		}
		return now.checkEmpty(d.deleter.errs, queue)
	})
	d.without(func(g *group) error { return firstOf(g.queues, failed) })
}

// forEach calls a function for each queue, for at most queuesAtOnce queues at a time, and returns the errors by queue.
func forEach(ctx context.Context, errs brokererr.Errors, queues []string, do func(queue string) error) map[string]error {
	results := make([]error, len(queues))
	slots := management.NewSlots(queuesAtOnce)
	var all sync.WaitGroup
	for i, queue := range queues {
		all.Go(func() {
			results[i] = slots.Hold(ctx, errs, func() error { return do(queue) })
		})
	}
	all.Wait()
	failed := map[string]error{}
	for i, queue := range queues {
		if results[i] != nil {
			failed[queue] = results[i]
		}
	}
	return failed
}

// firstOf returns the error of the first queue that has one.
func firstOf(queues []string, failed map[string]error) error {
	for _, queue := range queues {
		if failed[queue] != nil {
			return failed[queue]
		}
	}
	return nil
}

// walkedPerRequest is how many queues of the vhost a listing may visit for each wanted queue. An idle broker visits 13 queues in
// the time of one request. The number is higher because fewer requests leave more of the broker to other clients.
const walkedPerRequest = 32

// queueInfos reads the queues: with one listing if they are a large share of the vhost, otherwise one by one.
func (d preflight) queueInfos(ctx context.Context) (map[string]*management.QueueInfo, error) {
	infos := map[string]*management.QueueInfo{}
	var single []string
	walked := d.deleter.countQueues()
	for _, queues := range fence.Patterns(d.queues()) {
		if len(queues) <= fewQueues || walked > walkedPerRequest*len(queues) {
			single = append(single, queues...)
			continue
		}
		listed, err := d.deleter.queueInfos(ctx, queues)
		if err != nil {
			single = append(single, queues...)
			continue
		}
		maps.Copy(infos, listed)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	failed := forEach(ctx, d.deleter.errs, single, func(queue string) error {
		info, err := d.deleter.queueInfo(ctx, queue, management.WithoutStatistics)
		if err != nil {
			stop(err) // each other request would also wait for a broker that does not answer
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		infos[queue] = info
		return nil
	})
	if len(failed) > 0 {
		return nil, context.Cause(ctx)
	}
	return infos, nil
}

// countQueues returns the number of queues of the vhost in the snapshot.
func (s *Deleter) countQueues() (count int) {
	s.observer.View(func(known *snapshot.Snapshot) { count = len(known.Queues) })
	return count
}

// checkGroup fails if the queues of a group cannot be proven empty because of their properties or policies.
func (d preflight) checkGroup(
	ctx context.Context, g *group, infos map[string]*management.QueueInfo, policies []vhost.Policy,
) error {
	for _, queue := range g.queues {
		info := infos[queue]
		if info == nil {
			return d.unproven("queue %q is not known to the management API", queue)
		}
		now := &queueStats{QueueInfo: *info}
		d.stats[queue] = now
		if err := d.workOutPolicies(ctx, queue, now, policies); err != nil {
			return err
		}
		if err := now.checkEligible(d.deleter.errs, queue); err != nil {
			return err
		}
	}
	return nil
}

// queueInfo reads one queue. It waits until fewer than RequestLimit requests run.
func (s *Deleter) queueInfo(ctx context.Context, queue, query string) (answer *management.QueueInfo, err error) {
	err = s.deletions.requests.Hold(ctx, s.errs, func() error {
		answer, err = s.api.QueueInfo(ctx, queue, query)
		return err
	})
	return answer, err
}

// queueInfos is queueInfo for queues that fit into one pattern.
func (s *Deleter) queueInfos(ctx context.Context, queues []string) (answer map[string]*management.QueueInfo, err error) {
	err = s.deletions.requests.Hold(ctx, s.errs, func() error {
		answer, err = s.api.QueueInfos(ctx, queues, fence.Pattern(queues))
		return err
	})
	return answer, err
}

// sharedReads are reads that deletions share.
type sharedReads struct {
	policies sharedRead[[]vhost.Policy]
	identity sharedRead[vhost.Cluster]
	bindings sharedRead[map[string][]vhost.Binding]
}

// readsOf returns the shared reads of one vhost. They end when the connection is about to be closed.
func readsOf(api API, deletions *register, errs brokererr.Errors) sharedReads {
	return sharedReads{
		policies: sharedRead[[]vhost.Policy]{read: inTurn(deletions, errs, api.Policies)},
		identity: sharedRead[vhost.Cluster]{read: inTurn(deletions, errs, api.Cluster)},
		bindings: sharedRead[map[string][]vhost.Binding]{read: inTurn(deletions, errs, api.AllBindings)},
	}
}

// inTurn returns a read that waits until fewer than RequestLimit requests run.
func inTurn[T any](deletions *register, errs brokererr.Errors, request func(context.Context) (T, error)) func() (T, error) {
	return func() (answer T, err error) {
		err = deletions.requests.Hold(deletions.closing, errs, func() error {
			answer, err = request(deletions.closing)
			return err
		})
		return answer, err
	}
}

// WithoutFences returns the policies that are not fences of Warren.
func WithoutFences(policies []vhost.Policy) []vhost.Policy {
	return slices.DeleteFunc(slices.Clone(policies), func(p vhost.Policy) bool {
		_, own := fence.ParseName(p.Name)
		return own && !p.Operator
	})
}

// checkUnhindered fails if another policy may override the planned fences.
func (d preflight) checkUnhindered(g *group, policies []vhost.Policy) error {
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
		for _, queue := range g.queues {
			switch {
			case policy.Match(queue, vhost.TypeQuorum) == vhost.MatchNo:
			case foreign:
				return d.unproven("queue %q: policy %q of another deletion still exists", queue, policy.Name)
			case policy.Operator:
				return d.unproven("queue %q: operator policy %q overrides the fence: it sets overflow %v", queue, policy.Name, overflow)
			default:
				return d.unproven("queue %q: policy %q overrides the fence: its priority is %d", queue, policy.Name, policy.Priority)
			}
		}
	}
	return nil
}

// drops reports whether a full queue drops messages, with its present arguments or with the arguments of its recreation.
func (d preflight) drops(queue string) bool {
	now := d.stats[queue]
	if g := d.recreationOf(queue); g != nil {
		again := *now
		again.Arguments = g.recreation.Queue.Arguments
		return now.drops() || again.drops()
	}
	return now.drops()
}

// fencesFor plans the fences. Queues with the same policy share a fence if one pattern can name them.
func (d preflight) fencesFor(begun time.Time) (planned []fence.Fence) {
	alike := map[string][]string{}
	var order []string
	for _, queue := range d.queues() {
		key := vhost.Normalize(d.stats[queue].user).JSON()
		if alike[key] == nil {
			order = append(order, key)
		}
		alike[key] = append(alike[key], queue)
	}
	recreates := slices.ContainsFunc(d.groups, func(g *group) bool { return g.recreation != nil })
	for _, key := range order {
		for _, queues := range fence.Patterns(alike[key]) {
			planned = append(planned, fence.Fence{
				Name:    fence.Name{Owner: d.deleter.Owner, Begun: begun, Recreation: recreates}.String(queues[0]),
				Pattern: fence.Pattern(queues), Queues: queues,
				Priority: d.priority, Effective: vhost.Normalize(d.stats[queues[0]].user),
				Drops: slices.ContainsFunc(queues, d.drops),
			})
		}
	}
	return planned
}
