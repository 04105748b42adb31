package plan

import (
	"fmt"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// defaultGroupSize is RabbitMQ's default number of members of a quorum queue.
const defaultGroupSize = 3

// fewMembers returns advisories for queues with fewer members than the spec requests. They were declared when the cluster was
// smaller, or a member was removed. Such a queue tolerates fewer node failures than its spec promises; a queue with one member
// tolerates none.
func fewMembers(desired topology.Topology, observed vhost.Observed) []v1alpha1.Advisory {
	var advisories []v1alpha1.Advisory
	for _, queue := range desired.Queues {
		have, known := observed.Members[queue.Name]
		want := min(groupSize(queue), int64(observed.Nodes))
		if !known || int64(have) >= want {
			continue
		}
		advisories = append(advisories, v1alpha1.Advisory{
			Code: v1alpha1.AdvisoryFewMembers, Name: queue.Name,
			Message: fmt.Sprintf("queue %q has members on only %d of %d nodes; it should have %d members: "+
				"add members with rabbitmq-queues add_member, or for many queues with rabbitmq-queues grow",
				queue.Name, have, observed.Nodes, want),
		})
	}
	return advisories
}

// groupSize returns the requested number of members, if the cluster has enough nodes.
func groupSize(q topology.Queue) int64 {
	size, given := vhost.Normal(q.Arguments[vhost.ArgInitialGroupSize]).(int64)
	if !given {
		size = defaultGroupSize
	}
	if target, given := vhost.Normal(q.Arguments[vhost.ArgTargetGroupSize]).(int64); given {
		size = max(size, target) // the broker adds these members over time
	}
	return size
}
