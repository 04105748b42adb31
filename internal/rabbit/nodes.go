package rabbit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/vhost"
)

// node is a node of the cluster, as the node that answers sees it.
type node struct {
	Name string
	// Running is nil where the answer does not say.
	Running *bool
	// Version is given from 4.3 on; before, it is that of the node's application "rabbit".
	Version      string `json:"rabbitmq_version"`
	Applications []struct{ Name, Version string }
}

// nodes lists all nodes of the cluster, those that are down too. It takes the tag monitoring or administrator. The names must
// be asked for: of a node that has none of the columns, such as one that is down, RabbitMQ makes an empty list.
func (m *management) nodes(ctx context.Context, columns string) ([]node, error) {
	var nodes list[node]
	_, err := m.get(ctx, "/nodes?columns=name,running"+columns, "", &nodes)
	return nodes, err
}

// versionsOf lists the versions of the running nodes: a cluster in the middle of an upgrade has several.
func versionsOf(nodes []node) []string {
	var versions []string
	for _, node := range nodes {
		if node.Version != "" {
			versions = append(versions, node.Version)
			continue
		}
		for _, application := range node.Applications { // none if the node is down
			if application.Name == "rabbit" {
				versions = append(versions, application.Version)
			}
		}
	}
	return versions
}

// checkMajority fails if half of the cluster's nodes or more are down. What the others know may be old then: declared objects
// may seem to be missing. And nothing can be declared or deleted. A single node is not asked.
func (c *Connection) checkMajority(ctx context.Context) error {
	if c.contact.nodes < 2 {
		return nil
	}
	nodes, err := c.management.nodes(ctx, "")
	if errors.Is(err, ErrAccessRefused) {
		c.contact.nodes = 0 // the user has lost a tag
		return nil
	}
	if err != nil {
		return err
	}
	c.contact.nodes = len(nodes)
	var down []string
	for _, node := range nodes {
		if node.Running != nil && !*node.Running {
			down = append(down, node.Name)
		}
	}
	if 2*len(down) < len(nodes) {
		return nil
	}
	c.management.close() // behind a load balancer, another node may answer the next request
	const most = 5
	names := strings.Join(down[:min(len(down), most)], ", ")
	return c.errs.Fail(ErrUnreachable, "%d of %d nodes of the cluster are down (%s), so there is no majority to read from "+
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
func (m *members) replace(nodes int, few map[string]int) Notice {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := map[string]bool{}
	same := func(a, b int) bool { return a == b && nodes == m.nodes }
	differing(m.few, few, same, changed)
	m.nodes, m.few = nodes, few
	return Notice{Queues: slices.Sorted(maps.Keys(changed))}
}

// readMembers reads how many members queues have, if it is time to. What cannot be read is not known, and is no trouble.
func (c *Connection) readMembers(ctx context.Context) {
	begun := time.Now()
	if begun.Before(c.members.next) {
		return
	}
	nodes, few, err := c.management.members(ctx, c.contact.nodes)
	if err != nil {
		c.log.V(1).Info("The members of queues cannot be read", "vhost", c.config.VHost, "reason", err.Error())
		nodes, few = 0, nil
	} else if nodes > 1 && c.contact.nodes == 1 {
		c.contact.nodes = nodes // the cluster has grown
	}
	pause := membersPause
	if nodes < 2 {
		pause = lonePause
	}
	c.members.next = time.Now().Add(max(pause, membersShare*time.Since(begun)))
	c.notices.add(c.members.replace(nodes, few))
}

// members reads how many nodes the cluster has, and which quorum queues have fewer members than that. Users who may not read
// the nodes see those on which a queue of the vhost has a member.
func (m *management) members(ctx context.Context, known int) (nodes int, few map[string]int, err error) {
	if known == 1 {
		found, err := m.nodes(ctx, "")
		if err != nil || len(found) < 2 {
			return len(found), nil, err
		}
		known = len(found)
	}
	seen, counts := map[string]bool{}, map[string]int{}
	path := fmt.Sprintf("/queues/%s?disable_stats=true&columns=name,members", escape(m.VHost))
	_, err = m.get(ctx, path, "", streamedFunc(func(a *answer) error {
		return eachItem(a, func(queue memberItem) (int64, error) {
			for _, member := range queue.Members {
				seen[member] = true
			}
			if len(queue.Members) == 0 || known > 0 && len(queue.Members) >= known {
				return 0, nil
			}
			counts[queue.Name] = len(queue.Members)
			return sizeOfQueue + int64(len(queue.Name)), nil
		})
	}))
	if err != nil {
		return 0, nil, err
	}
	nodes = max(known, len(seen))
	maps.DeleteFunc(counts, func(_ string, count int) bool { return count >= nodes })
	return nodes, counts, nil
}

// memberItem is a queue in a listing; only quorum queues and streams have members.
type memberItem struct {
	Name    string
	Members []string
}
