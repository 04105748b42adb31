package consumerqueue

import (
	"fmt"

	"github.com/warren-mq/warren/api/v1alpha1"
	consumercontract "github.com/warren-mq/warren/consumer/contract"
)

// sharedDeadLetterQueue is the advisory that other ConsumerQueues have the dead-letter queue too. It names none of them, so that the
// status need not be written when one comes or goes and others stay.
func (v *vhostScope) sharedDeadLetterQueue() []v1alpha1.Advisory {
	var advisories []v1alpha1.Advisory
	for _, queue := range v.desired.Queues {
		if queue.Role != v1alpha1.RoleDeadLetter || !v.peers.Shares(queue.Name) {
			continue
		}
		advisories = append(advisories, v1alpha1.Advisory{
			Code: v1alpha1.AdvisorySharedDeadLetterQueue, Name: queue.Name,
			Message: fmt.Sprintf("queue %q is the dead-letter queue of other ConsumerQueues too: a Redrive leaves a parked message "+
				"that does not tell by the header %s whose it is, unless spec.select.reasons names Parked, and then takes those "+
				"of all; have consumers set the header, or give each ConsumerQueue a dead-letter queue of its own",
				queue.Name, consumercontract.HeaderFailureQueue),
		})
	}
	return advisories
}
