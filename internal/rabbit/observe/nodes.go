package observe

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/health"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// checkMajority fails if half of the nodes or more are down. The other nodes may then show an old state, and nothing can be
// declared or deleted. It makes no request if the cluster has a single node.
func (r *refresher) checkMajority(ctx context.Context) error {
	if r.info.Nodes < 2 {
		return nil
	}
	nodes, err := r.ReadAPI.Nodes(ctx, "")
	if errors.Is(err, brokererr.ErrAccessRefused) {
		r.setNodes(0) // the user has lost a tag
		return nil
	}
	if err != nil {
		return err
	}
	r.setNodes(len(nodes))
	var down []string
	for _, node := range nodes {
		if node.Running != nil && !*node.Running {
			down = append(down, node.Name)
		}
	}
	if 2*len(down) < len(nodes) {
		return nil
	}
	r.ReadAPI.Close() // behind a load balancer, another node may answer the next request
	const maxNames = 5
	names := strings.Join(down[:min(len(down), maxNames)], ", ")
	return r.Errors.Fail(brokererr.ErrUnreachable, "%d of %d nodes of the cluster are down (%s), so the cluster has no majority: start "+
		"the nodes, or remove lost nodes from the cluster with rabbitmqctl forget_cluster_node",
		len(down), len(nodes), names)
}

func (r *refresher) setNodes(count int) {
	r.info.Nodes = count
	r.Health.Update(func(s *health.Parts) { s.Health.Nodes = count })
}

// members records the quorum queues that have fewer members than the cluster has nodes.
type members struct {
	mu     sync.RWMutex
	nodes  int            // of the cluster; zero if not known
	few    map[string]int // how many members each of them has
	readAt time.Time      // when the last reading began
	next   time.Time      // when to read again
}

const (
	// membersPause and membersShare are the minimum wait between two reads of the members: a duration, and a multiple of the duration of
	// the last read.
	membersPause = 15 * time.Second
	membersShare = 100
	// lonePause is the minimum wait if the cluster is not known to have other nodes.
	lonePause = time.Minute
)

// expire makes the next refresh read the members, unless they were read since the given time. With a single node, and if no queue lacks
// members, the next read comes after lonePause.
func (m *members) expire(since time.Time, nodes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.readAt.After(since) {
		return
	}
	m.next = time.Time{}
	if nodes < 2 && len(m.few) == 0 {
		m.next = time.Now().Add(lonePause)
	}
}

// beginRead reports whether the caller should read the members now. If so, it returns false to all other callers for membersPause, unless
// schedule or expire sets another time.
func (m *members) beginRead(now time.Time, nodes int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.readAt.IsZero() && m.next.IsZero() && nodes < 2 {
		m.next = now.Add(lonePause)
	}
	if now.Before(m.next) {
		return false
	}
	m.readAt, m.next = now, now.Add(membersPause) // until schedule sets another time
	return true
}

// schedule sets when the members are read again.
func (m *members) schedule(next time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = next
}

// nodesSince returns the number of nodes if it was read since the given time; zero otherwise.
func (m *members) nodesSince(since time.Time) int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.readAt.Before(since) {
		return 0
	}
	return m.nodes
}

// observe adds the number of nodes, and the members of the named queues.
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

// replace sets the result of a read, and returns a notice of the queues that changed.
func (m *members) replace(nodes int, few map[string]int) snapshot.Notice {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := map[string]bool{}
	same := func(a, b int) bool { return a == b && nodes == m.nodes }
	snapshot.Differing(m.few, few, same, changed)
	m.nodes, m.few = nodes, few
	return snapshot.Notice{Queues: slices.Sorted(maps.Keys(changed))}
}

// readMembers reads how many members queues have, if a read is due. If it fails, the numbers are unknown, and the refresh does not
// fail.
func (r *refresher) readMembers(ctx context.Context) {
	view, began := r.views.get(), time.Now()
	if view.members.beginRead(began, r.info.Nodes) {
		queues := view.store.Queues()
		nodes, few, err := r.ReadAPI.Members(ctx, r.info.Nodes, func(queue string) bool { return queues[queue] })
		if ctx.Err() != nil {
			return // the connection closes, which does not invalidate the numbers for the others
		}
		if err != nil {
			r.Log.V(1).Info("Cannot read the members of queues", "vhost", r.VHost, "reason", err.Error())
			nodes, few = 0, nil
		}
		pause := membersPause
		if nodes < 2 {
			pause = lonePause
		}
		view.members.schedule(time.Now().Add(max(pause, membersShare*time.Since(began))))
		view.notifyAll(view.members.replace(nodes, few))
	}
	if nodes := view.members.nodesSince(r.probedAt); nodes > 1 && r.info.Nodes == 1 {
		r.info.Nodes = nodes // the cluster has grown
	}
}
