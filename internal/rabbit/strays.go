package rabbit

import (
	"context"
	"slices"
	"time"

	"github.com/warren-mq/warren/internal/topology"
)

const (
	// foreignAge is how old another owner's fence must be to count as left behind: three times the budget of a deletion.
	foreignAge = 30 * time.Second
	// fewMessages is how many ready messages a queue may have to be looked into for a sentinel that may have expired there.
	fewMessages = 10
)

// clearStrays begins to take down fences that a crash has left behind, as far as the snapshot shows them. What fails is
// tried again after the next look. It is called by the looking goroutine, and does not hold it up.
func (c *Connection) clearStrays() {
	if !c.contact.capabilities.Policies {
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

// strays are the fences that are nobody's any more. Those of others that are too young are looked at again.
func (c *Connection) strays() (strays []topology.Policy, cluster string) {
	var fences []topology.Policy
	c.store.view(func(s *snapshot) { fences, cluster = s.fences, s.cluster })
	for _, policy := range fences {
		name, _ := parseFenceName(policy.Name)
		age := time.Since(name.begun)
		switch {
		case c.deletions.standing(policy.Name):
		case name.owner == c.config.Owner || age > foreignAge:
			strays = append(strays, policy)
		default:
			time.AfterFunc(foreignAge, c.lookNow)
		}
	}
	return strays, cluster
}

func (c *Connection) clearStray(ctx context.Context, cluster string, stray topology.Policy) error {
	now, err := c.writing.overview(ctx)
	if err != nil {
		return err
	}
	if err := c.config.sameCluster(now.ClusterName, cluster); err != nil {
		return err
	}
	f := fence{
		name: stray.Name, pattern: stray.Pattern, queues: fencedQueues(stray.Pattern), priority: stray.Priority,
		effective: stray.Definition,
	}
	closed := stray.Definition[keyMaxLength] == int64(0)
	what := taking{cluster: cluster, most: sentinels + refusals, ours: func(name string) bool { return name == stray.Name }}
	return c.lift(ctx, f, closed, func() error {
		for _, queue := range f.queues {
			if _, err := c.search(ctx, queue, stray.Definition, what); err != nil {
				return err
			}
		}
		return nil
	})
}

// search takes the sentinels out of a queue, and if there are none and messages expire there, out of those where they
// then go. It says whether the queue exists.
func (c *Connection) search(ctx context.Context, queue string, policy topology.Arguments, what taking) (bool, error) {
	taken, exists, err := c.take(ctx, queue, what)
	if err != nil || taken > 0 {
		return exists, err
	}
	what.few = fewMessages
	var onward []string
	c.store.view(func(s *snapshot) { onward = s.expiresTo(queue, policy) })
	for _, other := range onward {
		if _, _, err := c.take(ctx, other, what); err != nil {
			return exists, err
		}
	}
	return exists, nil
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
