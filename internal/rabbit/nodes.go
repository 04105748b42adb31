package rabbit

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// checkMajority fails if half of the cluster's nodes or more are down. What the others know may be old then: declared objects
// may seem to be missing. And nothing can be declared or deleted. A single node is not asked.
func (c *Connection) checkMajority(ctx context.Context) error {
	if c.contact.Nodes < 2 {
		return nil
	}
	nodes, err := c.management.Nodes(ctx, "")
	if errors.Is(err, brokererr.ErrAccessRefused) {
		c.contact.Nodes = 0 // the user has lost a tag
		return nil
	}
	if err != nil {
		return err
	}
	c.contact.Nodes = len(nodes)
	var down []string
	for _, node := range nodes {
		if node.Running != nil && !*node.Running {
			down = append(down, node.Name)
		}
	}
	if 2*len(down) < len(nodes) {
		return nil
	}
	c.management.Close() // behind a load balancer, another node may answer the next request
	const most = 5
	names := strings.Join(down[:min(len(down), most)], ", ")
	return c.errs.Fail(brokererr.ErrUnreachable, "%d of %d nodes of the cluster are down (%s), so there is no majority to read from "+
		"and to write to: start them, or take those that are gone for good out of the cluster with rabbitmqctl forget_cluster_node",
		len(down), len(nodes), names)
}

// members knows the quorum queues that have fewer members than the cluster has nodes.
type members struct {
	// next is when to read them again; it is the looking goroutine's own.
	next time.Time

	mu    sync.RWMutex
	nodes int            // of the cluster; zero if not known
	few   map[string]int // how many members each of them has
}

const (
	// membersPause and membersShare are how long to wait, at least, from one reading to the next: a time, and as a multiple
	// of what the reading took.
	membersPause = 15 * time.Second
	membersShare = 100
	// lonePause is the same where nothing is known of further nodes.
	lonePause = time.Minute
)

// expire has them read after the next look, unless there is nothing to expect: no further node, and nothing known so far.
func (m *members) expire(nodes int) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.next = time.Time{}
	if nodes < 2 && len(m.few) == 0 {
		m.next = time.Now().Add(lonePause)
	}
}

// observe adds what is known of the named queues.
func (m *members) observe(names vhost.Selection, observed *vhost.Observed) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	observed.Nodes = m.nodes
	for _, name := range names.Queues {
		if count, few := m.few[name]; few {
			if observed.Members == nil {
				observed.Members = map[string]int{}
			}
			observed.Members[name] = count
		}
	}
}

// replace takes over a reading, and returns the queues that it tells something new of.
func (m *members) replace(nodes int, few map[string]int) snapshot.Notice {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := map[string]bool{}
	same := func(a, b int) bool { return a == b && nodes == m.nodes }
	snapshot.Differing(m.few, few, same, changed)
	m.nodes, m.few = nodes, few
	return snapshot.Notice{Queues: slices.Sorted(maps.Keys(changed))}
}

// readMembers reads how many members queues have, if it is time to. What cannot be read is not known, and is no trouble.
func (c *Connection) readMembers(ctx context.Context) {
	begun := time.Now()
	if begun.Before(c.members.next) {
		return
	}
	nodes, few, err := c.management.Members(ctx, c.contact.Nodes)
	if err != nil {
		c.log.V(1).Info("The members of queues cannot be read", "vhost", c.config.VHost, "reason", err.Error())
		nodes, few = 0, nil
	} else if nodes > 1 && c.contact.Nodes == 1 {
		c.contact.Nodes = nodes // the cluster has grown
	}
	pause := membersPause
	if nodes < 2 {
		pause = lonePause
	}
	c.members.next = time.Now().Add(max(pause, membersShare*time.Since(begun)))
	c.notices.add(c.members.replace(nodes, few))
}
