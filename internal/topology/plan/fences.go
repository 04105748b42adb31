package plan

import (
	"fmt"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// fenced returns advisories for queues that refuse publishes because of a fence, and for queues that may hold a sentinel. A fence
// has no effect on a queue to which another policy applies.
func fenced(desired topology.Topology, observed vhost.Observed) []v1alpha1.Advisory {
	var advisories []v1alpha1.Advisory
	for _, queue := range desired.Queues {
		effective, _ := vhost.PoliciesOf(queue.Name, vhost.TypeQuorum, observed.Policies, false)
		for _, fence := range observed.Fences {
			if fence.Match(queue.Name, vhost.TypeQuorum) != vhost.MatchYes {
				continue
			}
			if !fence.Closed {
				advisories = append(advisories, sentinelLeft(queue.Name, fence))
				continue
			}
			if effective != nil && !fence.Outranks(effective) {
				continue
			}
			advisories = append(advisories, v1alpha1.Advisory{
				Code: v1alpha1.AdvisoryFenced, Name: queue.Name,
				Message: fmt.Sprintf("policy %q has refused publishes to queue %q since %s. Warren set the policy to delete or to "+
					"recreate queues, and removes it by itself. If the policy is older than a minute and stays, follow "+
					"https://warren-mq.github.io/warren/runbooks/fence-standing/",
					fence.Name, queue.Name, fence.Since.UTC().Format(time.RFC3339)),
			})
		}
	}
	return advisories
}

func sentinelLeft(queue string, fence vhost.Fence) v1alpha1.Advisory {
	return v1alpha1.Advisory{
		Code: v1alpha1.AdvisorySentinelLeft, Name: queue,
		Message: fmt.Sprintf("queue %q may still hold a sentinel, a message of type warren.sentinel that Warren published to delete "+
			"queues. Consumers acknowledge and ignore it. Warren removes it once few messages are in front of it, and then "+
			"removes policy %q, which refuses no publishes", queue, fence.Name),
	}
}
