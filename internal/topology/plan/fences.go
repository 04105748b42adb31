package plan

import (
	"fmt"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// fenced lists the queues that take no messages because of a fence, and those that may hold a sentinel. A fence does nothing to a
// queue for which another policy holds.
func fenced(desired topology.Topology, observed vhost.Observed, clearPolicy func(name string) string) []v1alpha1.Advisory {
	if clearPolicy == nil {
		return nil
	}
	var advisories []v1alpha1.Advisory
	for _, queue := range desired.Queues {
		effective, _ := policiesOf(queue.Name, vhost.TypeQuorum, observed.Policies, false)
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
				Message: fmt.Sprintf("policy %q refuses whatever is published to queue %q, since %s: an operator put it up to delete "+
					"queues. Warren clears its own such policies and those left behind; if this one stays, clear it: %s",
					fence.Name, queue.Name, fence.Since.UTC().Format(time.RFC3339), clearPolicy(fence.Name)),
			})
		}
	}
	return advisories
}

func sentinelLeft(queue string, fence vhost.Fence) v1alpha1.Advisory {
	return v1alpha1.Advisory{
		Code: v1alpha1.AdvisorySentinelLeft, Name: queue,
		Message: fmt.Sprintf("a sentinel of queue %q may be left, a message of type warren.sentinel that an operator published to delete "+
			"queues. Consumers acknowledge and ignore it. Warren takes it out as soon as few messages are in front of it, and then "+
			"clears policy %q, which refuses nothing", queue, fence.Name),
	}
}
