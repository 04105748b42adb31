package rabbit

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/warren-mq/warren/internal/topology"
)

// look reads counters until two readings in a row say that the queues hold nothing. Counters lag: a reading that says
// otherwise is no verdict before two others in a row can no longer follow.
func (d *deletion) look(ctx context.Context) error {
	zeros := 0
	policies, err := d.c.policies(ctx)
	if err != nil {
		return err
	}
	if err := d.leftBehind(policies); err != nil {
		return err
	}
	d.policies = policies
	for number := 1; ; number++ {
		if err := d.current(ctx); err != nil || len(d.queues) == 0 {
			return err
		}
		lagging, err := d.read(ctx)
		if err != nil {
			return err
		}
		zeros++
		if lagging != nil {
			zeros = 0
		}
		if zeros == 2 {
			return nil
		}
		if zeros+readings-number < 2 {
			return lagging
		}
		if err := d.c.sleep(ctx, d.c.timing.reading); err != nil {
			return err
		}
	}
}

// leftBehind says that one of the queues has a fence that a crash has left behind, and has that taken down: until then
// there may be sentinels, which must not pass for messages.
func (d *deletion) leftBehind(policies []topology.Policy) error {
	for _, policy := range policies {
		if _, fence := parseFenceName(policy.Name); !fence || policy.Operator || d.c.deletions.standing(policy.Name) {
			continue
		}
		for _, queue := range fencedQueues(policy.Pattern.String()) {
			if slices.Contains(d.queues, queue) {
				d.c.LookNow()
				return d.unproven("queue %q: policy %q of another deletion is in the way", queue, policy.Name)
			}
		}
	}
	return nil
}

// lookAgain looks before the first trace is left, after a wait for others.
func (d *deletion) lookAgain(ctx context.Context) error {
	if err := d.current(ctx); err != nil || len(d.queues) == 0 || time.Since(d.readAt) < stale {
		return err
	}
	lagging, err := d.read(ctx)
	return errors.Join(lagging, err)
}

// current asks for what is current, and leaves out queues that don't exist.
func (d *deletion) current(ctx context.Context) error {
	for _, queue := range slices.Clone(d.queues) {
		now, exists, err := d.c.held(ctx, d.cluster, queue)
		if err != nil {
			return err
		}
		if !exists {
			d.gone(queue)
		}
		if err := now.holds(d.c.config, queue); err != nil {
			return err
		}
	}
	return nil
}

// read reads what lags. The first result is the first reason why a queue is not empty by that, the second what no other
// reading can change.
func (d *deletion) read(ctx context.Context) (lagging, err error) {
	for _, queue := range d.queues {
		reading, err := d.c.reading(ctx, queue)
		if err != nil {
			return nil, err
		}
		if reading == nil {
			return nil, d.unproven("queue %q is not known to the management API", queue)
		}
		if err := reading.fit(d.c.config, queue); err != nil {
			return nil, err
		}
		if d.readings[queue] = reading; lagging == nil {
			lagging = reading.holds(d.c.config, queue)
		}
	}
	d.readAt = time.Now()
	return lagging, nil
}

// reading makes a request when it is its turn.
func (c *Connection) reading(ctx context.Context, queue string) (answer *reading, err error) {
	err = c.config.inPlace(ctx, c.deletions.requests, func() error {
		answer, err = c.writing.reading(ctx, queue)
		return err
	})
	return answer, err
}

// policies lists those of the vhost, when it is their turn.
func (c *Connection) policies(ctx context.Context) (all []topology.Policy, err error) {
	err = c.config.inPlace(ctx, c.deletions.requests, func() error {
		all, err = c.writing.policies(ctx)
		return err
	})
	return all, err
}

// policies lists policies, fences among them, and operator policies.
func (m *management) policies(ctx context.Context) ([]topology.Policy, error) {
	patterns := &topology.Patterns{}
	var all []topology.Policy
	for _, operator := range []bool{false, true} {
		var items list[policyItem]
		path := "/policies/"
		if operator {
			path = "/operator-policies/"
		}
		if _, err := m.get(ctx, path+escape(m.config.VHost), "", &items); err != nil {
			return nil, err
		}
		for _, item := range items {
			all = append(all, item.observed(patterns, operator))
		}
	}
	return all, nil
}

// sleep waits, and fails when the context ends before.
func (c *Connection) sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return c.config.unreachable(ctx.Err())
	}
}

// plan makes sure that fences can be put up, and of what cluster the management API is.
func (d *deletion) plan(ctx context.Context) ([]fence, error) {
	now, _, err := d.c.writing.identity(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.c.config.sameCluster(now, d.cluster); err != nil {
		return nil, err
	}
	policies, err := d.c.policies(ctx)
	if err != nil {
		return nil, err
	}
	if len(changedPolicies(users(d.policies), users(policies))) > 0 { // what was read as in effect may be out of date
		return nil, d.unproven("the policies of the vhost have just been changed")
	}
	priority := 1000
	for _, policy := range users(policies) {
		if !policy.Operator {
			priority = max(priority, policy.Priority+1)
		}
	}
	d.priority = priority
	if err := d.unhindered(policies); err != nil {
		return nil, err
	}
	return d.groups(time.Now()), nil
}

// users leaves out fences, Warren's own policies.
func users(policies []topology.Policy) []topology.Policy {
	return slices.DeleteFunc(slices.Clone(policies), func(p topology.Policy) bool {
		_, fence := parseFenceName(p.Name)
		return fence && !p.Operator
	})
}

// unhindered says which policy keeps our fences from being in effect as they are written, or may do so; nil if none.
func (d *deletion) unhindered(policies []topology.Policy) error {
	for _, policy := range policies {
		overflow, refuses := policy.Definition[keyOverflow]
		hinders := policy.Priority >= d.priority
		if policy.Operator {
			hinders = refuses && overflow != rejectPublish
		}
		_, foreign := parseFenceName(policy.Name)
		foreign = foreign && !policy.Operator
		if foreign && slices.ContainsFunc(d.fences, func(f fence) bool { return f.name == policy.Name }) || !foreign && !hinders {
			continue
		}
		for _, queue := range d.queues {
			switch {
			case policy.Match(queue, "quorum") == topology.MatchNo:
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

// groups puts together the queues that have the same policy in effect.
func (d *deletion) groups(begun time.Time) []fence {
	fences := map[string]fence{}
	var order []string
	for _, queue := range d.queues {
		reading := d.readings[queue]
		effective := topology.Normalize(reading.Effective)
		key := effective.JSON()
		f, known := fences[key]
		if !known {
			f = fence{name: fenceName{d.c.config.Owner, begun}.String(queue), priority: d.priority, effective: effective}
			order = append(order, key)
		}
		_, limited := reading.lowest(keyMaxLength)
		_, limitedBytes := reading.lowest(keyMaxLengthBytes)
		f.drops = f.drops || (limited || limitedBytes) && !reading.rejects()
		f.queues = append(f.queues, queue)
		fences[key] = f
	}
	ordered := make([]fence, len(order))
	for i, key := range order {
		ordered[i] = fences[key]
		ordered[i].pattern = fencePattern(ordered[i].queues)
	}
	return ordered
}
