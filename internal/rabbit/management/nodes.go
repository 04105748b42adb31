package management

import (
	"context"
	"fmt"
	"maps"
)

// Node is a node of the cluster, as the node that answers sees it.
type Node struct {
	Name string
	// Running is nil if the answer does not contain it.
	Running *bool
	// Version is empty before 4.3. Applications then has the version, under the name "rabbit".
	Version      string `json:"rabbitmq_version"`
	Applications []struct{ Name, Version string }

	// MemoryAlarm and DiskAlarm: the cluster accepts no messages. FreeDisk is the free disk space in bytes; not a number if RabbitMQ does
	// not know it. All three need AlarmColumns.
	MemoryAlarm bool `json:"mem_alarm"`
	DiskAlarm   bool `json:"disk_free_alarm"`
	FreeDisk    any  `json:"disk_free"`
}

// AlarmColumns are the columns of Nodes for the alarms and the free disk of a node.
const AlarmColumns = ",mem_alarm,disk_free_alarm,disk_free"

// Nodes lists all nodes of the cluster, including nodes that are down. The user needs the tag monitoring or administrator. columns are
// additional columns, each with a leading comma. The names are always requested, because RabbitMQ writes a node that has none of the
// columns, such as one that is down, as an empty list.
func (c *Client) Nodes(ctx context.Context, columns string) ([]Node, error) {
	var nodes List[Node]
	_, err := c.Get(ctx, "/nodes?columns=name,running"+columns, "", &nodes)
	return nodes, err
}

// versionsOf lists the versions of the running nodes. During an upgrade, a cluster has several versions.
func versionsOf(nodes []Node) []string {
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

// Members returns few, the wanted queues that have fewer members than the cluster has nodes, with their numbers of members. known is the
// number of nodes at the last Probe, or zero if the user may not list nodes. If known is 1, Members lists the nodes again. nodes is the
// larger of that number and the number of nodes on which a queue of the vhost has a member.
func (c *Client) Members(
	ctx context.Context, known int, wanted func(queue string) bool,
) (nodes int, few map[string]int, err error) {
	if known == 1 {
		found, err := c.Nodes(ctx, "")
		if err != nil || len(found) < 2 {
			return len(found), nil, err
		}
		known = len(found)
	}
	seen, counts := map[string]bool{}, map[string]int{}
	path := fmt.Sprintf("/queues/%s?disable_stats=true&columns=name,members", Escape(c.VHost))
	err = each(ctx, c, path, func(queue memberItem) (int64, error) {
		bytes := int64(0)
		for _, member := range queue.Members {
			if !seen[member] {
				seen[member] = true
				bytes += sizeOfName + int64(len(member))
			}
		}
		if len(queue.Members) == 0 || known > 0 && len(queue.Members) >= known || !wanted(queue.Name) {
			return bytes, nil
		}
		counts[queue.Name] = len(queue.Members)
		return bytes + sizeOfName + int64(len(queue.Name)), nil
	})
	if err != nil {
		return 0, nil, err
	}
	nodes = max(known, len(seen))
	maps.DeleteFunc(counts, func(_ string, count int) bool { return count >= nodes })
	return nodes, counts, nil
}

// memberItem is a queue in a listing. Only quorum queues and streams have members.
type memberItem struct {
	Name    string
	Members []string
}

// Member is a member of a quorum queue.
type Member struct {
	Node string `json:"Node Name"`
	// State is NoMember, or the role of the member, such as leader. It is no string if the node does not answer.
	State any `json:"Raft State"`
}

// NoMember is the state of a member that does not run although its node does.
const NoMember = "noproc"

// QuorumStatus requests the current state of each member of a quorum queue. RabbitMQ 3.10 has no such resource.
func (c *Client) QuorumStatus(ctx context.Context, queue string) ([]Member, error) {
	var members List[Member]
	_, err := c.Get(ctx, "/queues/quorum/"+Escape(c.VHost)+"/"+Escape(queue)+"/status", "", &members)
	return members, err
}
