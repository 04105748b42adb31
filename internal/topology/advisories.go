package topology

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// Advisories returns the risks of a spec on a broker of the given version. It returns none if the spec is invalid.
func Advisories(cq *v1alpha1.ConsumerQueue, version vhost.Version) []v1alpha1.Advisory {
	spec, err := resolve(cq, version)
	if err != nil {
		return nil
	}
	return lowDeliveryLimit(spec)
}

func lowDeliveryLimit(spec resolved) []v1alpha1.Advisory {
	limit, isLow := limitBelowAttempts(spec)
	if !isLow {
		return nil
	}
	return []v1alpha1.Advisory{{
		Code: v1alpha1.AdvisoryDeliveryLimitBelowAttempts, Name: spec.main,
		Message: fmt.Sprintf("retry.maxAttempts is %d, and this broker (%s) counts deliveries across rejects: once a message has been "+
			"rejected %d times, a lost connection dead-letters it. Set queue.deliveryLimit to Unlimited or to at least retry.maxAttempts",
			spec.maxAttempts, spec.version, limit),
	}}
}

// limitBelowAttempts reports whether the main queue's delivery limit is below retry.maxAttempts. RabbitMQ 4.3 makes this possible
// with Reject: a message that returns from the delay tier retains its delivery count.
func limitBelowAttempts(spec resolved) (limit int64, isLow bool) {
	if spec.rejectMode != v1alpha1.RejectByReason || !spec.version.AtLeast(vhost.RabbitMQ43) {
		return 0, false
	}
	limit = BrokerDeliveryLimit
	if given := spec.queue.DeliveryLimit; given != nil {
		switch {
		case given.Type == intstr.Int:
			limit = int64(given.IntVal)
		case given.StrVal == v1alpha1.DeliveryLimitUnlimited:
			return 0, false
		}
	}
	return limit, int64(spec.maxAttempts) > limit
}
