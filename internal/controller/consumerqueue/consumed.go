package consumerqueue

import (
	"fmt"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/rabbit"
)

// The number of successive counts that must agree before the status changes. A single count may include a client that browses the queue,
// and a consumer that reconnects often must not cause a write each time.
const (
	countsUntilConsumed = 2
	countsUntilFree     = 10
)

// isConsumed reports whether the status must report other consumers of a queue. reported is whether the status already does. The status
// survives a restart of the manager, but the counts do not.
func isConsumed(reported bool, known rabbit.Consumers) bool {
	switch {
	case known.Disabled:
		return false
	case reported:
		return known.Others || known.Counts < countsUntilFree
	}
	return known.Others && known.Counts >= countsUntilConsumed
}

func reportsConsumers(status *v1alpha1.ConsumerQueueStatus, queue string) bool {
	return slices.ContainsFunc(status.Advisories, func(advisory v1alpha1.Advisory) bool {
		return advisory.Code == v1alpha1.AdvisoryDeadLetterQueueConsumed && advisory.Name == queue
	})
}

// deadLetterQueueConsumed returns the advisory about other consumers of the dead-letter queue. It does not contain their number, because
// each change of the number would require a write.
func (v *vhostScope) deadLetterQueueConsumed() []v1alpha1.Advisory {
	var advisories []v1alpha1.Advisory
	for _, queue := range v.desired.Queues {
		if queue.Role != v1alpha1.RoleDeadLetter {
			continue
		}
		if !isConsumed(reportsConsumers(v.status, queue.Name), v.connection.Consumers(queue.Name)) {
			continue
		}
		advisories = append(advisories, v1alpha1.Advisory{
			Code: v1alpha1.AdvisoryDeadLetterQueueConsumed, Name: queue.Name,
			Message: fmt.Sprintf("queue %q has consumers other than Warren. Warren cannot browse, move or delete messages that these "+
				"consumers hold. Messages that they return may change their order. Stop the consumers, unless they consume dead letters "+
				"on purpose", queue.Name),
		})
	}
	return advisories
}

// hasOutdatedConsumers reports whether the last count of consumers requires a write of the status. It asks about each dead-letter queue, so
// that the next count includes the queue.
func hasOutdatedConsumers(status *v1alpha1.ConsumerQueueStatus, broker *brokers.Broker) bool {
	if !isRecordedAt(status, broker) {
		return false
	}
	outdated := false
	for _, entry := range status.Topology {
		if entry.Kind != v1alpha1.KindQueue || entry.Role != v1alpha1.RoleDeadLetter ||
			entry.State == v1alpha1.StateOrphaned || entry.State == v1alpha1.StateUnknown {
			continue
		}
		reported := reportsConsumers(status, entry.Name)
		outdated = isConsumed(reported, broker.Consumers(entry.Name)) != reported || outdated
	}
	return outdated
}
