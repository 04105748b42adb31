package topology

import (
	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// checkTierKeys refuses delay tiers whose routing keys overlap.
func checkTierKeys(spec resolved) error {
	if spec.retryExchange == nil {
		return nil
	}
	for i, tier := range spec.tiers {
		for _, other := range spec.tiers[:i] {
			if vhost.Overlap(string(spec.retryExchange.Type), other.key, tier.key) {
				return refuse(v1alpha1.ReasonInvalidSpec,
					"the routing keys %q and %q of retry.delayTiers overlap on the %s exchange %q, and a retry would wait in both tiers. "+
						"Choose keys that never match the same message",
					other.key, tier.key, spec.retryExchange.Type, spec.retryExchange.Name)
			}
		}
	}
	return nil
}
