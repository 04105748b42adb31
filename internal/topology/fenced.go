package topology

import (
	"fmt"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Fence is a policy of Warren's own making that refuses what is published to the queues that it applies to.
type Fence struct {
	Policy

	// Since is when the fence was put up, according to its name.
	Since time.Time
}

// fenced lists the queues that take no messages because of a fence. A fence does nothing to a queue for which another policy
// holds.
func fenced(desired Topology, observed Observed, context Context) []v1alpha1.Advisory {
	if context.ClearPolicy == nil {
		return nil
	}
	var advisories []v1alpha1.Advisory
	for _, queue := range desired.Queues {
		effective, _ := policiesOf(queue, observed.Policies, false)
		for _, fence := range observed.Fences {
			if fence.Match(queue.Name, queueTypeQuorum) != MatchYes || effective != nil && !fence.outranks(effective) {
				continue
			}
			advisories = append(advisories, v1alpha1.Advisory{
				Code: v1alpha1.AdvisoryFenced, Name: queue.Name,
				Message: fmt.Sprintf("policy %q refuses whatever is published to queue %q, since %s: an operator put it up to delete "+
					"queues. Warren clears its own such policies and those left behind; if this one stays, clear it: %s",
					fence.Name, queue.Name, fence.Since.UTC().Format(time.RFC3339), context.ClearPolicy(fence.Name)),
			})
		}
	}
	return advisories
}
