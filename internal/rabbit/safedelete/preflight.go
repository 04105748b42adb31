package safedelete

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/fence"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/retry"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// preflight checks whether queues can be deleted, and plans the fences, before anything is changed.
type preflight struct{ *batch }

// queuesAtOnce is how many queues of a batch are worked on over AMQP at a time: half of all channels.
const queuesAtOnce = amqpconn.ChannelLimit / 2

// precheck returns a reason against the deletion of a group if there already is one. It drops queues that do not exist.
func (d *Deleter) precheck(g *group) error {
	var refusal error
	for _, queue := range slices.Clone(g.queues) {
		now, exists, err := d.held(g.ctx, g.cluster, queue)
		if err != nil {
			return err
		}
		if !exists {
			g.drop(queue)
			d.gone(queue)
		}
		if g.recreation != nil { // its messages are moved right before the fence goes up
			now.Messages = 0
		}
		if refusal == nil {
			refusal = checkCounts(d.errs, queue, now)
		}
	}
	if len(g.queues) == 0 || refusal == nil {
		return nil
	}
	policies, err := d.policies.get(g.ctx, d.errs) // the message may be a sentinel
	if err != nil {
		return err
	}
	if err := d.checkNoLeftovers(g, policies); err != nil {
		return err
	}
	return refusal
}

// plan reads the queues and policies, and plans the fences. Groups that cannot be deleted leave the batch. Queues that do not exist
// are dropped.
func (p preflight) plan(ctx context.Context) ([]fence.Fence, error) {
	now, err := p.deleter.identity.get(ctx, p.deleter.errs)
	if err != nil {
		return nil, err
	}
	if err := p.deleter.errs.SameCluster(now, p.cluster); err != nil {
		return nil, err
	}
	policies, err := p.deleter.policies.get(ctx, p.deleter.errs)
	if err != nil {
		return nil, err
	}
	p.without(func(g *group) error { return p.deleter.checkNoLeftovers(g, policies) })
	p.checkEmpty(ctx)
	infos, err := p.queueInfos(ctx)
	if err != nil {
		return nil, err
	}
	users := WithoutFences(policies)
	p.without(func(g *group) error { return p.checkGroup(ctx, g, infos, users) })
	p.priority = priorityOver(users)
	p.without(func(g *group) error { return p.checkUnhindered(g, policies) })
	return p.fencesFor(time.Now()), nil
}

// lowestPriority and highestPriority limit the priorities of fences. Beyond 2^53, a float64 does not represent each integer.
const (
	lowestPriority  = 1000
	highestPriority = 1 << 53
)

// priorityOver returns the priority of a fence that outranks the policies. It ignores a policy that no fence can outrank: that policy
// hinders only the queues that it matches; see checkUnhindered.
func priorityOver(policies []vhost.Policy) float64 {
	priority := float64(lowestPriority)
	for _, policy := range policies {
		if !policy.Operator && policy.Priority < highestPriority {
			priority = max(priority, math.Floor(policy.Priority)+1)
		}
	}
	return priority
}

// without removes groups from the batch if they fail the check or have no queue left.
func (p preflight) without(against func(*group) error) {
	for _, g := range slices.Clone(p.groups) {
		if err := against(g); err != nil || len(g.queues) == 0 {
			p.leave(g, err)
		}
	}
}

// checkNoLeftovers fails if a queue of the group has a fence that a crash has left behind, and requests the refresh after which
// the fence is taken down. Until then the queue may hold sentinels, which must not count as messages.
func (d *Deleter) checkNoLeftovers(g *group, policies []vhost.Policy) error {
	for _, policy := range policies {
		_, own := fence.ParseName(policy.Name)
		if standing, _ := d.deletions.isTracked(policy.Name); standing || !own || policy.Operator {
			continue
		}
		for _, queue := range fence.QueuesOf(policy.Pattern.String()) {
			if slices.Contains(g.queues, queue) {
				d.observer.RequestRefresh()
				text := fmt.Sprintf("%v: queue %q: policy %q of another deletion still exists", brokererr.ErrUnproven, queue, policy.Name)
				return d.errs.Because([]error{brokererr.ErrUnproven, brokererr.ErrPending}, text)
			}
		}
	}
	return nil
}

// checkEmpty reads the current counts, and drops queues that do not exist.
func (p preflight) checkEmpty(ctx context.Context) {
	failed := forEach(ctx, p.deleter.errs, p.queues(), func(queue string) error {
		now, exists, err := p.deleter.held(ctx, p.cluster, queue)
		if err != nil {
			return err
		}
		if !exists {
			p.gone(queue)
		}
		if p.drains(queue) {
			now.Messages = 0
		}
		return checkCounts(p.deleter.errs, queue, now)
	})
	p.without(func(g *group) error { return firstOf(g.queues, failed) })
}

// forEach calls a function for each queue, for at most queuesAtOnce queues at a time, and returns the errors by queue.
func forEach(ctx context.Context, errs brokererr.Errors, queues []string, do func(queue string) error) map[string]error {
	results := make([]error, len(queues))
	slots := retry.NewSlots(queuesAtOnce)
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

// walkedPerRequest is how many queues of the vhost a listing may visit for each wanted queue. An idle broker visits 13 queues in the time
// of one request. The number is higher, because fewer requests leave more capacity to other clients.
const walkedPerRequest = 32

// queueInfos reads the queues: with one listing if they are a large share of the vhost, otherwise one by one.
func (p preflight) queueInfos(ctx context.Context) (map[string]*management.QueueInfo, error) {
	infos := map[string]*management.QueueInfo{}
	var single []string
	walked := p.deleter.countQueues()
	for _, queues := range fence.Patterns(p.queues()) {
		if len(queues) <= fewQueues || walked > walkedPerRequest*len(queues) {
			single = append(single, queues...)
			continue
		}
		listed, err := p.deleter.queueInfos(ctx, queues)
		if err != nil {
			single = append(single, queues...)
			continue
		}
		maps.Copy(infos, listed)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	failed := forEach(ctx, p.deleter.errs, single, func(queue string) error {
		info, err := p.deleter.queueInfo(ctx, queue, management.WithoutStatistics)
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

func (d *Deleter) countQueues() (count int) {
	d.observer.View(func(known *snapshot.Snapshot) { count = len(known.Queues) })
	return count
}

// checkGroup fails if the queues of a group cannot be proven empty because of their properties or policies.
func (p preflight) checkGroup(
	ctx context.Context, g *group, infos map[string]*management.QueueInfo, policies []vhost.Policy,
) error {
	for _, queue := range g.queues {
		info := infos[queue]
		if info == nil {
			return p.unproven("queue %q is not known to the management API", queue)
		}
		now := &queueStats{QueueInfo: *info}
		p.stats[queue] = now
		if err := p.determinePolicies(ctx, queue, now, policies); err != nil {
			return err
		}
		if err := now.checkEligible(p.deleter.errs, queue); err != nil {
			return err
		}
	}
	return nil
}

// queueInfo reads one queue. It waits until fewer than RequestLimit requests run.
func (d *Deleter) queueInfo(ctx context.Context, queue, query string) (answer *management.QueueInfo, err error) {
	err = d.deletions.requests.Hold(ctx, d.errs, func() error {
		answer, err = d.api.QueueInfo(ctx, queue, query)
		return err
	})
	return answer, err
}

// queueInfos is queueInfo for queues that fit into one pattern.
func (d *Deleter) queueInfos(ctx context.Context, queues []string) (answer map[string]*management.QueueInfo, err error) {
	err = d.deletions.requests.Hold(ctx, d.errs, func() error {
		answer, err = d.api.QueueInfos(ctx, queues, fence.Pattern(queues))
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
		policies: sharedRead[[]vhost.Policy]{read: withSlot(deletions, errs, api.Policies)},
		identity: sharedRead[vhost.Cluster]{read: withSlot(deletions, errs, api.Cluster)},
		bindings: sharedRead[map[string][]vhost.Binding]{read: withSlot(deletions, errs, api.AllBindings)},
	}
}

// withSlot returns a read that waits until fewer than RequestLimit requests run.
func withSlot[T any](deletions *register, errs brokererr.Errors, request func(context.Context) (T, error)) func() (T, error) {
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
	return slices.DeleteFunc(slices.Clone(policies), isFence)
}

func isFence(policy vhost.Policy) bool {
	_, own := fence.ParseName(policy.Name)
	return own && !policy.Operator
}

// checkUnhindered fails if another policy may override the planned fences.
func (p preflight) checkUnhindered(g *group, policies []vhost.Policy) error {
	const overrides = "queue %q: policy %q overrides the fence: its priority is %s"
	for _, policy := range policies {
		overflow, refuses := policy.Definition[vhost.KeyOverflow]
		hinders := policy.Priority >= p.priority
		if policy.Operator {
			hinders = refuses && overflow != vhost.OverflowRejectPublish
		}
		_, foreign := fence.ParseName(policy.Name)
		foreign = foreign && !policy.Operator
		if foreign && slices.ContainsFunc(p.fences, func(f fence.Fence) bool { return f.Name == policy.Name }) || !foreign && !hinders {
			continue
		}
		for _, queue := range g.queues {
			switch {
			case policy.Match(queue, vhost.TypeQuorum) == vhost.MatchNo:
			case foreign:
				return p.unproven("queue %q: policy %q of another deletion still exists", queue, policy.Name)
			case policy.Operator:
				return unprovable(p.deleter.errs,
					"queue %q: operator policy %q overrides the fence: it sets overflow %v", queue, policy.Name, overflow)
			case policy.Priority >= highestPriority:
				return unprovable(p.deleter.errs, overrides, queue, policy.Name, vhost.Display(policy.Priority))
			default: // it is new, and the fence of the next attempt has a higher priority
				return p.unproven(overrides, queue, policy.Name, vhost.Display(policy.Priority))
			}
		}
	}
	return nil
}

// drops reports whether a full queue drops messages, with its present arguments or with the arguments of its recreation.
func (p preflight) drops(queue string) bool {
	now := p.stats[queue]
	if g := p.recreationOf(queue); g != nil {
		again := *now
		again.Arguments = g.recreation.Queue.Arguments
		return now.drops() || again.drops()
	}
	return now.drops()
}

// fencesFor plans the fences. Queues with the same policy share a fence if one pattern can name them.
func (p preflight) fencesFor(begun time.Time) (planned []fence.Fence) {
	alike := map[string][]string{}
	var order []string
	for _, queue := range p.queues() {
		key := vhost.Normalize(p.stats[queue].user).JSON()
		if alike[key] == nil {
			order = append(order, key)
		}
		alike[key] = append(alike[key], queue)
	}
	name := fence.Name{Owner: p.deleter.Owner, Begun: begun}
	for _, g := range p.groups {
		if g.recreation != nil { // the only group of its batch; see kind.recreated
			name.Recreation, name.Repeated = true, g.recreation.Repeats
		}
	}
	for _, key := range order {
		for _, queues := range fence.Patterns(alike[key]) {
			planned = append(planned, fence.Fence{
				Name: name.String(queues[0]), Pattern: fence.Pattern(queues), Queues: queues,
				Priority: p.priority, Effective: vhost.Normalize(p.stats[queues[0]].user),
				Drops: slices.ContainsFunc(queues, p.drops),
			})
		}
	}
	return planned
}
