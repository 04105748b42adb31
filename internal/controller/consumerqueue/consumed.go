package consumerqueue

import (
	"fmt"
	"slices"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/rabbit"
)

// How many counts in a row have to find the same before the status says so. A single count may find somebody who just looked, and a
// consumer that comes and goes must not have the status written each time.
const (
	countsUntilConsumed = 2
	countsUntilFree     = 10
)

// isConsumed says whether a status is to tell that others consume a queue. told says that the status tells so already: the status is what
// is remembered when the operator starts again.
func isConsumed(told bool, known rabbit.Consumers) bool {
	switch {
	case known.Disabled:
		return false
	case told:
		return known.Others || known.Counts < countsUntilFree
	}
	return known.Others && known.Counts >= countsUntilConsumed
}

// tellsConsumed says whether a status tells that others consume a queue.
func tellsConsumed(status *v1alpha1.ConsumerQueueStatus, queue string) bool {
	return slices.ContainsFunc(status.Advisories, func(advisory v1alpha1.Advisory) bool {
		return advisory.Code == v1alpha1.AdvisoryDeadLetterQueueConsumed && advisory.Name == queue
	})
}

// deadLetterQueueConsumed is the advisory that others consume the dead-letter queue. It does not say how many there are: the status would
// have to be written whenever one comes or goes.
func (v *vhostScope) deadLetterQueueConsumed() []v1alpha1.Advisory {
	var advisories []v1alpha1.Advisory
	for _, queue := range v.desired.Queues {
		if queue.Role != v1alpha1.RoleDeadLetter {
			continue
		}
		if !isConsumed(tellsConsumed(v.status, queue.Name), v.connection.Consumers(queue.Name)) {
			continue
		}
		advisories = append(advisories, v1alpha1.Advisory{
			Code: v1alpha1.AdvisoryDeadLetterQueueConsumed, Name: queue.Name,
			Message: fmt.Sprintf("queue %q has consumers other than Warren: what they hold can be neither seen, moved nor deleted, "+
				"and what they give back may have lost its place; stop them, unless they are meant to take dead letters away", queue.Name),
		})
	}
	return advisories
}

// hasOutdatedConsumers says whether a status is to be written because of the last count of consumers. It asks about each dead-letter queue,
// and so has the next count ask, too.
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
		told := tellsConsumed(status, entry.Name)
		outdated = isConsumed(told, broker.Consumers(entry.Name)) != told || outdated
	}
	return outdated
}
