package topology

import (
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/vhost"
)

// DeadLetters is where the dead letters of a ConsumerQueue come from, where they wait, and where they can be moved to.
type DeadLetters struct {
	// Main is the main queue.
	Main string
	// Queue is the dead-letter queue; empty where dead-lettering is disabled.
	Queue string
	// Tiers are the delay tiers, the shortest delay first.
	Tiers []TierRoute
}

// TierRoute is a delay tier and how messages come there.
type TierRoute struct {
	Queue string
	Delay time.Duration
	Route contract.Route
}

// DeadLettersOf finds the queues of a ConsumerQueue, on a broker of the given version. The error is a *Refusal.
func DeadLettersOf(cq *v1alpha1.ConsumerQueue, version vhost.Version) (DeadLetters, error) {
	spec, err := resolve(cq, version)
	if err != nil {
		return DeadLetters{}, &Refusal{Reason: v1alpha1.ReasonInvalidSpec, Message: err.Error()}
	}
	found := DeadLetters{Main: spec.main, Queue: spec.dlq}
	for i, tier := range contractTiers(spec) {
		found.Tiers = append(found.Tiers, TierRoute{
			Queue: spec.tiers[i].queue, Delay: time.Duration(tier.Delay), Route: tier.Route,
		})
	}
	return found, nil
}
