package topology

import (
	"fmt"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// overlap says whether an exchange of a type takes some routing key by both of two bindings.
func overlap(exchange v1alpha1.ExchangeType, a, b string) bool {
	switch exchange {
	case v1alpha1.ExchangeFanout:
		return true
	case v1alpha1.ExchangeDirect:
		return a == b
	case v1alpha1.ExchangeTopic:
		return topicsOverlap(topicWords(a), topicWords(b))
	}
	return false
}

// topicsOverlap says whether some key matches both patterns.
func topicsOverlap(a, b []string) bool {
	below := make([]bool, len(b)+1) // below[j]: the words of a from the next one on and those of b from j on have a common key
	for i := len(a); i >= 0; i-- {
		row := make([]bool, len(b)+1)
		for j := len(b); j >= 0; j-- {
			switch {
			case i == len(a) && j == len(b):
				row[j] = true
			case i < len(a) && a[i] == "#":
				row[j] = below[j] || j < len(b) && row[j+1]
			case j < len(b) && b[j] == "#":
				row[j] = row[j+1] || i < len(a) && below[j]
			case i < len(a) && j < len(b):
				row[j] = below[j+1] && (a[i] == "*" || b[j] == "*" || a[i] == b[j])
			}
		}
		below = row
	}
	return below[0]
}

// checkTierKeys refuses delay tiers whose routing keys overlap.
func checkTierKeys(spec resolved) error {
	if spec.retryExchange == nil {
		return nil
	}
	for i, tier := range spec.tiers {
		for _, other := range spec.tiers[:i] {
			if overlap(spec.retryExchange.Type, other.key, tier.key) {
				return &Refusal{Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf(
					"the routing keys %q and %q of retry.delayTiers overlap on the %s exchange %q, and a retry would wait in both tiers: "+
						"choose keys that no message can match both of",
					other.key, tier.key, spec.retryExchange.Type, spec.retryExchange.Name)}
			}
		}
	}
	return nil
}
