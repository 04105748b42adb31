package topology

import (
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/vhost"
)

// QueueNames are the names of the queues of a ConsumerQueue that a job needs: the origin of dead letters, their queue, and
// possible destinations.
type QueueNames struct {
	// Main is the main queue.
	Main string
	// Queue is the dead-letter queue; empty if dead-lettering is disabled.
	Queue string
	// Tiers are the delay tiers, the shortest delay first.
	Tiers []TierRoute
}

// TierRoute is a delay tier and the route to it.
type TierRoute struct {
	Queue string
	Delay time.Duration
	Route contract.Route
}

// QueueNamesOf returns the queues of a ConsumerQueue on a broker of the given version. The error is a *Refusal.
func QueueNamesOf(cq *v1alpha1.ConsumerQueue, version vhost.Version) (QueueNames, error) {
	spec, err := resolve(cq, version)
	if err != nil {
		return QueueNames{}, &Refusal{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error()}
	}
	found := QueueNames{Main: spec.main, Queue: spec.dlq}
	for i, tier := range contractTiers(spec) {
		found.Tiers = append(found.Tiers, TierRoute{
			Queue: spec.tiers[i].queue, Delay: time.Duration(tier.Delay), Route: tier.Route,
		})
	}
	return found, nil
}
